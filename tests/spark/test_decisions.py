"""Real Spark: AQE makes each kind of decision at least once, and each is named with what was measured.

Which of two stages ends first is chance, so that the order of decisions and their versions are not compared here; with
recorded plans they are (tests/plan/test_decisions.py).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.documents import StoredRows, stored_rows
from tests.spark import decisions_workload
from tests.spark.sink import listening
from tests.spark_process import SparkRun
from tests.versions import NEWEST, SCALA_2_12

from joinsight.tables import Row

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

SMJ, BHJ, SHJ, READ = "SortMergeJoin", "BroadcastHashJoin", "ShuffledHashJoin", "AQEShuffleRead"
EMPTY = {NEWEST: "EmptyRelation", SCALA_2_12: "LocalTableScan"}
ALL, DIMS = 20_000, 2_000

Found = dict[str, list[StoredRows]]


@pytest.fixture(scope="module", params=[NEWEST, SCALA_2_12])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def ran(version: str, spark_run: SparkRun, tmp_path_factory: Any) -> Found:
    """What the workload's executions become, by their description."""
    with listening() as sink:
        options = (f"{key}={value}" for key, value in sink.conf.items())
        spark_run(version, Path(decisions_workload.__file__), str(tmp_path_factory.mktemp("tables")), *options)
    found = defaultdict(list)
    for execution in sink.newest().values():
        found[execution.description].append(stored_rows(execution))
    return found


def decided(ran: Found, name: str) -> list[tuple[Any, ...]]:
    (rows,) = ran[name]
    return summary(rows["aqe_decision"])


def summary(decisions: list[Row]) -> list[tuple[Any, ...]]:
    columns = ("kind", "operator", "before", "after", "rows_before", "rows_after")
    return sorted((tuple(row.get(column) for column in columns) for row in decisions), key=repr)


def test_a_sort_merge_join_becomes_a_broadcast_join(ran: Found) -> None:
    """A side under the threshold is broadcast instead of sorted, and both shuffles are read locally."""
    (rows,) = ran["to broadcast"]
    assert decided(ran, "to broadcast") == [
        ("join_strategy", BHJ, SMJ, BHJ, 20, 20),
        ("local_read", READ, "4", "1", 20, 20),
        ("local_read", READ, "4", "1", ALL, ALL),
    ]
    switched = next(row for row in rows["aqe_decision"] if row["kind"] == "join_strategy")
    assert switched["bytes_before"] == 720 <= 20 * 1024 < switched["bytes_after"]
    (join,) = rows["joins"]
    assert (join["broadcast_verdict"], join["broadcast_side"]) == ("was_broadcast", "right")
    assert join["broadcast_side_bytes"] == switched["bytes_after"]
    assert (join["left_rows"], join["right_rows"], join["output_rows"], join["output_ratio"]) == (ALL, 20, 200, 0.01)


def test_a_sort_merge_join_becomes_a_shuffled_hash_join(ran: Found) -> None:
    """The relation that tasks build is larger than what was shuffled; it costs time and no sort."""
    (rows,) = ran["to shuffled hash"]
    assert decided(ran, "to shuffled hash") == [
        ("coalesced", READ, "4", "1", DIMS, DIMS),
        ("coalesced", READ, "4", "1", ALL, ALL),
        ("join_strategy", SHJ, SMJ, SHJ, DIMS, None),
    ]
    switched = next(row for row in rows["aqe_decision"] if row["kind"] == "join_strategy")
    assert switched["bytes_before"] == 72_000 < switched["bytes_after"]
    (join,) = rows["joins"]
    assert (join["broadcast_verdict"], join["broadcast_side_bytes"]) == ("switched_off", 72_000)
    assert join["build_bytes"] == switched["bytes_after"]
    assert join["build_ms"] is not None
    assert (join["sort_ms"], join["spill_bytes"]) == (None, None)


def test_partitions_are_coalesced(ran: Found) -> None:
    """200 small partitions become one; AQE knows its bytes about."""
    (rows,) = ran["coalesced"]
    (decision,) = rows["aqe_decision"]
    assert decided(ran, "coalesced") == [("coalesced", READ, "200", "1", 9, 9)]
    assert 0 < decision["bytes_before"] <= decision["bytes_after"] < 2 * decision["bytes_before"]


def test_a_skewed_partition_is_split(ran: Found) -> None:
    """One is skewed and read in parts; the other side's is read as often, which is no decision of its own."""
    (rows,) = ran["skew"]
    ((kind, operator, before, after, rows_before, _),) = decided(ran, "skew")
    assert (kind, operator, before, rows_before) == ("skew_split", READ, "1", ALL)
    assert int(after) >= 2
    (join,) = rows["joins"]
    assert join["is_skew"]
    assert join["sort_ms"] is not None
    assert join["spill_bytes"] == 0


