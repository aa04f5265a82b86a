"""Tokens by which an agent's process proves which session it may act for."""
