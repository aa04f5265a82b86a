"""Whether sessions are whole, as rows."""
