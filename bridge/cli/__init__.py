"""Composition root: the only package, beside the hook client, that prints, exits and reads the environment."""
