"""How Joinsight says what it has stored, in the terminal and on its pages alike: names, texts, numbers of a node.

Takes rows as `reading` gives them and gives plain text; how that looks is the matter of `cli` and `pages`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from joinsight.findings import skewed_shuffle
from joinsight.findings.wording import plain
from joinsight.rows import Row

_SHORT_KEY = 8


def execution_name(r: Row) -> str:
    """What `joinsight plan` takes, and what stands behind ``/executions/`` in a page's address."""
    attempt = f"{r['attempt_id']}/" if r["attempt_id"] else ""
    return f"{r['application_id']}/{attempt}{r['execution_id']}"


def when(moment: datetime) -> str:
    """To the minute, UTC."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M")


def one_line(text: str) -> str:
    """Without line breaks and runs of blanks."""
    return " ".join(text.split())


def number_text(value: int | None) -> str:
    """``1,500,000``; nothing for what was not measured."""
    return "" if value is None else f"{value:,}"


def ratio_text(value: float | None) -> str:
    """``6.3×``."""
    return "" if value is None else f"{value:,.1f}×"


def short_key(key: str | None) -> str:
    """As much of a key as tables show, and as `--shape` and `--operator` still find."""
    return (key or "")[:_SHORT_KEY]


def partitioned_by(r: Row) -> str:
    """What a shuffle partitions by."""
    return plain(", ".join(r["keys"] or ()) or r["partitioning"] or "")


def partitions(r: Row) -> str:
    """Of a shuffle: as planned, and as AQE reads them if that is another number."""
    planned, now = r["partitions"], r["aqe_partitions"]
    return number_text(planned) if now is None or now == planned else f"{number_text(planned)}→{number_text(now)}"


def build_side(r: Row) -> str:
    """Of a join: the side that it builds; one with a question mark could have been broadcast."""
    could_be = f"{r['broadcast_side']}?" if r["broadcast_verdict"] == "possible" else ""
    built = r["build_side"] or ""
    return could_be if could_be.startswith(built) else f"{built}, {could_be}".removesuffix(", ")


def skewed_nodes(findings: Iterable[Row]) -> set[int]:
    """The nodes whose skew is a finding, and so stands out: by the thresholds of the collector that looked at them."""
    return {row["node_id"] for row in findings if row["finding"] == skewed_shuffle.HEURISTIC.id}


def join_keys(r: Row) -> str:
    """What a join joins on."""
    pairs = zip(r["left_keys"] or (), r["right_keys"] or (), strict=False)
    return plain(", ".join(a if plain(a) == plain(b) else f"{a} = {b}" for a, b in pairs) or r["condition"] or "")
