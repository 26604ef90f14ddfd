"""Prunes what is older than 100 days."""

import sys
from datetime import timedelta

from joinsight.store import database, prune

with database.connect(sys.argv[1]) as engine:
    prune.prune(engine, timedelta(days=100))
