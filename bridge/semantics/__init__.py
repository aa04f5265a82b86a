"""What an entry means, per semantic schema version: kinds, validation, upcasts, stamps. Values and pure functions only."""
