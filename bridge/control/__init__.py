"""Use cases; the only place where the three trees meet."""
