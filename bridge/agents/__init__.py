"""The agent tree: identities, roles, policy decisions, attempts."""
