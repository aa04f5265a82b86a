"""Plan files: reading and checking them, and running what they ask for."""
