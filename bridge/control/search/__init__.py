"""Finding: again in one chat, a chat among all, and the index that both read."""
