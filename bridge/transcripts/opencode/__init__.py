"""OpenCode's database: sessions, messages and parts as rows. No database of Bridge's is touched."""
