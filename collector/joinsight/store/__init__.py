"""The store: PostgreSQL, its schema, and all reads and writes that are not one of `queries`.

`writer` writes a batch, `replacement` decides what it replaces, `delivery` accounts for it; `partitions` and `prune`
create and drop months; `database` opens a server, or the one in a folder (`embedded`), and upgrades its schema.
"""

URL_VARIABLE = "JOINSIGHT_DATABASE_URL"
"""The environment variable that names the server."""
