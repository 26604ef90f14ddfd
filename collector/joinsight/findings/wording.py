"""How findings call operators, in their titles and advice."""

from __future__ import annotations

import re

from joinsight.rows import Row

_EXPRESSION_ID = re.compile(r"#\d+L?")


def plain(text: str) -> str:
    """Spark's text without the ids of expressions, on one line."""
    return " ".join(_EXPRESSION_ID.sub("", text).split())


def shuffle(row: Row) -> str:
    """``the shuffle by customer_id``."""
    keys = plain(", ".join(row["keys"] or ()))
    return f"the shuffle by {keys}" if keys else "the shuffle"


def join(row: Row) -> str:
    """``the join on customer_id``."""
    pairs = zip(map(plain, row["left_keys"] or ()), map(plain, row["right_keys"] or ()), strict=False)
    on = ", ".join(left if left == right else f"{left} = {right}" for left, right in pairs) or plain(
        row["condition"] or ""
    )
    return f"the join on {on}" if on else "the join"


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
