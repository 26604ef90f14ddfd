"""The logarithmic mean Divisia index."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinsight.why.division import rounded, scatter, shares

FACTORS = st.lists(st.tuples(st.floats(0.001, 1e6), st.floats(0.001, 1e6)), min_size=1, max_size=6)


@given(FACTORS)
def test_shares_add_up_to_the_change_of_the_product(pairs: list[tuple[float, float]]) -> None:
    before = {str(i): a for i, (a, _) in enumerate(pairs)}
    after = {str(i): b for i, (_, b) in enumerate(pairs)}
    first, last = (math.prod(factors.values()) for factors in (before, after))
    most = 1e-9 * max(first, last)  # the products are that exact
    assert sum(shares(before, after).values()) == pytest.approx(last - first, rel=1e-6, abs=max(1e-6, most))


@given(FACTORS)
def test_the_order_of_factors_does_not_matter(pairs: list[tuple[float, float]]) -> None:
    before = {str(i): a for i, (a, _) in enumerate(pairs)}
    after = {str(i): b for i, (_, b) in enumerate(pairs)}
    turned = [dict(reversed(each.items())) for each in (before, after)]
    most = 1e-9 * max(math.prod(factors.values()) for factors in (before, after))
    assert shares(*turned) == pytest.approx(shares(before, after), rel=1e-9, abs=max(1e-9, most))


def test_what_did_not_change_has_no_share() -> None:
    assert shares({"rows": 10.0, "per_row": 2.0}, {"rows": 20.0, "per_row": 2.0}) == pytest.approx(
        {"rows": 20.0, "per_row": 0.0}
    )


def test_a_factor_that_was_zero_has_all_of_the_change() -> None:
    found = shares({"rows": 10.0, "per_row": 0.0}, {"rows": 11.0, "per_row": 5.0})
    assert found == {"rows": 0.0, "per_row": 55.0}


def test_rounded_amounts_add_up() -> None:
    found = rounded({"a": 0.4, "b": 0.4, "c": -7.6}, -5, "rest")
    assert sum(found.values()) == -5
    assert found == {"a": 0, "b": 0, "c": -8, "rest": 3}


def test_scatter_ignores_an_outlier() -> None:
    found, runs = scatter([1_000, 1_100, 900, 1_000, 5_000], 1_000)
    assert (round(found), runs) == (round(3 * 1.4826 * 100 * 2 / (14 / 9)), 5)
    assert round(scatter([1_000, 1_100, 900, 1_000, 5_000] * 2, 1_000)[0]) == round(3 * 1.4826 * 100)


def test_scatter_is_guessed_until_four_runs_are_known() -> None:
    """And is never less than a twentieth, or than 200 ms."""
    assert scatter([10_000] * 3, 10_000) == (1_500, 0)
    assert scatter([10_000, 13_000], 10_000) == (3_000, 0), "they differ by so much without a cause"
    assert scatter([10_000] * 4, 10_000) == (500, 4)
    assert scatter([], 100) == (200, 0)
