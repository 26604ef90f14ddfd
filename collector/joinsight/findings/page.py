"""``python -m joinsight.findings.page docs/findings.md`` writes the tables of wall time and of thresholds there."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joinsight.base.generated import rewrite
from joinsight.findings import HEURISTICS
from joinsight.findings.thresholds import Thresholds


def wall_time() -> Iterator[str]:
    """What the wall time of findings is, as a table in Markdown."""
    kinds: dict[str, list[str]] = {}
    for heuristic in HEURISTICS:
        kinds.setdefault(heuristic.waits_for, []).append(heuristic.id)
    yield "| finding | `wall_ms`: how long the query waited for |"
    yield "|---|---|"
    for waits_for, ids in kinds.items():
        yield f"| {', '.join(ids)} | {waits_for} |"


def thresholds() -> Iterator[str]:
    """The thresholds as a table in Markdown."""
    yield "| threshold | default | unit | meaning |"
    yield "|---|---|---|---|"
    for field in dataclasses.fields(Thresholds):
        unit = field.metadata["unit"]
        yield f"| `{field.name}` | {_shown(field.default, unit)} | {unit} | {field.metadata['meaning']} |"


def _shown(value: Any, unit: str) -> str:
    if unit == "bytes":
        return f"{value // (1 << 30)}g" if value % (1 << 30) == 0 else f"{value // (1 << 20)}m"
    return f"{value:,.15g}"


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]), "wall time", wall_time())
    rewrite(Path(sys.argv[1]), "thresholds", thresholds())
