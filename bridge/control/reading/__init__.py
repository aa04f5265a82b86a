"""Reading the forest for those who look at it: logs, trees, branches, snapshots, and how entries are put in words."""
