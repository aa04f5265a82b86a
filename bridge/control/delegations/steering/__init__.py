"""Steering workers while they run: quotas, approvals, messages, retries."""
