"""One module for each schema version, named after the version it leads to."""
