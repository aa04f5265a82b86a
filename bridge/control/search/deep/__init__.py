"""The deep search: a model reads what the index found, where that did not settle the question."""
