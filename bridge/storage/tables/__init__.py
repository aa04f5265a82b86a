"""Every table of the store, one module per owner. Nothing but declarations."""
