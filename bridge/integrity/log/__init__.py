"""The Merkle log over the audit events of all chains: derived data, and the proofs made of it."""
