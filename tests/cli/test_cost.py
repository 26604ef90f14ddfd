"""What `joinsight cost` prints of a stored execution."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.console import Console
from sqlalchemy import Engine, text
from tests.documents import application, read_back
from tests.timing.test_cost import MERGED, ended, ran

from joinsight.cli import cli
from joinsight.cli.cost import print_breakdown
from joinsight.store.writer import Writer
from joinsight.terminal.execution import print_task_time

SAMPLED = MERGED.format(left="REPARTITION_BY_COL", sorted="false")


@pytest.fixture(scope="module")
def url(engine: Engine) -> str:
    """A sort-merge join with samples (1), without (2), and while it runs (3)."""
    samples = {"operator__SortMergeJoin": 30, "operator__Filter": 20, "shuffle_read": 30, "other": 50}
    with_samples, without = ran(7, 200, 900, 1_000, **samples), ran(7, 200, 900, 1_000)
    Writer(engine).write([
        application(),
        ended(SAMPLED, with_samples, execution_id=1, sequence=2, description="merged"),
        ended(SAMPLED, without, execution_id=2, sequence=3),
        ended(SAMPLED, with_samples, execution_id=3, sequence=4, state="running", ended_at_ms=None),
    ])  # fmt: skip
    return engine.url.render_as_string(hide_password=False)


def cost(url: str, *arguments: str) -> str:
    """What it prints."""
    result = CliRunner().invoke(cli, ["cost", *arguments], env={"JOINSIGHT_DATABASE_URL": url})
    assert result.exit_code == 0, result.output
    return result.stdout


BREAKDOWN = """\
Cost:
wall time  % wall  task time  error    % tasks  node  what
   269 ms    26.9     384 ms  ± 43 ms     38.4        no operator: starting up, compiling code
   200 ms    20.0                                     planning: the driver, before anything ran
   162 ms    16.2     231 ms  ± 37 ms     23.1     1  SortMergeJoin [k], [k], Inner
   161 ms    16.1     231 ms  ± 37 ms     23.1     4  Exchange hashpartitioning(k, 4), REPARTITION_BY_COL
   108 ms    10.8     154 ms  ± 32 ms     15.4        stage 7: HashAggregate, SortMergeJoin, 2 Sort
   100 ms    10.0                                     returning results: the driver, after the last job
    1.0 s   100.0      1.0 s             100.0        total

Joins, each with the sorts, shuffles and broadcasts that only it needed:
       wall time   % wall         task time  error    % tasks  node  what
162 ms to 270 ms  to 27.0  231 ms to 385 ms  ± 37 ms  to 38.5     1  SortMergeJoin [k], [k], Inner
          162 ms                     231 ms  ± 37 ms              1    the join itself
                                                                       and an unknown part of stage 7 (108 ms wall time, 154 ms task time)
                                                                  4    not counted: Exchange, asked for by the query or read by others

Wall time: how long the execution waited for it. Task time: summed over tasks. See joinsight docs cost.
"""  # noqa: E501


def test_operators_are_listed_largest_first_with_sums(url: str) -> None:
    """Operators and remainders, the largest first, with sums; then the joins with what they needed."""
    shown = cost(url, "1")
    assert shown[shown.index("Cost:") :] == BREAKDOWN


def test_kinds_of_work_are_named() -> None:
    """Those that are a tenth of an operator's time or more, in the breakdown and under the plan."""
    samples = {
        "operator__SortMergeJoin": 9,
        "operator__SortMergeJoin__+regex": 80,
        "operator__SortMergeJoin__+date": 11,
    }
    drawing = MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false")
    stored = read_back(ended(drawing, ran(7, 200, 900, 1_000, **samples)))
    out = Console(file=StringIO(), width=140)
    print_breakdown(out, stored)
    print_task_time(out, stored)
    shown = out.file.getvalue()  # type: ignore[attr-defined]
    assert "SortMergeJoin [k], [k], Inner (regular expressions 80 %, dates and timestamps 11 %)\n" in shown
    assert "SortMergeJoin, node 1 (regular expressions 80 %, dates and timestamps 11 %)\n" in shown


def test_what_a_shuffle_would_have_saved() -> None:
    """Until what ran beside it would have been the longest; unknown without samples."""
    drawing = MERGED.format(left="ENSURE_REQUIREMENTS", sorted="false")
    stage = ran(7, 200, 900, 1_000, operator__SortMergeJoin=30, shuffle_read=30, other=40)
    for its_stages, saved in (
        ([stage], ["210 ms"]),
        ([replace(ran(3, 200, 850, 2_600), slots=8), replace(stage, run_time_ms=2_800)], ["50 ms"]),
        ([replace(stage, samples={})], []),
    ):
        stored = read_back(ended(drawing, *its_stages))
        out = Console(file=StringIO(), width=140)
        print_breakdown(out, stored)
        shown = out.file.getvalue()  # type: ignore[attr-defined]
        said = [f"without shuffle 4, the query would have taken about {each} less" for each in saved]
        assert re.findall("without .*", shown) == said


