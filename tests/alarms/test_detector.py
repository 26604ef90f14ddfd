"""What the theorem of the detector promises, and what it must find, on generated series."""

from __future__ import annotations

import math
from random import Random

import pytest

from joinsight.alarms.detector import CHANGES, NONE, certain, changed_at, larger, more_frequent, score


def alarms(random: Random, runs: int, least: float) -> int:
    """Alarms of a series of standard normal scores, a run a week."""
    evidence, found = NONE, 0
    for _ in range(runs):
        evidence = larger(evidence, random.gauss(0, 1), 1.0)
        if sum(evidence) >= least:
            evidence, found = NONE, found + 1
    return found


def test_the_rate_of_false_alarms_is_what_the_theorem_says() -> None:
    """At most one in 50 weeks of evidence 50; with as many, the bound is not idle, either."""
    found = alarms(Random(1), 50_000, 50)
    assert 100 < found <= 1000


@pytest.mark.parametrize("score", [-1.0, 0.0, 2.0, 3.0])
def test_evidence_rises_with_the_score(score: float) -> None:
    """So what is smaller than normal makes no more alarms."""
    lower, higher = larger(NONE, score, 1.0), larger(NONE, score + 0.1, 1.0)
    assert all(a < b for a, b in zip(lower, higher, strict=True))


def test_evidence_has_no_mean_above_one() -> None:
    """The mean of each factor over a standard normal score is 1, and that over outcomes of the assumed share."""
    step = 0.001
    points = [i * step for i in range(-8000, 8000)]
    means = [0.0] * len(CHANGES)
    for z in points:
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi) * step
        for i, each in enumerate(larger(NONE, z, float(len(CHANGES)))):
            means[i] += density * each
    assert means == pytest.approx([1.0] * len(CHANGES), abs=1e-3)
    earlier = [True] * 3 + [False] * 45
    share = 4 / 50
    both = (more_frequent(NONE, earlier, is_so, 3.0) for is_so in (True, False))
    for so, not_so in zip(*both, strict=True):
        assert share * so + (1 - share) * not_so == pytest.approx(1.0)


def test_one_run_is_not_enough() -> None:
    """However slow it is, and however late after the one before."""
    values = [0.05 * math.sin(i) for i in range(60)]
    found = score(values, [i % 7 for i in range(60)], 100.0, 4)
    assert found == 3.0
    assert sum(larger(NONE, found, 1.0)) < 1000


def test_evidence_is_bounded() -> None:
    """What is worse for years, but too little for an alarm, does not end in infinity."""
    slower = failed = NONE
    for _ in range(2000):
        slower, failed = larger(slower, 3.0, 1.0), more_frequent(failed, [False] * 60, True, 1.0)
    assert sum(slower) <= 3e9 and sum(failed) <= 3e9


def test_growth_does_not_hide_itself() -> None:
    """The latest 21 values are not what a new one is compared with: after three weeks of growth it is far above."""
    values = [0.05 * math.sin(2.4 * i) + 0.01 * max(0, i - 60) for i in range(81)]
    found = score(values, [i % 7 for i in range(81)], 0.21, 4)
    assert found is not None and found > 2.5


def test_weekdays_are_compared_with_themselves() -> None:
    """What is usual on mondays is not unusual, what is usual on mondays is so on a tuesday."""
    days = [i % 7 for i in range(70)]
    values = [0.05 * math.sin(2.4 * i) + (0.7 if i % 7 == 0 else 0.0) for i in range(70)]
    monday, tuesday = score(values, days, 0.7, 0), score([*values, 0.7], [*days, 0], 0.7, 1)
    assert monday is not None and monday < 0.5
    assert tuesday is not None and tuesday > 2.5


def test_a_large_value_after_a_large_one_is_less_unusual() -> None:
    values = [0.1 * math.sin(i / 3) for i in range(60)]
    after_large, after_usual = (score([*values, each], [0] * 61, 0.25, 0) for each in (0.25, 0.0))
    assert after_large is not None and after_usual is not None and after_large < after_usual - 1


def test_a_change_begins_with_the_first_value_of_the_new_level() -> None:
    """The index of the first value of the new level, outliers before and after it or not."""
    before = [0.0, 0.05, -0.05, 3.0, 0.0, 0.05, -0.05, 0.0, 0.02, -0.03]
    since = [0.3, 0.35, 0.25, 0.0, 0.3, 0.33]
    assert changed_at(before + since) == len(before)


def test_many_series_need_more_evidence_for_one_alarm_than_for_many() -> None:
    """e-Benjamini-Hochberg: of 10,000 series with a share of 0.1, one needs 100,000, and 50 need 2,000 each."""
    one, many = {0: 50_000.0}, dict.fromkeys(range(50), 2001.0)
    least = dict.fromkeys(range(50), 2000.0)
    assert certain(one, 10_000, least, 0.1) == []
    assert certain({0: 100_000.0}, 10_000, least, 0.1) == [0]
    assert len(certain(many, 10_000, least, 0.1)) == 50
    assert certain(many | {7: 1999.0}, 10_000, least, 0.1) == []
    assert certain(one, 1, least, 0.1) == [0]