def test_a_join_with_nothing_becomes_an_empty_relation(ran: Found, version: str) -> None:
    """Both its shuffles ran, or began to, and are used no more."""
    assert [each[:4] for each in decided(ran, "empty")] == [
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("empty_relation", EMPTY[version], SMJ, EMPTY[version]),
    ]
    (rows,) = ran["empty"]
    assert rows["joins"] == []


def test_a_plan_may_be_empty_to_the_top(ran: Found, version: str) -> None:
    """The shuffle that was to order the rows has never run."""
    found = decided(ran, "empty to the top")
    assert [each[:4] for each in found] == [
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("dropped_stage", "Exchange", "rangepartitioning", None),
        ("empty_relation", EMPTY[version], SMJ, EMPTY[version]),
    ]
    assert found[2][4] is None


@pytest.mark.parametrize("name", ["outer join with nothing", "anti join with nothing", "half of a union is empty"])
def test_a_join_with_nothing_goes_away(ran: Found, name: str) -> None:
    """What is left is its other side, or nothing; the shuffle of the empty side is used no more."""
    found = [each for each in decided(ran, name) if each[0] != "coalesced"]
    assert [each[:4] for each in found] == [
        ("dropped_stage", "Exchange", "hashpartitioning", None),
        ("empty_relation", SMJ, SMJ, None),
    ]


def test_a_shuffle_is_dropped(ran: Found) -> None:
    """Between two joins a shuffle was planned; it is not made, because both became broadcast joins."""
    found = [each for each in decided(ran, "dropped") if each[0] != "local_read"]
    assert found == [
        ("dropped_stage", "Exchange", "hashpartitioning", None, None, None),
        ("join_strategy", BHJ, SMJ, BHJ, 11, 11),
        ("join_strategy", BHJ, SMJ, BHJ, 20, 20),
    ]


@pytest.mark.parametrize(
    ("name", "coalesced"),
    [
        ("reused", 2),
        ("reused joins", 5),
        ("reused above joins", 4),
        ("scalar subqueries", 1),
        ("pruned", 0),
        ("pruned by a join", 2),
        ("merge", 2),
    ],
)
def test_what_is_reused_is_not_gone(ran: Found, name: str, coalesced: int) -> None:
    """Exchanges, joins and subqueries that go away because their like is read are no decision of this kind."""
    assert [each[0] for each in decided(ran, name)] == ["coalesced"] * coalesced


def test_without_aqe_nothing_is_decided(ran: Found) -> None:
    """The plan stays; that its join could not have been broadcast is measured all the same."""
    (rows,) = ran["without AQE"]
    assert rows["aqe_decision"] == []
    (join,) = rows["joins"]
    assert (join["broadcast_verdict"], join["broadcast_side_bytes"]) == ("over_threshold", 72_000)
    assert join["threshold_bytes"] == 20 * 1024


def test_a_full_outer_join_is_never_broadcast(ran: Found) -> None:
    """A full outer join is not broadcast, because it returns all rows of both sides."""
    (rows,) = ran["merge"]
    assert [join["broadcast_verdict"] for join in rows["joins"]] == ["forbidden_by_type"]


def test_a_side_that_fits_could_be_broadcast(ran: Found) -> None:
    """A side under the threshold, in a join that a hint made, could have been broadcast."""
    (rows,) = ran["pruned by a join"]
    merged = next(join for join in rows["joins"] if join["strategy"] == SMJ)
    assert (merged["broadcast_verdict"], merged["broadcast_side"]) == ("hinted", "left")
    assert merged["broadcast_side_bytes"] == 16


def test_cached_tables_show_their_size(ran: Found) -> None:
    """The join of two cached tables becomes a broadcast join when they are filled, and its shuffles never run."""
    _, first, second = ran["cached"]
    assert summary(first["aqe_decision"]) == [
        ("dropped_stage", "Exchange", "hashpartitioning", None, None, None),
        ("dropped_stage", "Exchange", "hashpartitioning", None, None, None),
        ("join_strategy", BHJ, SMJ, BHJ, None, 801),
    ]
    assert second["aqe_decision"] == []


def test_the_same_data_frame_again(ran: Found) -> None:
    """What was decided in the first run stands in the second one's first plan."""
    first, second = ran["run twice"]
    assert [row["kind"] for row in first["aqe_decision"]] == ["coalesced"]
    assert second["aqe_decision"] == []


def test_an_execution_that_failed_decided_nothing(ran: Found) -> None:
    (rows,) = ran["failed"]
    assert rows["execution"][0]["state"] == "failed"
    assert rows["aqe_decision"] == []
    assert [join["broadcast_verdict"] for join in rows["joins"]] == ["was_broadcast"]
