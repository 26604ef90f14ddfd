"""Tunes Python's cyclic garbage collector for processes that convert documents to rows."""

from __future__ import annotations

import gc

_THRESHOLD = 50_000
"""Net new objects before a collection of the youngest generation; Python's default is 700 to 2,000."""


def collect_seldom() -> None:
    """Collect less often for the rest of this process.

    Documents and rows are trees of many small objects without cycles: collections took a tenth of the time.
    """
    gc.set_threshold(_THRESHOLD, *gc.get_threshold()[1:])
