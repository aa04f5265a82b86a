"""Adoption: what workers did becomes part of a git branch, whole or not at all; and its opposite, discarding."""
