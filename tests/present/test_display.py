"""The display strings that Spark's UI shows, derived from our numbers."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable

import msgspec
import pytest
from tests.processes import ran
from tests.spark_process import JOBS
from tests.versions import NEWEST, SCALA_2_12

from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.contract.document import Accumulator
from joinsight.present.display import metric_text, row_text, spark_duration

SPREAD = "total (min, med, max (stageId: taskId))\n"
AVERAGE_SPREAD = "(min, med, max (stageId: taskId)):\n"
LONGEST = 2**63 - 1


def measured(kind: str, values: list[int], stage: int | None = None, text: str | None = None) -> Accumulator:
    """What the listener makes of values that all count; `stage` is None for the driver."""
    if not values:
        return Accumulator(1, kind, 0, text=text)
    where = {} if stage is None else {"max_stage": stage, "max_stage_attempt": 0, "max_task": 71}
    ordered = sorted(values)
    n = len(ordered)
    total, least, median, p95, most = sum(ordered), ordered[0], ordered[n // 2], ordered[n * 95 // 100], ordered[-1]
    measured = Accumulator(1, kind, n, total, least, median, p95, most, text=text)
    return msgspec.structs.replace(measured, **where)


METRICS: list[tuple[str, list[int], int | None, str]] = [
    # sum: no spread, whatever the count
    ("sum", [], None, "0"),
    ("sum", [0], 3, "0"),
    ("sum", [999], 3, "999"),
    ("sum", [20_000], None, "20,000"),
    ("sum", [20_000, 1_000], 3, "21,000"),
    ("sum", [-20_000], 3, "-20,000"),
    ("sum", [LONGEST], 3, "9,223,372,036,854,775,807"),
    # size
    ("size", [], None, "0.0 B"),
    ("size", [0], 3, "0.0 B"),
    ("size", [59], 3, "59.0 B"),
    ("size", [59], None, "59.0 B"),
    ("size", [0, 0, 59], 24, SPREAD + "59.0 B (0.0 B, 0.0 B, 59.0 B (stage 24.0: task 71))"),
    ("size", [1024, 5000], None, SPREAD + "5.9 KiB (1024.0 B, 4.9 KiB, 4.9 KiB (driver))"),
    # timing
    ("timing", [], None, "0 ms"),
    ("timing", [1_500], 3, "1.5 s"),
    ("timing", [1, 2, 5_000], 3, SPREAD + "5.0 s (1 ms, 2 ms, 5.0 s (stage 3.0: task 71))"),
    # nsTiming: each number is cut off to milliseconds, also the sum
    ("nsTiming", [], None, "0 ms"),
    ("nsTiming", [999_999], 3, "0 ms"),
    ("nsTiming", [1_999_999], 3, "1 ms"),
    ("nsTiming", [999_999, 999_999, 999_999], 3, SPREAD + "2 ms (0 ms, 0 ms, 0 ms (stage 3.0: task 71))"),
    # average: stored tenfold, no total
    ("average", [], None, "0"),
    ("average", [25], 3, "2.5"),
    ("average", [20], 3, "2"),
    ("average", [12_345_678], 3, "1,234,567.8"),
    ("average", [10, 25, 10_000], 3, AVERAGE_SPREAD + "(1, 2.5, 1,000 (stage 3.0: task 71))"),
    ("average", [9_051_088_308_597_001], 3, "905,108,830,859,700"),  # a double holds no more
    ("average", [10, 20], None, AVERAGE_SPREAD + "(1, 2, 2 (driver))"),
    # unknown to Spark too (4.2 and later; before, Spark fails)
    ("shiny", [], None, "[unknown] 0"),
    ("shiny", [1_000], 3, "[unknown] 1,000"),
    ("shiny", [1, 2_000], 3, SPREAD + "[unknown] 2,001 ([unknown] 1, [unknown] 2,000, [unknown] 2,000"
     " (stage 3.0: task 71))"),
]  # fmt: skip
SIZES = [
    (0, "0 B"),
    (1, "1 B"),
    (1_999, "1,999 B"),
    (2_047, "2,047 B"),
    (2_048, "2.0 KiB"),
    (2_049, "2.0 KiB"),
    (2_304, "2.3 KiB"),  # 2.25: half up, where Python says 2.2
    (2_355, "2.3 KiB"),
    (2_356, "2.3 KiB"),
    (5_504, "5.4 KiB"),
    (2 * 2**20 - 1, "2048.0 KiB"),
    (2 * 2**20, "2.0 MiB"),
    (2 * 2**30, "2.0 GiB"),
    (2 * 2**40, "2.0 TiB"),
    (2 * 2**50, "2.0 PiB"),
    (2 * 2**60, "2.0 EiB"),
    (LONGEST, "8.0 EiB"),
]
DURATIONS = [
    (0, "0 ms"),
    (999, "999 ms"),
    (1_000, "1.0 s"),
    (1_049, "1.0 s"),
    (1_050, "1.0 s"),  # as 32-bit float it is 1.0499999523
    (1_150, "1.1 s"),  # 1.1499999762
    (1_250, "1.3 s"),  # exact: half up
    (59_949, "59.9 s"),
    (59_950, "60.0 s"),  # 59.9500007629
    (59_999, "60.0 s"),
    (60_000, "1.0 m"),
    (75_000, "1.3 m"),  # 1.25
    (3_599_999, "60.0 m"),
    (3_600_000, "1.00 h"),
    (3_618_000, "1.00 h"),  # 1.005 is 1.0049999952
    (4_050_000, "1.13 h"),  # 1.125
    (86_400_000, "24.00 h"),
    (LONGEST, "2562047868928.00 h"),
]


@pytest.mark.parametrize(("kind", "values", "stage", "text"), METRICS)
def test_each_type_of_metric_has_sparks_text(kind: str, values: list[int], stage: int | None, text: str) -> None:
    """The string of each type, for none, one and several values, of tasks and of the driver."""
    assert metric_text(measured(kind, values, stage)) == text


def test_custom_metric_has_its_own_text() -> None:
    """A metric of a data source shows what its class makes of its values."""
    assert metric_text(measured("v2Custom_com.example.Files", [1, 2, 3], 3, text="6 files")) == "6 files"
    assert metric_text(measured("v2Custom_com.example.Files", [1], text="")) == ""


ICEBERG = "v2Custom_org.apache.iceberg.spark.source.metrics."
PYTHON = "v2Custom_org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric"


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (ICEBERG + "SkippedDataFiles", [1_234_567, 0, 2_345_678], "3580245"),
        (ICEBERG + "NumSplits", [1_234_567, 0, 2_345_678], "3,580,245"),
        (ICEBERG + "TotalRecords", [], "0"),
        (PYTHON, [1_234_567, 0, 2_345_678], SPREAD + "3.4 MiB (0.0 B, 1205.6 KiB, 2.2 MiB (driver))"),
        (PYTHON, [], "0.0 B"),
        ("v2Custom_com.example.Files", [1_000, 2, 3], "1,005 (sum)"),
        ("v2Custom_com.example.Files", [], "N/A"),
    ],
)
def test_metric_of_a_data_source_in_a_log_has_the_text_of_its_class_or_its_sum(
    kind: str, values: list[int], text: str
) -> None:
    """A log has no classes; the strings of the known ones are what the classes themselves gave."""
    assert metric_text(measured(kind, values, 7 if values else None, text="N/A")) == text


@pytest.mark.parametrize(("size", "text"), SIZES)
def test_a_unit_is_used_from_twice_its_size(size: int, text: str) -> None:
    """A unit is used from twice its size, with one decimal, rounded half up."""
    assert bytes_text(size) == text


@pytest.mark.parametrize(("ms", "text"), DURATIONS)
def test_a_duration_has_sparks_unit_and_decimals(ms: int, text: str) -> None:
    """Milliseconds, seconds and minutes with one decimal, hours with two; the quotient is a 32-bit float."""
    assert spark_duration(ms) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_250, "1.3 s"),
        (59_949, "59.9 s"),
        (59_950, "1 min"),
        (60_000, "1 min"),
        (108_000, "1 min 48 s"),
        (119_500, "2 min"),
        (3_599_499, "59 min 59 s"),
        (3_599_500, "1 h"),
        (3_630_000, "1 h 1 min"),
        (86_400_000, "24 h"),
        (359_999_000, "100 h"),
        (4_321_800_000, "1,201 h"),
    ],
)
def test_a_duration_reads_as_people_say_it(ms: int, text: str) -> None:
    """No unit is taken for another, and no 60 s stand where a minute is meant."""
    assert duration_text(ms) == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.5, "0.5×"), (6.34, "6.3×"), (99.9, "99.9×"), (123.4, "123×"), (23_375.63, "23,000×")]
)
def test_a_ratio_has_the_digits_that_matter(ratio: float, text: str) -> None:
    """A decimal where it is small, two digits where it is huge."""
    assert ratio_text(ratio) == text


def test_a_row_of_node_metric_has_the_text_of_its_accumulator() -> None:
    """A row of node_metric gives the string of its accumulator; nothing where nothing was reported."""
    row = {
        "accumulator_id": 5,
        "type": "size",
        "count": 2,
        "total": 59,
        "min": 0,
        "median": 59,
        "p95": 59,
        "max": 59,
        "max_stage_id": 24,
        "max_stage_attempt": 1,
        "max_task_id": 62,
        "text": None,
    }
    assert row_text(row) == SPREAD + "59.0 B (0.0 B, 59.0 B, 59.0 B (stage 24.1: task 62))"
    nothing = dict.fromkeys(row) | {"accumulator_id": 5, "type": "size"}
    assert row_text(nothing) is None
    assert row_text(nothing | {"count": 0}) == "0.0 B"


def random_value(dice: random.Random) -> int:
    """Numbers of all magnitudes, often at a limit or a tie."""
    magnitude = 10 ** dice.uniform(0, 16)
    near = dice.choice([2**10, 2**20, 2**30, 1_000, 60_000, 3_600_000, 50, 25, 1])
    return round(magnitude / near) * near + dice.choice([0, 0, 1, -1]) if dice.random() < 0.7 else round(magnitude)


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_spark_says_the_same(version: str, spark_environment: Callable[[str], dict[str, str]]) -> None:
    """For all cases of this module, and for 2,000 random measurements, Spark itself gives the same strings."""
    dice = random.Random(7)
    kinds = ["sum", "size", "timing", "nsTiming", "average"] + ["shiny"] * (version >= "4")
    cases = [(kind, values, stage) for kind, values, stage, _ in METRICS if kind in kinds]
    cases += [("size", [size], None) for size, _ in SIZES] + [("timing", [ms], None) for ms, _ in DURATIONS]
    for _ in range(2_000):
        kind = dice.choice(kinds)
        least = 1 if kind == "average" else 0
        values = [max(least, random_value(dice)) for _ in range(dice.choice([0, 1, 1, 1, 2, 3, 5]))]
        stage = dice.choice([None, 12]) if values and kind != "sum" else None
        cases.append((kind, values, stage))
    asked = [(kind, values, [] if stage is None else [max(values), stage, 0, 71]) for kind, values, stage in cases]
    done = ran(sys.executable, JOBS / "display.py", version, env=spark_environment(version), input=json.dumps(asked))
    answers = json.loads(done.stdout.splitlines()[-1])
    ours = [metric_text(measured(*case)) for case in cases]
    assert [(case, a, b) for case, a, b in zip(cases, answers, ours, strict=True) if a != b] == []
