"""What dbt's query comment tells about a statement becomes tags."""

from __future__ import annotations

from functools import partial

import pytest
from tests.documents import execution
from tests.growth import check_cpu_time

from joinsight.analysis.dbt import dbt_tags
from joinsight.analysis.rows import execution_rows

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
