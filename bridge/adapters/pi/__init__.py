"""The pi coding agent over its own RPC mode: JSON lines, commands in, events out."""
