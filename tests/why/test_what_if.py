"""How long real executions would have taken with one thing changed."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from msgspec import structs
from sqlalchemy import Engine
from tests.analysis import test_replay
from tests.documents import application, longest, read_back

from joinsight.analysis.stored import StoredPlan
from joinsight.base.errors import JoinsightError, NotFound
from joinsight.cli import cli
from joinsight.contract.document import Execution
from joinsight.store.writer import Writer
from joinsight.why.what_if import more_slots, other_partitions, with_broadcast, without_skew


def document() -> Execution:
    """TPC-H 18 without AQE: 10.8 s on four slots; its joins are 4, 10, 22 and 41."""
    return test_replay.run("tpch18-slots4-without-aqe")


def stored(e: Execution | None = None) -> StoredPlan:
    return read_back(e or document())


def test_more_slots_shorten_it_until_the_rest_is_what_takes_time() -> None:
    times = [more_slots(stored(), slots).predicted_ms for slots in (1, 2, 4, 8, 100, 1_000)]
    assert times == sorted(times, reverse=True)
    assert times[2] == stored().execution["duration_ms"]
    assert times[-1] == times[-2] > 1_300, "the driver takes that"


def test_with_as_many_slots_nothing_changes() -> None:
    found = more_slots(stored(), 4)
    assert found.difference_ms == 0
    assert "no difference" in found.text
    assert found.low_ms < found.measured_ms < found.high_ms


def test_the_rest_is_named() -> None:
    """It adds up to the predicted replay, as long as there are few parts."""
    found = more_slots(stored(), 100)
    assert found.stays[0].what.startswith("stage ")
    assert "the driver" in [each.what for each in found.stays]
    assert sum(each.ms for each in found.stays) <= found.predicted_ms * 1.01


def test_without_skew_the_longest_task_is_as_long_as_the_others() -> None:
    """The first stage has 16 tasks, of which one takes as long as all others together."""
    e = document()
    first = next(stage for stage in e.stages if stage.run_time is not None and stage.tasks > 1)
    assert first.run_time is not None
    run = first.run_time_ms
    skewed = structs.replace(first.run_time, min=1, p25=1, median=1, p75=1, p95=run - 20, max=run - 20)
    e = structs.replace(e, stages=[structs.replace(s, run_time=skewed) if s.id == first.id else s for s in e.stages])
    found = without_skew(stored(e))
    assert found.predicted_ms <= found.measured_ms


def test_without_skew_there_is_nothing_to_predict() -> None:
    e = document()
    stages = [structs.replace(stage, run_time=None) for stage in e.stages]
    with pytest.raises(JoinsightError, match="is skewed"):
        without_skew(stored(structs.replace(e, stages=stages)))


def test_very_many_partitions_take_longer() -> None:
    few, many = (other_partitions(stored(), number).predicted_ms for number in (8, 2_000))
    assert few < many
    assert other_partitions(stored(), 1).predicted_ms > few, "on one of four slots"


@pytest.mark.parametrize("join", [4, 10, 22, 41])
def test_a_broadcast_has_an_interval_for_the_driver(join: int) -> None:
    found = with_broadcast(stored(), join)
    assert found.low_ms < found.predicted_ms < found.high_ms
    assert f"B for join {join}" in found.change


def test_what_cannot_be_broadcast() -> None:
    with pytest.raises(NotFound, match=r"Operator 0 is not a join of .*; its joins are 4, 10, 22, 41\."):
        with_broadcast(stored(), 0)
    with pytest.raises(JoinsightError, match=r"Join 9 \(BroadcastHashJoin\) already uses a broadcast"):
        with_broadcast(stored(test_replay.run("tpch10-slots4")), 9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"state": "running", "ended_at_ms": None}, "is running: it can be scheduled again when it has ended"),
        ({"incomplete": ["3 of 4 task ends were not seen"]}, "is partial, .*3 of 4 task ends were not seen"),
        ({"stages": []}, "ran no stages that are known"),
    ],
)
def test_what_cannot_be_scheduled_again(changes: dict[str, object], message: str) -> None:
    with pytest.raises(JoinsightError, match=message):
        more_slots(stored(structs.replace(document(), **changes)), 2)


def test_slots_that_others_had_are_named() -> None:
    """An execution beside another query, which had one of the two slots."""
    its = stored(longest(test_replay.HERE.parent / "why" / "documents" / "slots0.ndjson.gz"))
    assert any("Other queries held some of its slots" in limit for limit in more_slots(its, 4).limits)
    assert not any("Other queries" in limit for limit in more_slots(stored(), 2).limits)


def test_the_command(engine: Engine) -> None:
    e = document()
    Writer(engine).write([application(application_id=e.application_id), e])
    url = engine.url.render_as_string(hide_password=False)
    name = f"{e.application_id}/{e.execution_id}"

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["what-if", name, *arguments], env={"JOINSIGHT_DATABASE_URL": url})
        assert result.exit_code == code, result.output
        return result.output or str(result.exception)

    printed = json.loads(run("--slots", "16", "--json"))
    assert set(printed) == {
        *("execution", "change", "measured_ms", "replay_ms", "predicted_ms", "low_ms", "high_ms", "difference_ms"),
        *("stays", "limits", "text"),
    }
    assert printed["predicted_ms"] == more_slots(stored(), 16).predicted_ms, "as before it was stored"
    shown = run("--broadcast", "22")
    assert "What stays:" in shown and "With a broadcast of 20.6 MiB for join 22 it would" in " ".join(shown.split())
    assert "Give one of --slots" in run(code=2)
    assert "Give one of --slots" in run("--slots", "2", "--partitions", "3", code=2)
    assert "its joins are 4, 10, 22, 41" in run("--broadcast", "7", code=1)
