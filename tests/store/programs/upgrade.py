"""Upgrades a database with the migrations of a folder."""

import sys
from pathlib import Path

from joinsight.store import database

database.migrations_folder = lambda: Path(sys.argv[2])
with database.connect(sys.argv[1]) as engine:
    database.upgrade(engine)
    database.check_schema(engine)
