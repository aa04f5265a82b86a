"""Notes of an older kind: folders of flat YAML files, and SQLite tables called ``signals``. Read, never written."""
