"""Rollouts of Codex: JSON lines of two streams that say the same, of which one is read. Pure."""
