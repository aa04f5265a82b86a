"""The contents behind stamps: kept when a stamp is taken, put back when somebody asks for the files."""
