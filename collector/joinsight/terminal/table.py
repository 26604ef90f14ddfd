"""Tables: on a terminal the flexible column is cut to fit, elsewhere nothing is. Columns without a value are left out.

rich's Table cuts all columns, numbers too, where the width is short, and ends lines in blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from joinsight.terminal.console import cut_at
from joinsight.terminal.escaping import visible_line

GAP = "  "
_LEAST_TEXT = 16
_MOST_PADDED = 80
"""Where nothing is cut, longer cells are not padded to: one long text would push a column out of sight."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `flexible` is the one whose cells are cut to fit the width.

    On a terminal that is too narrow for the others, the columns with `drop` are left out, the highest first.
    """

    header: str
    cells: Sequence[str | Text]
    right: bool = False
    flexible: bool = False
    drop: int = 0


def print_columns(out: Console, columns: Sequence[Column]) -> None:
    """Print the table, on a terminal cut at its width."""
    for line in lines(columns, cut_at(out)):
        out.print(line, soft_wrap=True)


def lines(columns: Sequence[Column], width: int | None) -> Iterator[Text]:
    """The table's lines, header first, to fit `width` unless its numbers need more; whole for None."""
    kept = [column for column in columns if any(str(cell) for cell in column.cells)]
    widths = {column.header: max(len(column.header), *(_text(c).cell_len for c in column.cells)) for column in kept}
    dropped = []
    for column in sorted((column for column in kept if column.drop), key=lambda column: -column.drop):
        if width is not None and _left(kept, widths, width) < 0:
            kept.remove(column)
            dropped.append(column.header)
    for column in kept:
        if column.flexible:
            most = _MOST_PADDED if width is None else _LEAST_TEXT + max(0, _left(kept, widths, width))
            widths[column.header] = min(widths[column.header], most)
    yield _line([Text(column.header) for column in kept], kept, widths, "dim", width)
    for i in range(len(columns[0].cells)):
        yield _line([_text(column.cells[i]) for column in kept], kept, widths, "", width)
    if dropped:
        yield Text(f"The terminal is too narrow for: {', '.join(dropped)}", "dim")


def _left(columns: Sequence[Column], widths: Mapping[str, int], width: int) -> int:
    """What is left of the width; negative if it is not enough."""
    needed = sum(min(widths[c.header], _LEAST_TEXT) if c.flexible else widths[c.header] for c in columns)
    return width - needed - len(GAP) * (len(columns) - 1)


def _text(cell: str | Text) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(visible_line(cell))


def _line(cells: list[Text], columns: list[Column], widths: Mapping[str, int], style: str, width: int | None) -> Text:
    for cell, column in zip(cells, columns, strict=True):
        if column.flexible and width is not None:
            cell.truncate(widths[column.header], overflow="ellipsis")
        padding = max(0, widths[column.header] - cell.cell_len)
        if column.right:
            cell.pad_left(padding)
        else:
            cell.pad_right(padding)
    line = Text(GAP).join(cells)
    line.rstrip()
    line.stylize_before(style)
    return line
