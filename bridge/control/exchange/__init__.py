"""Sessions as files: exported, put into documents for people, and taken in again."""
