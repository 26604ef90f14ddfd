"""What dbt's query comment tells about a statement becomes tags."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace
from tests.documents import STARTED_AT_MS, execution, planned
from tests.growth import check_cpu_time

from joinsight.analysis.dbt import dbt_tags
from joinsight.analysis.rows import execution_rows
from joinsight.contract.document import Nested

COMMENT = (
    '/* {"app": "dbt", "dbt_version": "1.10.22", "profile_name": "shop", "target_name": "dev", "node_id":'
    ' "model.shop.by_item"} */'
)
"""Written by the template of dbt 1.10."""
STATEMENT = "create table shop.by_item as select item, sum(amount) from shop.sales group by item"
TAGS = {"dbt_node": "model.shop.by_item", "dbt_profile": "shop", "dbt_target": "dev"}


@pytest.mark.parametrize("text", [f"{COMMENT}\n\n{STATEMENT}", f"{STATEMENT}\n{COMMENT}"])
@pytest.mark.parametrize("field", ["description", "statement"])
def test_the_comment_is_tags_of_the_execution(field: str, text: str) -> None:
    """In front of the statement or after it; a Thrift server has it as description. The user's own tags win."""
    rows = execution_rows(execution(tags={"team": "sales", "dbt_target": "prod"}, **{field: text}))
    assert rows.execution.tags == {**TAGS, "team": "sales", "dbt_target": "prod"}
    assert rows.execution.title == STATEMENT


def test_the_model_is_the_key_of_a_table() -> None:
    """In a session, Spark's plan has only the command's name, and its call site says nothing."""

    def key(model: str) -> str | None:
        started = [Nested(2, STARTED_AT_MS)]
        site = "sql at NativeMethodAccessorImpl.java:0"
        command = planned("Execute CreateDataSourceTableAsSelectCommand", nested=started, description=site)
        return execution_rows(replace(command, statement=COMMENT.replace("by_item", model))).execution.query_shape

    assert key("sales") is not None and key("sales") == key("sales") != key("top")


@pytest.mark.parametrize(
    "text",
    [
        STATEMENT,
        '/* {"app": "dbt", "node_id": ****} */',
        '/* {"app": "dbt", "node_id": 7, "profile_name": ["x"], "target_name": ""} */',
        '/* {"app": "other", "node_id": "x"} */',
        "",
    ],
)
def test_other_comments_are_no_tags(text: str) -> None:
    """Nor what the listener has masked, and values of another type."""
    assert dbt_tags(text) == {}


def test_tags_are_bounded() -> None:
    """A long name is cut, and comments without an end take time by their length."""
    assert len(dbt_tags(COMMENT.replace("by_item", "x" * 1_000))["dbt_node"]) == 200
    check_cpu_time(lambda size: partial(dbt_tags, '/* {"app": "dbt"' * size), 100_000)
