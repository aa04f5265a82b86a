"""Delegations: from a request over its worker to a recorded result, its adoption, and what a crash leaves."""
