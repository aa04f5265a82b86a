"""Erasing a recorded secret, and removing whole sessions."""
