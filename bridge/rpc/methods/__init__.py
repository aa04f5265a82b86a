"""The table of methods: what may be called, with what, by whom, and what comes back."""
