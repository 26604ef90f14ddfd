"""The test of paired runs: what it needs to believe that a variant is faster, and how seldom it errs."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from joinsight.measuring.paired_test import Pairs, evidence, interval, is_faster, is_hopeless, log_ratio

HALF = math.log(2)


def test_one_pair_is_never_enough() -> None:
    """However large its difference: its scatter is unknown. Without a difference, there is no evidence."""
    assert evidence([]) == pytest.approx(1, abs=0.01) and evidence([0.0, 0.0]) < 1
    assert not is_faster(Pairs([10 * HALF])) and interval([HALF])[0] < 0


def test_a_third_of_the_time_is_certain_after_two_pairs_and_half_after_three() -> None:
    """If they scatter little; more pairs are needed if they scatter more, or if runs of the baseline do."""
    third = math.log(3)
    assert is_faster(Pairs([third, 0.9 * third])) and not is_faster(Pairs([HALF, HALF]))
    assert is_faster(Pairs([0.95 * HALF, HALF, 1.02 * HALF]))
    assert not is_faster(Pairs([0.5 * HALF, HALF, 1.5 * HALF]))
    assert not is_faster(Pairs([third, 0.9 * third], noise=[0.9, -0.8]))
    low, high = interval([0.95 * HALF, HALF, 1.02 * HALF])
    assert 0 < low < HALF < high
    wider = interval([0.95 * HALF, HALF, 1.02 * HALF], noise=[0.9, -0.8])
    assert wider[0] < low and wider[1] > high


def test_a_baseline_that_is_steady_makes_small_effects_certain() -> None:
    """Steadier than is usual."""
    few = [0.2, 0.21, 0.19, 0.2]
    assert not is_faster(Pairs(few)) and is_faster(Pairs(few, noise=[0.02, -0.01, 0.01, -0.02, 0.01]))


def test_a_slower_variant_has_no_evidence() -> None:
    """It falls below 1."""
    assert evidence([-HALF, -1.1 * HALF, -0.9 * HALF]) < 0.1


@pytest.mark.parametrize("scatter", [0.1, 0.5])
def test_looking_after_every_pair_errs_seldom(scatter: float) -> None:
    """At most one in 100 useless variants is accepted on average, though each is tested after every pair."""
    chance = random.Random(38)
    wrong = 0
    for _ in range(200):
        few: list[float] = []
        runs = [chance.gauss(0, scatter / math.sqrt(2))]
        while len(few) < 6:
            runs.append(chance.gauss(0, scatter / math.sqrt(2)))
            few.append(runs[-1] - chance.gauss(0, scatter / math.sqrt(2)))
            noise = [log_ratio(math.exp(6 + one), math.exp(6 + other)) for one, other in itertools.pairwise(runs)]
            pairs = Pairs(few, noise)
            if is_faster(pairs):
                wrong += 1
                break
            if is_hopeless(pairs):
                break
    assert wrong <= 4


def test_what_is_given_up_and_what_goes_on() -> None:
    """Two slower pairs, three that save next to nothing, eight of which nothing speaks for it."""
    assert not is_hopeless(Pairs([-HALF])) and is_hopeless(Pairs([-HALF, 0.1]))
    assert not is_hopeless(Pairs([0.02] * 2)) and is_hopeless(Pairs([0.02] * 3))
    wild = [1.0, -0.9] * 4
    assert not is_hopeless(Pairs(wild[:7])) and is_hopeless(Pairs(wild))
    scattering = [0.9, -0.2, 0.6, 0.0, 0.8, -0.1, 0.5, 0.1]
    assert not is_hopeless(Pairs(scattering)) and not is_faster(Pairs(scattering))
    assert not is_faster(Pairs([0.020, 0.021, 0.020, 0.019] * 5, noise=[0.001] * 20)), "certain, but not worth a change"


def test_on_a_busy_machine_the_time_without_waiting_says_more() -> None:
    """Its pairs scatter less. But the wall time must have fallen, too, by half as much."""
    third = math.log(1.5)
    wall, calm = Pairs([0.9, 0.1, 0.3], [0.5, -0.7, 0.4]), Pairs([third, 1.1 * third, third], [0.05, -0.04, 0.02])
    assert not is_faster(wall) and is_faster(calm) and is_faster(wall, calm)
    assert not is_faster(Pairs([0.9, -0.4, 0.05], [0.5, -0.7, 0.4]), calm), "it waits more, too"
    slower = Pairs([-0.6, 0.1], [0.5, -0.7])
    assert is_hopeless(slower) and not is_hopeless(slower, Pairs(calm.log_ratios[:2], calm.noise[:2]))
