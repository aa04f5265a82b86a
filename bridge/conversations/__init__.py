"""The conversation forest: sessions, immutable entries, heads, cursors, branches, projection."""
