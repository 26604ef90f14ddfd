"""The store: PostgreSQL, its schema, and all reads and writes that are not one of `queries`."""

URL_VARIABLE = "JOINSIGHT_DATABASE_URL"
"""The environment variable that names the server."""
