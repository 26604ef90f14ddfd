"""Each heuristic finds its problems in real plans, with the right numbers, and nothing in all other plans."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from sqlalchemy import BigInteger, Column, Double, Integer
from tests.findings.recorded import SMALL, UNLIMITED, Earlier, look, recordings, starved

from joinsight import findings, tables
from joinsight.analysis.rows import Rows, execution_rows
from joinsight.contract.document import Execution
from joinsight.findings import HEURISTICS, Finding, FindingsEngine, Heuristic, PlanContext, Thresholds, late_replan
from joinsight.tables import Row
from joinsight.tables.views import RELATIONS

EXPECTED: dict[str, set[str]] = {
    "broadcast-missed": {"missed-broadcast"},
    "broadcast-slow": {"broadcast-not-worth-it", "driver-collect"},
    "broadcast-switched": {"late-replan"},
    "broadcast-switched-near": {"late-replan"},
    "broadcast-timeout": {"broadcast-failed"},
    "broadcast-too-large": {"broadcast-failed"},
    "cache-filled": {"cache-read-once"},
    "cartesian": {"nested-loop-join"},
    "collected": {"driver-collect"},
    "fetch-wait": {"fetch-wait"},
    "join-exploding": {"missed-broadcast"},
    "join-one-to-one": {"missed-broadcast"},
    "nested-loop": {"nested-loop-join"},
    "partitions-tiny": {"driver-collect"},
    "replanned-empty": {"late-replan"},
    "replanned-late": {"late-replan"},
    "shuffle-repeated": {"repeated-shuffle"},
    "skew-hidden": {"hidden-skew"},
}
"""Whatever the wall time at stake; all other recordings have nothing."""

BY_DEFAULT = {
    "broadcast-timeout": {"broadcast-failed"},
    "broadcast-too-large": {"broadcast-failed"},
    "fetch-wait": {"exploding-rows"},
    "partitions-tiny": {"tiny-tasks"},
}

GB = 1 << 30
GROWING = (4_000, 4_100, 4_200, 4_300, 4_400)  # of a broadcast that has 5,000 rows now


@pytest.mark.parametrize("name", recordings())
def test_findings_of_each_recording_are_exactly_these(name: str) -> None:
    """Exactly the expected findings are made, by default only of what failed or took a second."""
    assert kinds(recordings()[name]) == EXPECTED.get(name, set())
    by_default = {row.finding for row in FindingsEngine().rows(execution_rows(recordings()[name]))}
    assert by_default == BY_DEFAULT.get(name, set())


def kinds(execution: Execution, thresholds: Thresholds = SMALL, *earlier: int) -> set[str]:
    return {row["finding"] for row in look(execution, thresholds, *earlier)}


def only(name: str, kind: str, thresholds: Thresholds = SMALL, *earlier: int) -> Row:
    return next(row for row in look(recordings()[name], thresholds, *earlier) if row["finding"] == kind)


def test_every_heuristic_finds_something_in_a_recording() -> None:
    """Each has a real plan in which it finds something; the others are in tests of their own."""
    others = {"broadcast-near-threshold", "rewritten-rows", "unpruned-files", "cache-filled-again"}
    assert set().union(*EXPECTED.values(), others) == {each.id for each in UNLIMITED}


def test_every_heuristic_is_listed_and_named_after_its_module() -> None:
    folder = Path(findings.__file__).parent
    modules = {path.stem.replace("_", "-") for path in folder.glob("*.py") if "HEURISTIC = " in path.read_text()}
    assert sorted(each.id for each in UNLIMITED) == sorted(modules)
    ids = [heuristic.id for heuristic in HEURISTICS]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", each) for each in ids)


EVIDENCE_LIMITS = [
    ("broadcast-slow", "broadcast-not-worth-it", "broadcast_bytes", "size_bytes"),
    ("broadcast-slow", "broadcast-not-worth-it", "broadcast_not_worth_ratio", "ratio"),
    ("skew-hidden", "hidden-skew", "skew_ratio", "ratio"),
    ("nested-loop", "nested-loop-join", "nested_loop_pairs", "pairs"),
    ("cartesian", "nested-loop-join", "nested_loop_pairs", "pairs"),
    ("collected", "driver-collect", "driver_result_bytes", "result_bytes"),
]


@pytest.mark.parametrize(("name", "kind", "threshold", "number"), EVIDENCE_LIMITS)
def test_a_threshold_just_past_what_was_measured_silences_it(name: str, kind: str, threshold: str, number: str) -> None:
    """It is found at the measured value as threshold, but not one part in a million beyond it."""
    limits = SMALL
    measured = only(name, kind, limits)["evidence"][number]
    assert kind in kinds(recordings()[name], replace(limits, **{threshold: measured * 0.999999}))
    assert kind not in kinds(recordings()[name], replace(limits, **{threshold: measured * 1.000001}))


def test_every_threshold_decides_something() -> None:
    """Each threshold is tested above, or below by name."""
    tested = {threshold for _, _, threshold, _ in EVIDENCE_LIMITS} | {"wall_share", "wall_ms"}
    tested |= {"largest_part_share", "largest_part_ms"}  # in test_causes
    tested |= {"stream_state_rows"}  # in test_streams
    tested |= {"rewritten_rows", "rewritten_share", "unpruned_files", "unpruned_share"}  # in their own tests
    source = Path(__file__).read_text()
    for field in fields(Thresholds):
        assert field.name in tested or f"{field.name}=" in source, field.name


# What each says


def test_a_broadcast_near_its_threshold() -> None:
    """AQE compared the size of the shuffle below the broadcast, and it has more rows than in at least five runs."""
    row = only("broadcast-switched-near", "broadcast-near-threshold", SMALL, 300, 310, 320, 330, 340)
    assert row["title"] == (
        "The broadcast for the join on customer_id has 6.3 KiB, 91 % of the threshold of 6.8 KiB, and its rows are 1.2"
        " times the median of 5 earlier runs."
    )
    assert (row["severity"], row["evidence"]["shuffled_bytes"]) == ("warning", 6_400)
    assert (row["evidence"]["earlier_rows"], row["evidence"]["growth_ratio"]) == (320, 1.25)
    assert "spark.sql.autoBroadcastJoinThreshold" in row["advice"]


def test_a_broadcast_that_stays_near_its_threshold_is_no_problem() -> None:
    """It may be so for years."""
    for earlier in ((), (400,) * 20):
        assert "broadcast-near-threshold" not in kinds(recordings()["broadcast-switched-near"], SMALL, *earlier)


def test_files_that_are_broadcast_must_grow_to_be_told() -> None:
    """Spark's estimate is made of their size, but may be less: near the threshold alone says nothing."""
    assert kinds(recordings()["broadcast-hinted-over"]) == set()
    row = only("broadcast-hinted-over", "broadcast-near-threshold", SMALL, *GROWING)
    assert row["title"].startswith("The files that are broadcast for the join on product_id have 46.7 KiB, 234 % of")
    assert "A hint makes Spark broadcast it at any size" in row["advice"]


