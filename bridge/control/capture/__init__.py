"""Recording the conversations that people have with coding agents elsewhere, as their hooks report them."""
