"""Taking payloads and whole sessions away; the only rows of the forest that ever go."""
