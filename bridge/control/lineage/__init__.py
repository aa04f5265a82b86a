"""Where a session comes from, what it wakes up with, and the notes that agents leave."""
