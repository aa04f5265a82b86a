"""The scripted agent: an agent without a model, deterministic and offline, for trying Bridge out and for its tests.

A program of its own (``python -m bridge.adapters.scripted``), written with the standard library alone: it starts
fast, and it speaks the protocol by itself, so that the client is not only tested against the library it uses.
"""
