"""The only package that runs git or imports pygit2. Synchronous, blocking code without knowledge of the database."""
