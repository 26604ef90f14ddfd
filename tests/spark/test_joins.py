"""Joins of a real Spark, from the listener to the rows of table `joins`."""

from __future__ import annotations

import json
import re

import pytest
from tests.documents import stored_rows
from tests.spark.sink import Sink
from tests.spark.test_listener import run
from tests.spark_process import SparkRun
from tests.versions import NEWEST

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.tables import Row

pytestmark = [pytest.mark.spark, pytest.mark.matrix]

AS_OF = {"spark.sql.join.asofJoin.enabled": "true", "spark.sql.join.sortMergeAsOfJoin.enabled": "true"}
OF_CORE = {
    "spark.shuffle.accurateBlockSkewedFactor": "5.0",
    "spark.shuffle.accurateBlockThreshold": "1m",
    "spark.shuffle.minNumPartitionsToHighlyCompress": "100",
}


@pytest.mark.parametrize("redacted", ["false", "true"])
def test_joins_of_spark_4_3(redacted: str, sink: Sink, spark_run: SparkRun) -> None:
    """As-of joins have their keys, sides and rows like any other; a hint and Spark's own limit are in the verdict."""
    options = {
        **AS_OF,
        **OF_CORE,
        "spark.sql.shuffle.spreadNullJoinKeys.enabled": "true",
        "spark.joinsight.redactLiterals": redacted,
        "spark.sql.shuffle.partitions": "4",
        # Spark plans a sort-merge join, which AQE leaves as it is, though it could be broadcast
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.adaptive.autoBroadcastJoinThreshold": "2k",
        "spark.sql.adaptive.nonEmptyPartitionRatioForBroadcastJoin": "1.0",
    }
    run(sink, spark_run, NEWEST, "joins.py", **options)
    documents = [decode_document(json.dumps(document).encode()) for document in sink.taken()]
    newest = {d.execution_id: d for d in documents if isinstance(d, Execution)}
    joins = {d.description: row for d in newest.values() for row in stored_rows(d)["joins"]}

    def shown(name: str, *columns: str) -> tuple[object, ...]:
        return tuple(_plain(joins[name], column) for column in columns)

    text = ("strategy", "join_type", "left_keys", "right_keys", "condition")
    five = "?" if redacted == "true" else "5"
    assert shown("as of", *text) == ("SortMergeAsOfJoin", "Inner", "k", "k", "(t >= t)")
    assert shown("left", *text) == ("SortMergeAsOfJoin", "LeftOuter", "k", "k", f"(t >= t), ((v + {five}) > w)")
    assert shown("all", *text) == ("SortMergeAsOfJoin", "Inner", "", "", "(t >= t)")
    nearest = "if ((t > t)) (t - t) else (t - t)"
    assert shown("nearest", *text) == ("SortMergeAsOfJoin", "LeftOuter", "k", "k", nearest)
    counted = ("left_rows", "right_rows", "output_rows", "broadcast_verdict")
    assert shown("as of", *counted) == (40, 30, 34, "forbidden_by_type")  # 6 come before any quote of theirs
    assert shown("nearest", *counted) == (40, 30, 40, "forbidden_by_type")
    for row in joins.values():
        assert None not in (row["left_exchange"], row["right_exchange"], row["sort_ms"], row["left_bytes"])
    verdict = ("strategy", "broadcast_verdict", "broadcast_side", "hint")
    assert shown("possible", *verdict) == ("SortMergeJoin", "possible", "right", None)
    assert shown("merge", *verdict) == ("SortMergeJoin", "hinted", "right", "merge right")
    assert joins["too large"]["broadcast_verdict"] == "over_threshold"
    [execution] = [d for d in newest.values() if d.description == "too large"]
    kept = {**AS_OF, "spark.sql.maxBroadcastTableSize": "100b", "spark.sql.shuffle.spreadNullJoinKeys.enabled": "true"}
    assert kept.items() <= execution.configuration.items()
    [*_, application] = [d for d in documents if not isinstance(d, Execution)]
    assert OF_CORE.items() <= application.configuration.items()


def _plain(row: Row, column: str) -> object:
    """Without Spark's ids of columns."""
    value = row[column]
    value = ", ".join(value) if isinstance(value, list) else value
    return re.sub(r"#\d+L?", "", value) if isinstance(value, str) else value
