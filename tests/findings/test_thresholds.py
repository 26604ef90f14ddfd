"""Thresholds are read from settings, and invalid ones are rejected with the valid form."""

from __future__ import annotations

import pytest

from joinsight.base.errors import ConfigurationError, ConfigurationErrors
from joinsight.findings.thresholds import VARIABLE, Thresholds, split


def test_settings_override_the_standards() -> None:
    """Settings override the defaults; sizes are written as in Spark, and the last value of a name wins."""
    found = Thresholds().overridden(
        ["skew_ratio=3", "broadcast_bytes=64m", "broadcast_bytes = 2g", "nested_loop_pairs=1e6"]
    )
    assert (found.skew_ratio, found.broadcast_bytes, found.nested_loop_pairs) == (3, 2 << 30, 1e6)
    assert found.wall_ms == Thresholds().wall_ms


def test_an_environment_variable_has_several() -> None:
    """Separated by commas; blanks and a last comma do not matter."""
    assert split(" skew_ratio=3 ,broadcast_bytes=1g, ") == ["skew_ratio=3", "broadcast_bytes=1g"]
    assert split("") == []


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("skew=3", "there is no threshold 'skew'"),
        ("", "there is no threshold ''"),
        ("skew_ratio", "'' is not a number of 0 or more"),
        ("skew_ratio=much", "'much' is not a number of 0 or more"),
        ("skew_ratio=-1", "'-1' is not a number of 0 or more"),
        ("skew_ratio=64m", "'64m' is not a number of 0 or more"),
        ("skew_ratio=nan", "'nan' is not a number of 0 or more"),
        ("broadcast_bytes=inf", "'inf' is not a number of 0 or more"),
        ("broadcast_bytes=-1g", "'-1g' is not a number of 0 or more"),
    ],
)
def test_wrong_settings_are_refused(setting: str, problem: str) -> None:
    """The error says what is wrong; of an unknown name it lists those that there are."""
    with pytest.raises(ConfigurationError) as caught:
        Thresholds().overridden([setting])
    assert problem in str(caught.value) and repr(setting) in str(caught.value)
    assert ("skew_ratio, hidden_skew_partitions" in str(caught.value)) == ("there is no" in problem)


def test_all_that_is_wrong_is_said_at_once() -> None:
    """All invalid thresholds are reported, each on a line with its source."""
    with pytest.raises(ConfigurationErrors) as caught:
        Thresholds().overridden(["skew=1", "skew_ratio=2", "wall_ms=many"], VARIABLE)
    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        "JOINSIGHT_FINDING_THRESHOLDS='skew=1'",
        "JOINSIGHT_FINDING_THRESHOLDS='wall_ms=many'",
    ]