def test_a_broadcast_far_from_its_threshold_may_grow() -> None:
    """Below the share, growth is not checked."""
    growing = [300] * 5
    near, far = (replace(SMALL, broadcast_near_share=share) for share in (0.914, 0.915))
    assert "broadcast-near-threshold" in kinds(recordings()["broadcast-switched-near"], near, *growing)
    assert "broadcast-near-threshold" not in kinds(recordings()["broadcast-switched-near"], far, *growing)


@pytest.mark.parametrize(
    ("earlier", "settings"),
    [
        (GROWING[:4], []),  # too few runs
        (GROWING, ["broadcast_growth_runs=6"]),
        ((5_000,) * 5, []),  # it does not grow
        ((6_000,) * 5, []),  # it shrinks
        (GROWING, ["broadcast_growth_ratio=1.2"]),
        ((0,) * 5, []),  # it was empty
        (GROWING, ["broadcast_near_share=3"]),
    ],
)
def test_what_does_not_grow_is_not_said_to(earlier: tuple[int, ...], settings: list[str]) -> None:
    """Too few runs, the same or a smaller size, or a distant threshold give no warning of growth."""
    assert kinds(recordings()["broadcast-hinted-over"], SMALL.overridden(settings), *earlier) == set()


def test_the_history_is_asked_only_near_the_threshold() -> None:
    asked = []
    for name, execution in recordings().items():
        history = Earlier()
        FindingsEngine(SMALL, UNLIMITED).rows(execution_rows(execution), history)
        asked += [name] * len(history.asked)
    assert sorted(asked) == [
        "broadcast-files-near",
        "broadcast-hinted-over",
        "broadcast-slow",
        "broadcast-switched-near",
        "replanned-not",
    ]


