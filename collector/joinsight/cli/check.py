"""The result of a check, and the checks of a collector; `joinsight doctor` prints them."""

from __future__ import annotations

import gzip
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError

from joinsight.base.units import bytes_text
from joinsight.cli.collector import open_collector, reason_of, send
from joinsight.serve.refusals import DOCTOR
from joinsight.store.database import embedded_folder, reason

ANSWER_SECONDS = 10.0
LOW_BYTES = 1 << 30
"""Less free space than this needs attention: PostgreSQL stops when its disk is full."""

_TEST_WRITE = """
    CREATE TEMPORARY TABLE joinsight_doctor ON COMMIT DROP AS
    SELECT repeat('x', 1000) FROM generate_series(1, 1000)
"""
_MAY_NOT_WRITE = ("42501", "25006")  # SQLSTATE: insufficient privilege, read-only transaction
_REFUSED = (
    "401: a driver's token is missing or wrong; 403: it calls the collector by another name; 415: it is not a listener."
    " The collector's log has their addresses. Drivers keep their documents, and deliver them when this is fixed."
)
_NO_SPACE = (
    "Free space on PostgreSQL's disk: enlarge it, or drop old months (joinsight db prune --keep 90d)."
    " Drivers keep their documents until it can store them."
)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: `remedy` is what to do if it needs attention, else None."""

    what: str
    found: str
    remedy: str | None = None


def check_writing(engine: Engine) -> Iterator[Check]:
    """Check that PostgreSQL can store new data, and how much space an embedded one has left.

    A full disk shows only when a file grows: 1 MiB is written to a temporary table and rolled back.
    """
    try:
        with engine.connect() as connection:
            connection.execute(text(_TEST_WRITE))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) in _MAY_NOT_WRITE:
            yield Check("writing", f"not tested, because this user may not write: {reason(error)}")
        else:
            yield Check("writing", f"PostgreSQL cannot store documents: {reason(error)}", _NO_SPACE)
    else:
        yield Check("writing", "a test write succeeded")
    folder = embedded_folder(engine)
    if folder is not None:
        disk = shutil.disk_usage(folder)
        found = f"{bytes_text(disk.free)} of {bytes_text(disk.total)} are free in {folder}"
        yield Check("disk", found, _NO_SPACE if disk.free < LOW_BYTES else None)


def check_collector(url: str, token_file: Path | None, ca_file: Path | None) -> list[Check]:
    """Check that a collector answers at `url`, has its database, and accepts documents with this token."""
    try:
        with open_collector(url, token_file, ca_file, ANSWER_SECONDS) as client:
            client.headers["User-Agent"] = DOCTOR
            alive = client.get("/healthz")
            if alive.status_code == 403:
                remedy = "Drivers that call it by this name are refused too. Use another --url."
                return [Check("collector", f"{url} refuses: {alive.text.strip()}", remedy)]
            if (alive.status_code, alive.text) != (200, "ok\n"):
                found = f"{url} is not a collector (status {alive.status_code})"
                return [Check("collector", found, "Name the collector's address with --url.")]
            ready = client.get("/readyz")
            if ready.status_code != 200:
                remedy = "Drivers keep their documents until it is; see the collector's log."
                return [Check("collector", f"{url} is running, but not ready: {ready.text.strip()}", remedy)]
            refused = re.findall(r'^joinsight_refused_clients{status="(\d+)"} (\d+)', client.get("/metrics").text, re.M)
            accepted = send(client, gzip.compress(b""))
    except httpx.RequestError as error:
        remedy = "Start it (joinsight serve), or name its address with --url. Drivers keep their documents meanwhile."
        return [Check("collector", f"no answer at {url}: {reason_of(error)}", remedy)]
    if accepted.status_code == 401:
        remedy = "Set JOINSIGHT_TOKEN or --token-file to one of its tokens, here and in the drivers."
        return [Check("collector", f"{url} is ready, but does not accept this token", remedy)]
    if accepted.status_code != 200:
        remedy = "See the collector's log."
        return [Check("collector", f"{url} answers {accepted.status_code} to an empty request", remedy)]
    checks = [Check("collector", f"{url} is ready and accepts documents")]
    statuses = [f"{number} with {status}" for status, number in refused if int(number)]
    if statuses:
        checks.append(Check("clients", f"refused in the last hour, by address: {', '.join(statuses)}", _REFUSED))
    return checks
