"""Lists of entries, as rows."""
