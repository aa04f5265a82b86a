"""What coding agents call at their hooks. Nothing here imports anything of Bridge."""
