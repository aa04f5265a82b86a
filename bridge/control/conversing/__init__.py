"""Talking to an agent turn by turn, with everything recorded where it belongs."""
