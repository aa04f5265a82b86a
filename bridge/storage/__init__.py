"""The database: engine, tables, the writer thread and its transactions, schema versions."""
