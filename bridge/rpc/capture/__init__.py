"""The door through which hooks of coding agents hand in their events."""
