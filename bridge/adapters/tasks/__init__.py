"""Tasks for agents that are talked to: what they are told, what they hand in, and how it ends."""
