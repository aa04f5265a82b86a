"""``bridge chat``: the prompt, its verbs, and how turns look."""