def test_a_broadcast_near_what_spark_can_broadcast_is_critical() -> None:
    """8 GB or 512 million rows, whichever is nearer. Seen at a share of 0.3 %, for want of such a driver."""
    row = only("broadcast-slow", "broadcast-near-threshold", SMALL.overridden(["broadcast_near_share=0.003"]))
    assert row["severity"] == "critical"
    assert row["evidence"]["share"] == row["evidence"]["size_bytes"] / (8 << 30)
    assert "of the most that Spark can broadcast: beyond it, the query fails." in row["title"]
    rows = changed("broadcast-slow", "broadcast", size_bytes=1, rows=500_000_000)
    (found,) = (each for each in FindingsEngine().rows(rows) if each.finding == "broadcast-near-threshold")
    assert found.evidence["share"] == 500 / 512


def changed(name: str, table: str, **values: Any) -> Rows:
    """The rows of a recording with other values in one table."""
    rows = execution_rows(recordings()[name])
    if table == "execution":
        return replace(rows, execution=structs.replace(rows.execution, **values))
    some: Any = {table: [structs.replace(row, **values) for row in getattr(rows, table)]}
    return replace(rows, **some)


def test_a_broadcast_that_was_not_worth_it() -> None:
    """The large side was broadcast for 40 rows; the time is what its page shows too: all that the driver measured."""
    row = only("broadcast-slow", "broadcast-not-worth-it")
    evidence = row["evidence"]
    (broadcast,) = execution_rows(recordings()["broadcast-slow"]).broadcast
    assert evidence["driver_ms"] == broadcast.driver_ms
    assert (evidence["rows"], evidence["other_rows"], evidence["ratio"]) == (400_000, 40, 10_000)
    assert row["impact_bytes"] == evidence["size_bytes"] == broadcast.size_bytes
    assert row["title"].endswith(" in memory; the other side has 40 rows.")


@pytest.mark.parametrize("name", recordings())
def test_time_makes_no_broadcast_unworthy(name: str) -> None:
    """A driver that waits for its turn takes a hundred times longer: findings about broadcasts stay the same."""
    about = {"broadcast-not-worth-it", "missed-broadcast", "broadcast-near-threshold"}
    rows = execution_rows(recordings()[name])
    slow = []
    for row in rows.broadcast:
        times: Any = {phase: 100 * (getattr(row, phase) or 0) for phase in tables.DRIVER_PHASES}
        slow.append(structs.replace(row, **times))
    before, after = (
        {(row.finding, row.node_id) for row in FindingsEngine(SMALL, UNLIMITED).rows(one) if row.finding in about}
        for one in (rows, replace(rows, broadcast=slow))
    )
    assert after == before


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_small_broadcasts_in_a_starved_driver(name: str) -> None:
    """Spark had a hundredth of two cores: its small broadcasts took up to a minute, and nothing is wrong with them."""
    rows = execution_rows(starved()[name])
    assert max(row.driver_ms or 0 for row in rows.broadcast) > 20_000
    assert FindingsEngine().rows(rows) == []


def test_a_missed_broadcast() -> None:
    """The right side was measured under the threshold, and a hint of the query made Spark shuffle both."""
    row = only("broadcast-missed", "missed-broadcast")
    assert row["title"] == (
        "The join on product_id shuffled 9.2 MiB, though its right side has only 117.2 KiB and up to 10.0 MiB may be"
        " broadcast."
    )
    assert row["evidence"] == {"side_bytes": 120_000, "threshold_bytes": 10 << 20, "other_side_bytes": 9_600_000}
    assert row["impact_bytes"] == 4_172_829


@pytest.mark.parametrize(
    ("hint", "is_adaptive", "said"),
    [
        ("merge right", True, "The hint MERGE on its right side forces a sort-merge join. Remove it: Spark then"),
        ("merge left, merge right", True, "Its hints (merge left, merge right) force another join. Remove them: Spark"),
        ("no_broadcast_hash right", True, "AQE gave it a hint (no_broadcast_hash)"),
        (None, False, "Set spark.sql.adaptive.enabled=true"),
        (None, True, "give its right side the hint BROADCAST"),
    ],
)
def test_the_advice_for_a_missed_broadcast_goes_by_its_cause(hint: str | None, is_adaptive: bool, said: str) -> None:
    """A hint, as was recorded; one of AQE; an estimate without AQE; an estimate that AQE kept."""
    rows = execution_rows(recordings()["broadcast-missed"])
    assert (rows.joins[0].hint, rows.joins[0].broadcast_verdict) == ("merge right", "hinted")
    join = structs.replace(rows.joins[0], hint=hint, broadcast_verdict="hinted" if hint else "possible")
    e = structs.replace(rows.execution, is_adaptive=is_adaptive)
    (row,) = FindingsEngine(SMALL, UNLIMITED).rows(replace(rows, execution=e, joins=[join, *rows.joins[1:]]))
    assert said in row.advice


