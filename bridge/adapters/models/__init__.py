"""Language models that help to find a chat: a port, and two ways to have one."""
