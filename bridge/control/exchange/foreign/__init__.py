"""Taking in what other programs recorded: transcripts of agents, as files, folders and databases."""
