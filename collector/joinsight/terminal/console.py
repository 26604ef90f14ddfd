"""The consoles of all commands: colours and bars of rich, with texts that cannot control the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from joinsight.terminal.escaping import unguarded, visible

WIDTH = 100
"""Columns of paragraphs, at most; on a terminal its width."""


def console() -> Console:
    """A console on stdout: colours and the full width on a terminal; elsewhere plain text, of which nothing is cut."""
    return _Console(sys.stdout, width=None if sys.stdout.isatty() else WIDTH)


def text_console(text: TextIO) -> Console:
    """A console that writes plain text, of which nothing is cut."""
    return _Console(text, width=WIDTH, is_terminal=False)


def cut_at(out: Console) -> int | None:
    """The width at which lines are cut; None where the output is not a terminal, where they are whole."""
    return out.width if out.file.isatty() else None


def paragraph_width(out: Console) -> int:
    """The width at which paragraphs are wrapped."""
    return min(out.width, WIDTH)


def print_text(out: Console, text: Text) -> None:
    """Print a text, on a terminal wrapped between words, else on one line."""
    out.print(text, soft_wrap=cut_at(out) is None)


def print_line(out: Console, line: Text) -> None:
    """Print a line, on a terminal cut at its width."""
    width = cut_at(out)
    if width is not None:
        line.truncate(width, overflow="ellipsis")
    out.print(line, soft_wrap=True)


def progress() -> Progress:
    """A progress bar on stderr if that is a terminal, else nothing."""
    console = _Console(sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Without redirection, because rich would interpret the escape sequences in what others print
    return Progress(
        *columns, console=console, disable=not console.is_terminal, redirect_stdout=False, redirect_stderr=False
    )


class _Console(Console):
    """Writes past the guard, so that its own colours work, and applies `visible` itself; texts are not markup."""

    def __init__(self, stream: TextIO, width: int | None = None, is_terminal: bool | None = None) -> None:
        super().__init__(
            file=unguarded(stream),
            width=width,
            force_terminal=is_terminal,
            force_jupyter=False,  # else rich would show texts in the notebook instead of writing them
            highlight=False,
            markup=False,
            emoji=False,
        )

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """All that is printed passes here, of whatever type."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)