def test_without_samples_a_joins_stage_is_one_line(url: str) -> None:
    """The join's stage is one line, and the join costs what Spark measured up to all of its stage."""
    shown = cost(url, "2")
    assert "35 ms to 693 ms" in shown and "and an unknown part of stage 7 (658 ms wall time, 940 ms task time)" in shown
    assert "joinsight docs task-time" in shown


def test_wall_time_is_unknown_before_the_end(url: str) -> None:
    shown = cost(url, "3")
    assert "Only task time" in shown
    assert "% wall" not in shown and "% tasks" in shown


def test_each_operator_of_the_plan_has_its_share(url: str) -> None:
    """Each operator with its share of the wall time; before the end there is no such column."""
    env = {"JOINSIGHT_DATABASE_URL": url}
    shown = CliRunner().invoke(cli, ["plan", "1"], env=env).stdout.splitlines()
    assert ["rows", "bytes", "time", "%", "wall", "skew"] in [line.split() for line in shown]
    assert [line.split()[-1] for line in shown if "⋈ SortMergeJoin" in line or "⇄" in line][:2] == ["16.2", "16.1"]
    assert "% wall" not in CliRunner().invoke(cli, ["plan", "3"], env=env).stdout


def test_json_has_the_same_lines_with_raw_numbers(url: str) -> None:
    """The same lines, with raw numbers and all operators of each join."""
    breakdown = json.loads(cost(url, "1", "--json"))
    assert breakdown["execution"]["duration_ms"] == sum(item["wall_ms"] for item in breakdown["items"]) == 1_000
    assert {item["label"]: item["task_time_ms"] for item in breakdown["items"]}["SortMergeJoin [k], [k], Inner"] == 231
    (join,) = breakdown["joins"]
    assert (join["node_id"], join["needed"], join["not_its_own"]) == (1, [2, 6, 7], [4])
    assert join["savings_ms"] == {}, "nothing of the other shuffle was measured"


def test_task_time_has_a_price(url: str) -> None:
    """Task time in money, at the price of a core-hour; small amounts have two digits."""
    for price, total in (("0.05", "0.000014"), ("12345.678", "3.43"), ("0", "100.0")):
        lines = cost(url, "1", "--core-hour-price", price).splitlines()
        assert [line.split()[-2:] for line in lines if line.endswith("total")] == [[total, "total"]]
    breakdown = json.loads(cost(url, "1", "--json", "--core-hour-price", "3600"))
    assert [item["price"] for item in breakdown["items"]] == [
        item["task_time_ms"] / 1_000 for item in breakdown["items"]
    ]
    assert breakdown["joins"][0]["price"] == 0.231


def test_joins_are_sorted_by_cost(url: str, engine: Engine) -> None:
    """The list sorted by cost, and the queries of the documentation: all runs of a join, and kinds of work by week."""
    result = CliRunner().invoke(cli, ["joins", "--sort", "cost", "--json"], env={"JOINSIGHT_DATABASE_URL": url})
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["execution_id"] for row in rows] == [2, 1, 3], "those that can have cost most first"
    assert [(row["cost_wall_ms"], row["cost_most_wall_ms"], row["cost_task_ms"]) for row in rows] == [
        (35, 693, 50), (162, 270, 231), (None, None, 231),
    ]  # fmt: skip
    shown = CliRunner().invoke(cli, ["joins", "--sort", "cost"], env={"JOINSIGHT_DATABASE_URL": url}).stdout
    assert "35 ms to 693 ms" in shown.splitlines()[2] and "162 ms to 270 ms" in shown.splitlines()[3]
    page = (Path(__file__).parents[2] / "docs/cost.md").read_text()
    of_joins, of_kinds, of_executions = re.findall(
        r"```sql\n(.*?);\n```", re.sub(r"now\(\) - interval '\d+ \w+'", "'2026-01-01'", page), re.DOTALL
    )
    with engine.connect() as connection:
        (found,) = connection.execute(text(of_joins)).mappings()
        kinds = connection.execute(text(of_kinds)).mappings().all()
        (executions,) = connection.execute(text(of_executions)).mappings()
    assert (found["runs"], found["wall_ms"], found["most_ms"]) == (3, 162 + 35, 270 + 693)
    assert float(found["core_hours"]) == pytest.approx((231 + 50 + 231) / 3_600_000)
    assert {"join", "shuffle", "sort", "shared", "driver"} <= {row["kind"] for row in kinds}
    assert float(sum(row["hours"] or 0 for row in kinds)) == pytest.approx(2 * 1_000 / 3_600_000)
    core_hours = {row["kind"]: float(row["core_hours"] or 0) for row in kinds}
    assert float(executions["core_hours"]) == pytest.approx(sum(core_hours.values()))
    assert float(executions["joins"]) == pytest.approx(core_hours["join"])
