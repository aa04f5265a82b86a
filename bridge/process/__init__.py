"""Child processes: own process groups, limits, recorded identity, orderly and forced ends."""
