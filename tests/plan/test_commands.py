"""Commands whose plan has only their name: keys and titles are of what Spark's description of the plan tells."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.documents import planned
from tests.eventlog.recorded import log_at, read

from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Execution, Nested
from joinsight.tables import ExecutionRow

RECORDED = Path(__file__).parents[1] / "exactness/recorded"
ORDERS = "`spark_catalog`.`shop`.`orders`"
MERGE = (
    "SubqueryAlias s, Delta[version={version}, file:/w/orders], (id#{id}L = id#{id}1L),"
    " [Delete [condition: (k#{id} = {k})]]"
)


def row(arguments: str, table: str | None = ORDERS, site: str = "", **changes: object) -> ExecutionRow:
    """A command of which the description tells arguments and perhaps a table."""
    told: Mapping[str, str] = {"Command": arguments} | ({"Table": table} if table else {})
    e = planned("Execute MergeIntoCommand", nested=[Nested(2, 1)], description=site)
    e = replace(e, nodes=[replace(node, metadata=told) for node in e.nodes], **changes)
    return execution_rows(e).execution


def test_a_commands_key_is_of_its_table_and_arguments() -> None:
    """Not of ids, versions, literals and the line of code; also where it is a part of something else."""
    first = row(MERGE.format(version=1, id=278, k=7), site="sql at job.py:7")
    assert first.title == "merge into shop.orders"
    assert first.query_shape == row(MERGE.format(version=24, id=3, k=8), site="sql at job.py:99").query_shape
    assert first.query_shape == row(MERGE.format(version=1, id=5, k=7), root_execution_id=0).query_shape
    others = [
        row(MERGE.format(version=1, id=278, k=7), ORDERS.replace("orders", "returns")),
        row(MERGE.format(version=1, id=278, k=7).replace("= id", "= order_id")),
    ]
    assert len({first.query_shape, *(other.query_shape for other in others), None}) == 4


@pytest.mark.parametrize(
    ("path", "title"),
    [("s3a://b/sales/2026-11-27/orders", "merge into orders"), ("/w/lake/orders", "merge into lake/orders")],
)
def test_a_path_is_told_by_its_end(path: str, title: str) -> None:
    """So the same job has the same key in another bucket."""
    found = row("(id#1 = id#2)", path)
    assert (found.title, found.query_shape) == (title, row("(id#1 = id#2)", f"hdfs://other{path[-14:]}").query_shape)


def test_a_command_without_a_table_is_told_by_its_line_of_code() -> None:
    """As one of Hudi; without one, by its arguments."""
    hudi = "DeleteFromTable (key#894L = cast(5 as bigint))"
    keys = {row(hudi, None, site).query_shape for site in ("sql at job.py:7", "sql at job.py:9", "")}
    assert len(keys - {None}) == 3
    assert row(hudi, None).query_shape != row("DeleteFromTable (day#1 = 5)", None).query_shape


def test_a_log_tells_what_deltas_commands_change(tmp_path: Path) -> None:
    """Each command has a key and a title with its table, although its plan is one name."""
    path = tmp_path / "local-1"
    path.write_bytes(gzip.decompress((RECORDED / "delta/log.gz").read_bytes()))
    found, _ = read(log_at(path))
    rows = [execution_rows(each).execution for each in found if isinstance(each, Execution)]
    titles = {each.execution_id: each.title for each in rows if each.execution_id in (6, 9, 20, 30, 40)}
    assert titles == {
        6: "write (append) aqe_on.copied",
        9: "merge into aqe_on.copied",
        20: "update aqe_on.copied",
        30: "delete aqe_on.copied",
        40: "delete aqe_on.copied",
    }
    assert len({each.query_shape for each in rows if each.execution_id in titles} - {None}) == len(titles)
