"""The texts of costs."""

from __future__ import annotations

import pytest

from joinsight.present.cost import between


@pytest.mark.parametrize(
    ("known", "most", "is_partial", "text"),
    [
        (None, None, False, ""),
        (2_300, None, False, "2.3 s"),
        (2_300, 2_300, False, "2.3 s"),
        (206, 43_200, False, "206 ms to 43.2 s"),
        (4_301, 4_322, False, "4.3 s"),
        (None, 43_000, False, "at most 43.0 s"),
        (206, None, True, "at least 206 ms"),
        (0, None, True, ""),
    ],
)
def test_what_is_known_in_part_is_a_range(known: int | None, most: int | None, is_partial: bool, text: str) -> None:
    """A range whose ends read the same is one number."""
    assert between(known, most, is_partial=is_partial) == text
