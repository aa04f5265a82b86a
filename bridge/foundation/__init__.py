"""Lowest layer: errors, ids, clock, canonical JSON and hashes, configuration, redaction. Imports nothing of Bridge."""