def test_a_broadcast_that_timed_out() -> None:
    """A timeout names the only broadcast that was not ready."""
    row = only("broadcast-timeout", "broadcast-failed")
    assert row["title"] == "The query failed: its broadcast was not ready after 1 s (spark.sql.broadcastTimeout)."
    assert (row["severity"], row["evidence"], row["node_id"]) == ("critical", {"timeout_s": 1}, 10)


def test_a_broadcast_that_was_too_large() -> None:
    """A broadcast above Spark's limit is found by the error of a real Spark, with a limit of 10 KiB."""
    row = only("broadcast-too-large", "broadcast-failed")
    assert row["title"] == "The query failed: its broadcast has 32.0 MiB, more than the 10.0 KiB that Spark allows."
    assert row["evidence"] == {"size_bytes": 32 << 20, "limit_bytes": 10 << 10}


@pytest.mark.parametrize(
    ("error", "evidence"),
    [
        (
            "Cannot broadcast the table that is larger than 8.0 GiB: 9.5 GiB.",
            {"size_bytes": 9.5 * GB, "limit_bytes": 8 * GB},
        ),
        ("Cannot broadcast the table that is larger than 8GB: 10 GB", {"size_bytes": 10 * GB, "limit_bytes": 8 * GB}),
        ("Cannot broadcast the table over 512000000 rows: 600000000 rows.", {"rows": 600_000_000}),
        ("Cannot broadcast the table over 357913941 rows: 357913942 rows", {"rows": 357_913_942}),
        ("Cannot broadcast the table with 512 million or more rows: 512000001 rows", {"rows": 512_000_001}),
        ("java.lang.OutOfMemoryError: Not enough memory to build and broadcast the table to all worker nodes.", {}),
        ("SparkException: Could not execute broadcast in 300 secs. You can increase", {"timeout_s": 300}),
    ],
)
def test_errors_of_broadcasts_as_versions_of_spark_word_them(error: str, evidence: dict[str, float]) -> None:
    """Those that a test machine cannot produce; another error is none, nor is the same text of one that succeeded."""
    (row,) = FindingsEngine().rows(changed("broadcast-timeout", "execution", error=error))
    assert (row.finding, row.evidence) == ("broadcast-failed", evidence)
    assert "{" not in row.title
    assert FindingsEngine().rows(changed("broadcast-timeout", "execution", error="Job aborted")) == []
    assert FindingsEngine().rows(changed("clean", "execution", error=error)) == []


def test_a_failed_broadcast_among_several_is_not_guessed() -> None:
    """If any of several broadcasts may have failed, the finding is about the whole execution."""
    rows = execution_rows(recordings()["broadcast-timeout"])
    two = replace(rows, broadcast=[*rows.broadcast, structs.replace(rows.broadcast[0], node_id=99)])
    assert [(row.node_id, row.operator_key) for row in FindingsEngine().rows(two)] == [(-1, None)]


HIDDEN = "skew-hidden"


def test_a_skew_that_aqe_could_not_see() -> None:
    """The same join in 2,000 partitions was split by a real Spark; in 2,001 AQE took them for equally large."""
    row = only(HIDDEN, "hidden-skew")
    assert row["title"] == (
        "Of 91 tasks that read the shuffle by customer_id, one read 123,521 rows of the 2 shuffles of its stage, 37.8"
        " times the median (3,269 rows). AQE did not split it: of the 2,001 partitions of this shuffle it knew only"
        " mean sizes."
    )
    assert (row["evidence"]["aqe_partition_bytes_max"], row["evidence"]["shuffle_read_bytes_max"]) == (
        58_608,
        1_018_941,
    )
    for setting in ("minNumPartitionsToHighlyCompress", "accurateBlockThreshold", "accurateBlockSkewedFactor=5"):
        assert f"spark.shuffle.{setting}" in row["advice"]
    split = execution_rows(recordings()["skew-visible"])
    assert [(row.partitions, row.aqe_skewed_partitions) for row in split.shuffle if row.aqe_skewed_partitions] == [
        (2_000, 1)
    ]
    assert split.joins[0].is_skew


