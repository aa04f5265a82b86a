"""Transcripts of Claude Code: JSON lines with ``uuid`` and ``parentUuid``. Pure."""
