"""Which session descends from which: decisions on values, without database and without git."""