def test_a_skew_of_so_many_partitions_was_visible() -> None:
    """Where the application keeps the sizes of more partitions, AQE saw it."""
    assert kinds(recordings()[HIDDEN], replace(SMALL, hidden_skew_partitions=2_000)) == {"hidden-skew"}
    assert kinds(recordings()[HIDDEN], replace(SMALL, hidden_skew_partitions=2_001)) == set()


SKEW_JOIN = "spark.sql.adaptive.skewJoin"


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        ("execution", {"is_adaptive": False}),
        ("execution", {"configuration": {}}),  # 1 MB is less than the 256 MB from which AQE splits
        ("execution", {"configuration": {f"{SKEW_JOIN}.skewedPartitionThresholdInBytes": "2m"}}),
        (
            "execution",
            {
                "configuration": {
                    f"{SKEW_JOIN}.skewedPartitionThresholdInBytes": "1k",
                    f"{SKEW_JOIN}.skewedPartitionFactor": "20",
                }
            },
        ),
        (
            "execution",
            {
                "configuration": {
                    f"{SKEW_JOIN}.skewedPartitionThresholdInBytes": "100k",
                    f"{SKEW_JOIN}.enabled": "false",
                }
            },
        ),
        ("shuffle", {"aqe_read": ["skewed"]}),
        ("shuffle", {"aqe_partition_bytes_max": 1 << 20}),  # AQE knew it
        ("shuffle", {"map_stages": None}),
        ("shuffle", {"join_nodes": []}),
        ("joins", {"join_type": "FullOuter"}),
        ("joins", {"join_type": "RightOuter"}),  # the left side is skewed
    ],
)
def test_what_aqe_would_not_have_split_anyway_is_not_hidden(table: str, changes: dict[str, Any]) -> None:
    """Its sizes made no difference."""
    assert FindingsEngine(SMALL, UNLIMITED).rows(changed(HIDDEN, table, **changes)) == []


def test_sizes_of_huge_blocks_are_kept() -> None:
    """A block of 100 MB is not part of the mean."""
    rows = execution_rows(recordings()[HIDDEN])

    def largest(size: int) -> Rows:
        stages = [
            structs.replace(row, shuffle_read_bytes=msgspec.structs.replace(row.shuffle_read_bytes, max=size))
            for row in rows.stage
            if row.shuffle_read_bytes
        ]
        return replace(rows, stage=[*(row for row in rows.stage if not row.shuffle_read_bytes), *stages])

    wrote = next(row for row in rows.shuffle if row.join_nodes and row.rows_read_max == 123_287)
    tasks = sum(row.tasks for row in rows.stage if row.stage_id in (wrote.map_stages or ()))
    for size, expected in ((tasks * (100 << 20) - 1, ["hidden-skew"]), (tasks * (100 << 20), [])):
        assert [row.finding for row in FindingsEngine(SMALL, UNLIMITED).rows(largest(size))] == expected


def test_rows_of_nested_loops_are_not_counted_repeatedly() -> None:
    """Spark counts the rows of each side of a cartesian product once for each partition of the other side."""
    loop, cartesian = only("nested-loop", "nested-loop-join"), only("cartesian", "nested-loop-join")
    assert "compared up to 1,200,000 pairs, of 400,000 rows and 3 rows." in loop["title"]
    assert cartesian["title"] == "A cartesian product compared at least 800,000 pairs of rows."
    assert cartesian["evidence"]["pairs"] == 40 * 20_000


def test_a_repeated_shuffle() -> None:
    """With the reuse of exchanges switched off; another aggregate beneath is another shuffle."""
    row = only("shuffle-repeated", "repeated-shuffle")
    assert row["title"] == (
        "The shuffle by store_id, day was made 2 times from the same rows; 29.0 KiB were written again."
    )
    (first, second) = sorted(
        shuffle.node_id for shuffle in execution_rows(recordings()["shuffle-repeated"]).shuffle if shuffle.keys
    )
    assert row["node_id"] in (first, second)


