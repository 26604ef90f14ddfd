"""``python -m joinsight.findings.page docs/findings.md`` writes the table of thresholds between its two marks."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joinsight.findings.thresholds import Thresholds
from joinsight.generated import rewrite


def table() -> Iterator[str]:
    """The lines of the table, in Markdown."""
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
    rewrite(Path(sys.argv[1]), "thresholds", table())
