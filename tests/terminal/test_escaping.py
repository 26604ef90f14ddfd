"""Characters that are escaped for terminals, and characters that stay unchanged."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest
from rich.cells import cell_len

from joinsight.terminal.escaping import HIDDEN, to_json, visible, visible_line

HARMLESS = [
    "Umsätze nach Filiale, 東京 の 売上",
    "שלום עולם",
    "مرحبا",
    "می‌خواهم",  # Persian, with the joiner that its spelling needs
    "क्‍ष ക്‍",  # Indic, with a joiner after the virama
    "é नि",  # combining marks
    "👨‍👩‍👧 👩🏽‍💻 ❤️‍🔥 🏳️‍🌈",  # emoji of several
    "葛󠄀城",  # a variation selector
    "two lines\n\tand a tab",
    r"C:\x1b\new [red]text[/red] :smile:",
]
SHOWN = {
    "\x1b[2J\x07": r"\x1b[2J\x07",
    "\x9b2J": r"\x9b2J",
    "\r\x08\x7f\0": r"\x0d\x08\x7f\x00",
    "a\u202eb\u2066c\u200f": r"a\u202eb\u2066c\u200f",
    "a\u200bb\u200cc\u200dd\ufeff": r"a\u200bb\u200cc\u200dd\ufeff",
    "\u2028\u2029\x85": r"\u2028\u2029\x85",
    "x\U000e0041": r"x\U000e0041",
    "\ud83d \udcff": r"\ud83d \udcff",
    "\u3164\u115f\xad": r"\u3164\u115f\xad",
    "\u200d": r"\u200d",
}


@pytest.mark.parametrize("text", HARMLESS)
def test_what_people_write_stays(text: str) -> None:
    """Scripts from right to left, joiners where a script needs them, marks and emoji."""
    assert visible(text) == text


@pytest.mark.parametrize("text", SHOWN, ids=ascii)
def test_what_commands_or_hides_is_shown(text: str) -> None:
    """As an escape, once, of the width that is printed; as JSON it decodes to the same text."""
    assert visible(text) == SHOWN[text]
    assert visible(visible(text)) == visible(text)
    assert cell_len(visible(text)) == len(SHOWN[text])
    assert json.loads(to_json([text])) == [text]
    assert not HIDDEN.search(to_json([text]))


def test_a_line_stays_a_line() -> None:
    """Where tables and logs need one."""
    assert visible_line("a\n\tb\x85") == r"a\n\tb\x85"


def test_all_that_unicode_hides_is_hidden() -> None:
    """Every control, format, separator of lines and surrogate; but tab, line feed, and formats that are drawn."""
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)}
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp", "Cs") and code not in drawn | {9, 10}:
            assert HIDDEN.match(chr(code)), hex(code)


def test_many_joiners_take_no_time() -> None:
    """Each is checked only with its neighbours."""
    assert visible("\u200d" * 200_000) == r"\u200d" * 200_000
