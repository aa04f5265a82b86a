"""Speak to harnesses and yield normalized events. Neither database nor git."""
