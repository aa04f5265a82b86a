"""Search inside one session over a derived index."""
