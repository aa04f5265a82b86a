"""What an entry means, per semantic schema version: kinds, validation, upcasts, stamps. Pure."""
