"""The only package that runs git. Synchronous, blocking code without knowledge of the database."""
