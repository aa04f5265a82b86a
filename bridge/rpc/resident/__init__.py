"""The resident controller: where it is found, how it is started and held, and the door on its Unix socket."""
