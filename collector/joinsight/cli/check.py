"""The result of a check, and the checks of a collector; `joinsight doctor` prints them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import httpx

from joinsight.cli.collector import open_collector, reason_of, send

ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """The result of a check: `remedy` is what to do if it needs attention, else None."""

    what: str
    found: str
    remedy: str | None = None


def check_collector(url: str, token_file: Path | None, ca_file: Path | None) -> list[Check]:
    """Check that a collector answers at `url`, has its database, and accepts documents with this token."""
    try:
        with open_collector(url, token_file, ca_file, ANSWER_SECONDS) as client:
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
    return [Check("collector", f"{url} is ready and accepts documents")]
