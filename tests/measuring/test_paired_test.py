"""The test of paired runs: what it needs to believe that a variant is faster, and how seldom it errs."""

from __future__ import annotations

import math
import random

import pytest

from joinsight.measuring.paired_test import evidence, interval, is_faster, is_hopeless

HALF = math.log(2)


def test_nothing_is_known_without_runs_or_without_a_difference() -> None:
    """Nor from one pair, however large its difference: its scatter is unknown."""
    assert evidence([]) == evidence([0.0, 0.0]) == 1
    assert evidence([HALF]) < 2
    assert interval([HALF]) == (-math.inf, math.inf)


def test_half_the_time_is_certain_after_three_pairs() -> None:
    """If they scatter little; more pairs are needed if they scatter more."""
    assert evidence([0.95 * HALF, HALF, 1.02 * HALF]) > 100
    assert evidence([0.5 * HALF, HALF, 1.5 * HALF]) < 100
    low, high = interval([0.95 * HALF, HALF, 1.02 * HALF])
    assert 0 < low < HALF < high


def test_evidence_does_not_depend_on_the_scale() -> None:
    """Only on the differences in relation to their scatter."""
    few = [0.1, 0.2, 0.15, 0.12]
    assert evidence(few) == pytest.approx(evidence([10 * each for each in few]))


def test_a_slower_variant_has_no_evidence() -> None:
    """It falls below 1."""
    assert evidence([-HALF, -1.1 * HALF, -0.9 * HALF]) < 0.1


def test_looking_after_every_pair_errs_seldom() -> None:
    """At most one in 100 useless variants reaches 100 on average, though each is tested after every pair."""
    chance = random.Random(38)
    wrong = 0
    for _ in range(100):
        few: list[float] = []
        for _ in range(6):
            few.append(chance.gauss(0, 0.1))
            if evidence(few) >= 100:
                wrong += 1
                break
    assert wrong <= 2


def test_what_is_given_up_and_what_goes_on() -> None:
    """Two slower pairs, four that save next to nothing, ten of which nothing speaks for it; no saving that scatters."""
    assert not is_hopeless([-HALF]) and is_hopeless([-HALF, 0.1])
    assert not is_hopeless([0.02] * 3) and is_hopeless([0.02] * 4)
    wild = [1.0, -0.9] * 5
    assert not is_hopeless(wild[:9]) and is_hopeless(wild)
    scattering = [0.9, -0.2, 0.6, 0.0, 0.8, -0.1, 0.5, 0.2, 0.7, 0.1]
    assert not is_hopeless(scattering) and not is_faster(scattering)
    assert is_faster([0.95 * HALF, HALF, 1.02 * HALF])
    assert not is_faster([0.020, 0.021, 0.020, 0.019]), "certain, but not worth a change"
