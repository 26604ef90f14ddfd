"""How findings call operators, in their titles and advice."""

from __future__ import annotations

from joinsight.plan.texts import join_on, without_ids
from joinsight.tables import JoinRow, ShuffleRow

_MOST_KEYS = 20
_MOST_CHARACTERS = 1_000


def shuffle(row: ShuffleRow) -> str:
    """``the shuffle by customer_id``."""
    keys = without_ids(", ".join(map(_cut, (row.keys or ())[:_MOST_KEYS])))
    return f"the shuffle by {keys}" if keys else "the shuffle"


def join(row: JoinRow) -> str:
    """``the join on customer_id``."""
    left, right = (list(map(_cut, (keys or ())[:_MOST_KEYS])) for keys in (row.left_keys, row.right_keys))
    on = join_on(left, right, _cut(row.condition or ""))
    return f"the join on {on}" if on else "the join"


def _cut(text: str) -> str:
    """Shortened: many findings may name one operator, and nobody reads more in a title."""
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]} ..."


def rows(number: int) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{number:,} row{'s' * (number != 1)}"
