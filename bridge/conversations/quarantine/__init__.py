"""Queries about what is damaged or cannot be read, and about sessions that are set aside for it."""
