"""The store: PostgreSQL, its schema, and all reads and writes that are not a query of `reading`."""
