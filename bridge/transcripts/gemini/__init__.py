"""Chats of Gemini CLI: JSON lines that are added and changed, or one document of an older version. Pure."""
