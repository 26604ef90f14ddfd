"""Records commands in a terminal and draws the recording as an animated SVG.

    python tools/recording.py record FILE.cast 'joinsight queries' 'joinsight plan last'
    python tools/recording.py draw FILE.cast FILE.svg

The commands run in a real shell, on a screen of `COLUMNS` × `ROWS` that is cleared before each. FILE.cast has
asciinema's format (asciicast v2), so that `asciinema play` shows it, too. Pauses are shortened to `LONGEST_PAUSE`.
Readers who prefer reduced motion see the last screen.
"""

from __future__ import annotations

import codecs
import json
import os
import pty
import select
import struct
import sys
import time
from collections.abc import Iterator
from fcntl import ioctl
from html import escape
from itertools import groupby
from pathlib import Path
from termios import TIOCSWINSZ

import pyte

COLUMNS, ROWS = 104, 34
LONGEST_PAUSE = 1.0
"""Seconds: a longer pause of a command is shortened to this."""
READING = 5.0
"""Seconds for which the output of a command stands still."""
_PROMPT = "\x1b[1;32m$\x1b[0m "
_KEY = 0.04
_WIDTH, _HEIGHT, _MARGIN = 8.4, 18, 14
_COLOURS = {
    "default": "#d6dde6",
    "black": "#5a6575",
    "red": "#ff7b7b",
    "green": "#6cc584",
    "brown": "#f0b254",
    "blue": "#82b4f5",
    "magenta": "#b99af2",
    "cyan": "#4cc4bc",
    "white": "#d6dde6",
}

Event = tuple[float, str]
"""Seconds since the start, and what was written to the terminal."""


def record(commands: list[str]) -> list[Event]:
    """Run each command and record what it writes, as if it had been typed."""
    events: list[Event] = []
    now = 0.0

    def write(text: str, after: float) -> None:
        nonlocal now
        now += after
        events.append((round(now, 3), text))

    for command in commands:
        write("\x1b[H\x1b[2J" + _PROMPT, READING if events else 0.3)
        for key in command:
            write(key, _KEY)
        write("\r\n", 0.3)
        for pause, text in _output(command):
            write(text, min(pause, LONGEST_PAUSE))
    write("", READING)
    return events


def _output(command: str) -> Iterator[Event]:
    """What a command writes to a terminal, with the seconds since it last wrote; raises `SystemExit` if it fails."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp("bash", ["bash", "-c", f"stty cols {COLUMNS} rows {ROWS}; {command}"])
    ioctl(terminal, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    decoder, last = codecs.getincrementaldecoder("utf-8")(), time.monotonic()
    while select.select([terminal], [], []):
        try:
            text = decoder.decode(os.read(terminal, 1 << 16))
        except OSError:  # how Linux says that the other side has closed
            break
        now = time.monotonic()
        yield now - last, text
        last = now
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{command!r} failed with exit code {os.waitstatus_to_exitcode(status)}")


def frames(events: list[Event]) -> Iterator[tuple[float, list[list[pyte.screens.Char]]]]:
    """The screen after each event, as rows of characters."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    for at, text in events:
        stream.feed(text)
        yield at, [[screen.buffer[row][column] for column in range(COLUMNS)] for row in range(ROWS)]


def draw(events: list[Event]) -> str:
    """The recording as SVG: each row's content is shown as long as it stays the same."""
    end = events[-1][0]
    shown: list[tuple[float, float, int, str]] = []
    rows: dict[int, tuple[float, str]] = {}
    for at, screen in frames(events):
        for number, row in enumerate(screen):
            text = _row(row)
            since, before = rows.get(number, (at, ""))
            if text != before:
                if before:
                    shown.append((since, at, number, before))
                rows[number] = (at, text)
    shown += [(since, end, number, text) for number, (since, text) in rows.items() if text]
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, ROWS * _HEIGHT + 2 * _MARGIN
    spans = sorted({(since, until) for since, until, _, _ in shown})
    style = [
        f"text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace;"
        f"white-space:pre;fill:{_COLOURS['default']}}}.b{{font-weight:700}}",
        "@media (prefers-reduced-motion:no-preference){g{visibility:hidden}",
    ]
    for index, (since, until) in enumerate(spans):
        on, off = 100 * since / end, 100 * until / end
        hidden = f"{off:.3f}%{{visibility:hidden}}" if until < end else ""
        style.append(f"@keyframes k{index}{{0%{{visibility:hidden}}{on:.3f}%{{visibility:visible}}{hidden}}}")
        style.append(f".k{index}{{animation:k{index} {end:.1f}s step-end infinite}}")
    style.append("}@media (prefers-reduced-motion:reduce){g:not(.last){display:none}}")
    body = []
    for index, span in enumerate(spans):
        last = " last" if span[1] == end else ""
        lines = "".join(
            f'<text x="{_MARGIN}" y="{_MARGIN + (number + 0.75) * _HEIGHT:.1f}">{text}</text>'
            for since, until, number, text in shown
            if (since, until) == span
        )
        body.append(f'<g class="k{index}{last}">{lines}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img">'
        f"<title>A recording of a terminal</title><style>{''.join(style)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="#12161c"/>{"".join(body)}</svg>\n'
    )


def _row(row: list[pyte.screens.Char]) -> str:
    """One row as `tspan`s of one style each; empty if nothing is on it."""
    while row and row[-1].data in ("", " "):
        row = row[:-1]
    parts = []
    column = 0
    for (colour, bold), characters in groupby(row, lambda char: (char.fg, char.bold)):
        text = "".join(char.data for char in characters)
        at = f' x="{_MARGIN + column * _WIDTH:.1f}"' if column else ""
        fill = "" if colour == "default" else f' fill="{_COLOURS.get(colour, "#" + colour)}"'
        weight = ' class="b"' if bold else ""
        parts.append(f"<tspan{at}{fill}{weight}>{escape(text)}</tspan>")
        column += len(text)
    return "".join(parts)


def save(events: list[Event], path: Path) -> None:
    """Write the recording as asciicast v2."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "env": {"TERM": "xterm-256color"}}
    lines = [header, *([at, "o", text] for at, text in events)]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


def load(path: Path) -> list[Event]:
    """Read a recording."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(at, text) for at, kind, text in lines[1:] if kind == "o"]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", path, *commands] if commands:
            save(record(commands), Path(path))
        case ["draw", source, target]:
            Path(target).write_text(draw(load(Path(source))), encoding="utf-8")
        case _:
            raise SystemExit(__doc__)
