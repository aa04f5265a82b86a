"""Decides on values which session continues which. No database."""
