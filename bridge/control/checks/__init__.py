"""Whether what is stored is sound: checks of the store, of its proofs, and anchors outside of it."""