def test_fetch_wait_is_found_where_executors_are_processes() -> None:
    row = only("fetch-wait", "fetch-wait")
    assert row["evidence"]["remote_bytes_read"] > 5_000_000
    assert row["impact_ms"] == row["evidence"]["fetch_wait_ms"]
    assert kinds(recordings()["fetch-wait"], SMALL.overridden(["fetch_wait_share=0.05"])) == set()


def test_a_cache_that_was_read_once() -> None:
    """Whose filling took the tasks long; one that was there already, or is read twice, is none."""
    row = only("cache-filled", "cache-read-once")
    assert (row["severity"], row["evidence"]["rows_read"]) == ("info", 20_000)
    assert "cache-read-once" not in kinds(recordings()["cache-read"])
    assert "cache-read-once" not in kinds(recordings()["cache-filled-read-twice"])


def test_collecting_a_result() -> None:
    """19 MiB came to the driver, which worked on after the last stage."""
    row = only("collected", "driver-collect")
    assert "on a result of 18.9 MiB" in row["title"]
    assert row["evidence"]["broadcasts_alone_ms"] == 0
    assert "write them to files" in row["advice"] and "broadcast" not in row["advice"]


def test_collecting_a_broadcast() -> None:
    """The result is small, so the end of the query is not counted."""
    row = only("broadcast-slow", "driver-collect")
    assert "on broadcasts" in row["title"] and row["evidence"]["result_ms"] == 0
    assert "write them to files" not in row["advice"]


def test_a_late_replan() -> None:
    """AQE made it a broadcast join when the large side was shuffled; with a hint it was one from the start."""
    row = only("replanned-late", "late-replan")
    assert re.fullmatch(
        r"AQE found after [\d.]+ m?s that the join on customer_id can broadcast its right side of 640 B; by then"
        r" 4\.2 MiB had been shuffled needlessly\.",
        row["title"],
    )
    joins = execution_rows(recordings()["replanned-late"]).joins
    assert row["node_id"] == joins[0].node_id


def test_a_join_that_names_no_side() -> None:
    """What it need not have shuffled is not known then, and nothing is found."""
    rows = execution_rows(recordings()["replanned-late"])
    rows = replace(rows, joins=[structs.replace(row, build_side=None) for row in rows.joins])
    assert list(late_replan.evaluate(PlanContext(rows, SMALL, Earlier()))) == []


def test_a_shuffle_whose_rows_turned_out_not_to_matter() -> None:
    """The other side of the join was empty; of several dropped stages the largest is told."""
    row = only("replanned-empty", "late-replan")
    assert row["evidence"]["shuffled_bytes"] == 640_000
    assert (row["node_id"], row["impact_bytes"]) == (-1, 640_000)


# What is not known


def measured(table: str) -> list[str]:
    """The fields of a table's rows that hold numbers and may be None; several columns may be one field."""
    columns = RELATIONS[table].columns
    of_rows = [field.name for field in structs.fields(row_class(table)) if field.default is None]
    return [name for name in of_rows if name not in columns or is_number(columns[name])]


def row_class(table: str) -> Any:
    """The row class of a table."""
    return RELATIONS[table].info["row"]


def is_number(column: Column[Any]) -> bool:
    return isinstance(column.type, (BigInteger, Double, Integer))


@pytest.mark.parametrize("name", recordings())
def test_what_was_not_measured_makes_no_finding(name: str) -> None:
    """With every number unknown only findings from errors are made, and nothing fails."""
    rows = execution_rows(recordings()[name])
    for table in rows.by_table():
        rows = without(rows, table, measured(table))
    found = FindingsEngine(replace(SMALL), raising()).rows(rows, Earlier(*GROWING))
    assert {row.finding for row in found} == EXPECTED.get(name, set()) & {"broadcast-failed"}


@pytest.mark.matrix
@pytest.mark.parametrize("name", recordings())
def test_each_number_may_be_missing(name: str) -> None:
    """No heuristic fails, whichever column is unknown."""
    rows = execution_rows(recordings()[name])
    everything = Thresholds(**{field.name: 0 for field in fields(Thresholds)})
    for table in rows.by_table():
        for each in measured(table):
            FindingsEngine(everything, raising()).rows(without(rows, table, [each]), Earlier(*GROWING))


def without(rows: Rows, table: str, names: list[str]) -> Rows:
    """The rows with nothing in these fields of one table."""
    found = [structs.replace(row, **dict.fromkeys(names)) for row in rows.by_table()[table]]
    some: Any = {table: found[0] if table == "execution" else found}
    return replace(rows, **some)


