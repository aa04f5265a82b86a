"""Tombstones: what was erased or removed, on whose word, and what goes on being provable."""
