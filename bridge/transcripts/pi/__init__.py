"""Sessions of Pi, versions 1 to 3: JSON lines with a header, and from version 2 a tree of ids. Pure."""