def raising() -> tuple[Heuristic, ...]:
    """The heuristics, of which none may fail."""

    def strictly(heuristic: Heuristic) -> Heuristic:
        def evaluate(context: PlanContext) -> Iterator[Finding]:
            try:
                yield from heuristic.evaluate(context)
            except Exception as error:
                pytest.fail(f"{heuristic.id}: {error!r}")

        return replace(heuristic, evaluate=evaluate)

    return tuple(replace(strictly(each), is_about_time=False) for each in HEURISTICS)


LEAST_VALUES = {"broadcast-failed", "nested-loop-join"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize(
    "changes",
    [
        {"incomplete": ["3 of 200 task ends of stage 7 were not seen"]},
        {"incomplete": ["Spark dropped 12 events while it ran"]},
        {"state": "failed", "error": "Job aborted"},
    ],
    ids=lambda changes: str(next(iter(changes))),
)
def test_of_what_is_not_whole_only_least_values_are_told(name: str, changes: Row) -> None:
    """Incomplete values do not make a side small, a partition tiny or a task an outlier."""
    rows = changed(name, "execution", **changes)
    expected = EXPECTED[name] & LEAST_VALUES - ({"broadcast-failed"} if "error" in changes else set())
    assert {row.finding for row in FindingsEngine(SMALL, UNLIMITED).rows(rows)} == expected


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_approximated_values_are_whole(name: str) -> None:
    """Medians within 1 %, all else exact; only `broadcast_verdict` wants all of them exact."""
    whole = recordings()[name]
    execution = msgspec.structs.replace(whole, incomplete=["a sentence"], incomplete_codes=["values_approximated"])
    assert kinds(execution) == EXPECTED[name] - {"missed-broadcast"}
    for codes in ([], ["values_approximated", "plans_dropped"]):
        less = msgspec.structs.replace(whole, incomplete=["values of large stages were approximated"] * 2)
        assert kinds(msgspec.structs.replace(less, incomplete_codes=codes)) <= LEAST_VALUES


def test_a_stage_that_ran_twice_makes_an_execution_not_whole() -> None:
    """An execution with a stage that ran twice is incomplete, because Spark counts the last attempt only."""
    assert FindingsEngine(SMALL, UNLIMITED).rows(changed("broadcast-missed", "stage", stage_attempt=1)) == []


@pytest.mark.parametrize("state", ["running", "lost"])
def test_only_ended_executions_are_looked_at(state: str) -> None:
    """Running and lost executions have no findings, because their end is unknown."""
    for name in EXPECTED:
        assert FindingsEngine(SMALL, UNLIMITED).rows(changed(name, "execution", state=state)) == []


# Faults


def test_a_heuristic_that_fails_is_skipped_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """If a heuristic fails, the others continue; its traceback is logged once."""

    def broken(context: PlanContext) -> Iterator[Finding]:
        raise ZeroDivisionError

    findings = FindingsEngine(SMALL, (Heuristic("broken", broken, is_about_time=False), *UNLIMITED))
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            found = findings.rows(execution_rows(recordings()["collected"]))
            assert [row.finding for row in found] == ["driver-collect"]
    (record,) = caplog.records
    assert "heuristic broken failed at " in record.getMessage() and record.exc_info


def test_what_the_history_raises_is_let_out() -> None:
    """Errors of the history are raised: without the database the batch must be sent again."""

    class Gone(Earlier):
        errors: tuple[type[Exception], ...] = (ConnectionError,)

        def broadcast_rows(self, operator_key: str, run: object) -> tuple[int, ...]:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        FindingsEngine(SMALL, UNLIMITED).rows(execution_rows(recordings()["broadcast-switched-near"]), Gone())


def test_one_finding_of_a_kind_at_a_node() -> None:
    """If a node has several findings of a kind, the one with the greatest impact stays: the key allows only one."""

    def twice(context: PlanContext) -> Iterator[Finding]:
        for impact in (1, 3, 2):
            yield Finding("twice", "info", "", {}, "", impact_bytes=impact)

    (row,) = FindingsEngine(SMALL, (Heuristic("twice", twice, is_about_time=False),)).rows(
        execution_rows(recordings()["clean"])
    )
    assert row.impact_bytes == 3
