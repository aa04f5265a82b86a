"""The demonstration: its plan and the three small workers, which know nothing of Bridge but two files."""
