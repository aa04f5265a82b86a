"""Harnesses spoken to over the Agent Client Protocol: one program, one process, newline-delimited JSON-RPC."""
