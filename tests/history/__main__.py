"""Fills a database with the generated history up to now, and prints what was planted in it: see README.md."""

from __future__ import annotations

import argparse
from datetime import datetime, timezone
from pathlib import Path

from tests.history import generate

from joinsight.store.database import open_database, upgrade


def main() -> None:
    """Generate `--days` of `--jobs` into the embedded PostgreSQL in the folder `--data`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of its own")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--jobs", type=int, default=200)
    arguments = parser.parse_args()
    with open_database(None, arguments.data, create=True) as engine:
        upgrade(engine)
        planted = generate(engine, days=arguments.days, end=datetime.now(timezone.utc), jobs=arguments.jobs)
    print(", ".join(f"{rows:,} {table}" for table, rows in planted.rows.items()))
    for event in sorted(planted.events, key=lambda event: event.day):
        operator = (event.operator_key or "")[:8]
        print(f"{event.day:%Y-%m-%d}  {event.kind:<24}  {event.job_name:<28}  {event.query_shape[:8]}  {operator}")


if __name__ == "__main__":
    main()
