"""The audit chain and what verify recomputes."""
