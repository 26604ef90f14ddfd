"""Tables in the terminal: only the flexible column is shortened, and columns without a value are left out.

rich's Table does not fit: it cuts all columns, numbers too, where the width is short, and ends lines in blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.text import Text

from joinsight.terminal import visible_line

GAP = "  "
_LEAST_TEXT = 16


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `flexible` is the one whose cells are cut to fit the width."""

    header: str
    cells: Sequence[str | Text]
    right: bool = False
    flexible: bool = False


def lines(columns: Sequence[Column], width: int) -> Iterator[Text]:
    """The table's lines, header first, `width` wide unless its numbers need more."""
    kept = [column for column in columns if any(str(cell) for cell in column.cells)]
    widths = [max(len(column.header), *(_text(cell).cell_len for cell in column.cells)) for column in kept]
    rest = width - sum(w for column, w in zip(kept, widths, strict=True) if not column.flexible)
    rest -= len(GAP) * (len(kept) - 1)
    widths = [min(w, max(_LEAST_TEXT, rest)) if c.flexible else w for c, w in zip(kept, widths, strict=True)]
    yield _line([Text(column.header) for column in kept], kept, widths, "dim")
    for i in range(len(columns[0].cells)):
        yield _line([_text(column.cells[i]) for column in kept], kept, widths, "")


def _text(cell: str | Text) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(visible_line(cell))


def _line(cells: list[Text], columns: list[Column], widths: list[int], style: str) -> Text:
    for cell, column, width in zip(cells, columns, widths, strict=True):
        if column.flexible:
            cell.truncate(width, overflow="ellipsis")
        padding = width - cell.cell_len
        if column.right:
            cell.pad_left(padding)
        else:
            cell.pad_right(padding)
    line = Text(GAP).join(cells)
    line.rstrip()
    line.stylize_before(style)
    return line
