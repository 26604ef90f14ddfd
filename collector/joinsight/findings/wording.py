"""How findings call operators, in their titles and advice."""

from __future__ import annotations

import re

from joinsight.rows import Row

_EXPRESSION_ID = re.compile(r"#\d+L?")
_MOST_KEYS = 20
_MOST_CHARACTERS = 1_000


def plain(text: str) -> str:
    """Spark's text without the ids of expressions, on one line."""
    return " ".join(_EXPRESSION_ID.sub("", text).split())


def shuffle(row: Row) -> str:
    """``the shuffle by customer_id``."""
    keys = plain(", ".join(map(_cut, (row["keys"] or ())[:_MOST_KEYS])))
    return f"the shuffle by {keys}" if keys else "the shuffle"


def join(row: Row) -> str:
    """``the join on customer_id``."""
    pairs = zip((row["left_keys"] or ())[:_MOST_KEYS], (row["right_keys"] or ()), strict=False)
    named = ((plain(_cut(left)), plain(_cut(right))) for left, right in pairs)
    on = ", ".join(left if left == right else f"{left} = {right}" for left, right in named) or plain(
        _cut(row["condition"] or "")
    )
    return f"the join on {on}" if on else "the join"


def _cut(text: str) -> str:
    """Many findings may name one operator, and nobody reads more in a title."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."


def rows(number: int) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} row{'s' * (number != 1)}"


def times(ratio: float) -> str:
    """``7.3 times``, ``120 times``."""
    return f"{ratio:,.1f} times" if ratio < 100 else f"{ratio:,.0f} times"


def percent(share: float) -> str:
    """``85 %``."""
    return f"{share * 100:,.0f} %"


def first_up(sentence: str) -> str:
    """With a capital letter."""
    return sentence[:1].upper() + sentence[1:]
