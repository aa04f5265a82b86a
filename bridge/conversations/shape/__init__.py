"""Paths as runs of sequences: their shape without reading them, their entries in pages from the leaf up."""
