"""One method table and the doors that serve it."""
