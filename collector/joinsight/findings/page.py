"""``python -m joinsight.findings.page docs/findings.md`` writes the table of thresholds between its two marks."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from joinsight.findings.thresholds import Thresholds

MARKS = "<!-- thresholds: written by make docs -->\n", "<!-- end of thresholds -->\n"


def table() -> Iterator[str]:
    """The lines of the table, in Markdown."""
    yield "| threshold | standard | unit | meaning |"
    yield "|---|---|---|---|"
    for field in dataclasses.fields(Thresholds):
        unit = field.metadata["unit"]
        yield f"| `{field.name}` | {_shown(field.default, unit)} | {unit} | {field.metadata['meaning']} |"


def _shown(value: Any, unit: str) -> str:
    if unit == "bytes":
        return f"{value // (1 << 30)}g" if value % (1 << 30) == 0 else f"{value // (1 << 20)}m"
    return f"{value:,.15g}"


def written_into(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return "".join((before, MARKS[0], *(f"{line}\n" for line in table()), MARKS[1], after))


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(written_into(path.read_text()))
