"""What passing sessions on asks of the forest."""
