"""Parsers of foreign and portable transcripts. Neither database nor git."""
