"""How often Python looks for cycles of garbage, in processes whose work is to turn documents into rows."""

from __future__ import annotations

import gc

_MADE = 50_000
"""So many more objects made than dropped, and it looks; Python's own number is 700 to 2,000."""


def collect_seldom() -> None:
    """For the rest of this process.

    Documents and rows are trees of many small objects, without cycles: looking for some took a tenth of the time.
    """
    gc.set_threshold(_MADE, *gc.get_threshold()[1:])
