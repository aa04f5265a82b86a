"""What an agent is told of a conversation: contexts, compactions and checkpoints, and how it is restored."""
