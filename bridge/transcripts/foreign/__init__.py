"""What the readers of other programs' transcripts share: lines, repaired records, neutral entries. Pure."""
