"""Subtree hashes of large sessions, kept so that a root costs what changed: derived data."""
