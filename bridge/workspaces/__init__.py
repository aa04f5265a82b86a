"""The workspace tree: repositories and worktrees, their states, divergence, adoption of commits."""
