"""Uses the database of a folder for a moment, again and again."""

import sys
from pathlib import Path

import psycopg

from joinsight.store.embedded import embedded_postgres

for _ in range(8):
    with embedded_postgres(Path(sys.argv[1])) as url:
        psycopg.connect(url.replace("+psycopg", "")).close()
