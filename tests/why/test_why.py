"""Why real runs of one query took longer: tests/why/documents, where one thing was changed in each."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.documents import application, longest, read_back
from tests.plan.test_same_query import documents, recorded
from tests.why.changed import longer_commit, longer_stage

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.base.errors import JoinsightError
from joinsight.cli import cli
from joinsight.contract.accepted_advice import SETTING, AcceptedAdvice, add_to_file, read_file, to_setting
from joinsight.contract.document import Execution
from joinsight.queries import reading
from joinsight.store.writer import Writer
from joinsight.why import CODES, NOT_EXPLAINED, explain

DOCUMENTS = Path(__file__).parent / "documents"
CHANGED = {
    "twice0": "data",
    "tiny0": "files",
    "slots1": "slots",
    "udf0": "cpu_per_row",
    "expensive0": "cpu_per_row",
    "bcast1": "plan",
}
"""What was changed: twice the data, 300 small files for 2, another query in the slots, a Python function around the key
of a join, hashes in a distinct count, and no hint."""
BASES = {"slots1": "base5", "expensive0": "distinct0"}
"""What it is compared with, if that is not base2: all of these were recorded while the machine had more to do."""


def document(name: str) -> Execution:
    return longest(DOCUMENTS / f"{name}.ndjson.gz")


def stored(name: str, **changes: object) -> StoredPlan:
    """As it is once stored; all ran with two slots."""
    its = msgspec.structs.replace(document(name), **changes)
    return read_back(its, slots=2)


@pytest.mark.parametrize("name", recorded("comet"))
def test_another_engine_is_the_cause(name: str) -> None:
    """Its rows have other bytes and take other times, and Spark does not see the CPU time of its threads."""
    why = explain(*(stored_plan(recorded(engine)[name]) for engine in ("spark", "comet")))
    codes = {cause.code: cause for cause in why.causes if abs(cause.wall_ms) >= 100}
    assert not {"data", "contention", "cpu_per_row", "broadcast"} & set(codes)
    assert codes["plan"].evidence[0].startswith("Comet ran ")
    assert codes["plan"].evidence[0].endswith(" operators, none before")


@pytest.mark.parametrize("knows", ["ab", "a", "b"])
def test_accepted_advice_that_only_one_run_follows(knows: str) -> None:
    """Also if it was accepted between the two, so that only the application of one knows it."""
    fast, slow = (
        {join.operator_key: join for join in execution_rows(document(name)).joins} for name in ("base2", "bcast1")
    )
    [key] = (each for each in fast.keys() & slow.keys() if each and fast[each].strategy != slow[each].strategy)
    values = {"variant": "broadcast it", "saved_ms": 9, "low_ms": 7, "high_ms": 12, "date": date(2026, 11, 27)}
    advice = [AcceptedAdvice(key, strategy=slow[key].strategy, **values)]  # type: ignore[arg-type]
    a, b = (
        replace(stored(name), advice=advice if letter in knows else ())
        for letter, name in (("a", "base2"), ("b", "bcast1"))
    )
    assert "it runs without accepted advice: broadcast it, which saved 9 ms" in str(explain(a, b).causes[0])
    assert "it follows accepted advice now: broadcast it" in str(explain(b, a).causes[0])


@pytest.mark.parametrize("name", documents("comet"))
def test_longer_work_of_comets_threads_is_neither_more_cpu_time_nor_waiting(name: str) -> None:
    """Which of them it is, nobody knows; where earlier runs differ as much, it is their scatter."""
    e = documents("comet")[name]
    longest = max(e.stages, key=lambda stage: stage.run_time_ms)
    more = 2 * longest.run_time_ms
    slow = read_back(longer_stage(e, longest.id, more // 2, run_time_ms=more))
    a = read_back(e)
    run = sum(stage.run_time_ms for stage in e.stages)
    cpu = sum(stage.cpu_time_ns for stage in e.stages) // 1_000_000
    for factors in ([1.0] * 9, [1.0, 2.5, 1.2, 3.0, 1.5, 2.8, 1.1, 2.2, 1.9]):
        earlier = [
            {
                "duration_ms": round(a.execution["duration_ms"] * f),
                "cpu_time_ms": cpu,
                "waited_ms": round(run * f) - cpu,
            }
            for f in factors
        ]
        why = explain(replace(a, earlier=earlier), replace(slow, earlier=earlier))
        assert not {"cpu_per_row", "contention"} & {cause.code for cause in why.causes}
    assert why.is_normal


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_changed_is_the_first_cause(name: str) -> None:
    why = explain(stored(BASES.get(name, "base2")), stored(name))
    assert why.causes[0].code == CHANGED[name], why
    assert why.causes[0].evidence
    assert CHANGED[name] in why.text


@pytest.mark.parametrize("name", [*CHANGED, "base4", "hog0"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_causes_add_up_to_the_difference(name: str, is_turned: bool) -> None:
    a, b = stored("base2"), stored(name)
    why = explain(b, a) if is_turned else explain(a, b)
    assert sum(cause.wall_ms for cause in why.causes) == why.difference_ms
    assert sum(cause.task_ms for cause in why.causes) == why.task_difference_ms
    assert {cause.code for cause in why.causes} <= set(CODES)
    assert all(cause.evidence for cause in why.causes if cause.code != NOT_EXPLAINED)


def test_an_execution_differs_from_itself_by_nothing() -> None:
    why = explain(stored("base2"), stored("base2"))
    assert (why.difference_ms, why.is_normal, list(why.causes)) == (0, True, [])


def test_the_text_names_no_cause_that_made_the_opposite() -> None:
    """A run took less, although its commit took longer."""
    e = document("base2")
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    slow = longer_stage(e, stage.id, 3_500, run_time_ms=7_000, gc_time_ms=7_000)
    slow = longer_stage(slow, stage.id, 3_500, run_time_ms=7_000, shuffle_fetch_wait_ms=6_000)
    a, b = (read_back(each, slots=2) for each in (slow, longer_commit(e, 4_000)))
    earlier = [{"duration_ms": a.execution["duration_ms"]}] * 9
    why = explain(replace(a, earlier=earlier), b)
    assert why.difference_ms < 0 < why.causes[0].wall_ms
    assert re.search("The largest cause is (memory|fetch): -", why.text), why.text


def test_the_order_in_which_spark_plans_distinct_aggregates_is_no_other_plan() -> None:
    """It is that of ids, which are others in each run."""
    a, b = stored("distinct0"), stored("distinct1")
    assert a.execution["query_shape"] == b.execution["query_shape"]
    assert explain(a, b).is_normal and explain(b, a).is_normal


def test_what_spark_samples_again_to_sort_more_data_is_no_other_plan() -> None:
    """A stage without operators, of 400 ms, which ran only with twice the data."""
    why = explain(stored("sorted0"), stored("sorted1"))
    assert [cause.code for cause in why.causes] == ["data", NOT_EXPLAINED]
    assert abs(why.causes[1].wall_ms) < 100


def test_more_rows_that_pass_a_filter_are_more_data() -> None:
    """A filter passed ten times as many of the same rows, and what is above it took more CPU time."""
    e = document("base2")
    stage = max(e.stages, key=lambda each: each.input_rows or 0)
    more_ms = 9 * stage.cpu_time_ns // 1_000_000
    slow = longer_stage(e, stage.id, more_ms // 2, run_time_ms=more_ms, cpu_time_ns=more_ms * 1_000_000)
    wide, narrow = (read_back(each, slots=2) for each in (slow, passing(e, 0.1)))
    why = explain(narrow, wide)
    assert why.causes[0].code == "data" and why.causes[0].wall_ms > 0.4 * more_ms, why
    assert f"filters of stage {stage.id} passed" in why.causes[0].evidence[0]
    assert explain(stored("base2"), wide).causes[0].code == "cpu_per_row"
    assert explain(wide, narrow).causes[0].wall_ms == -why.causes[0].wall_ms


def passing(e: Execution, share: float) -> Execution:
    """Its filters pass as many times the rows."""
    passed = {m.id for node in e.nodes if node.name == "Filter" for m in node.metrics}
    measured = [
        msgspec.structs.replace(each, sum=round((each.sum or 0) * share)) if each.id in passed else each
        for each in e.accumulators
    ]
    return msgspec.structs.replace(e, accumulators=measured)


def test_a_bit_more_rows_that_pass_a_filter_are_the_same_work() -> None:
    """They took 3 % more CPU time: what is longer is chance on busy hosts."""
    e = document("base5")
    stage = max(e.stages, key=lambda each: each.input_rows or 0)
    more_ms = stage.run_time_ms // 2
    slow = longer_stage(
        passing(e, 1.15), stage.id, more_ms // 2, run_time_ms=more_ms, cpu_time_ns=round(0.03 * stage.cpu_time_ns)
    )
    why = explain(stored("base5"), read_back(slow, slots=2))
    assert why.difference_ms > 700 and why.is_normal, why


def test_a_difference_within_the_scatter_has_no_cause() -> None:
    walls = [8627, 6124, 6362, 7044, 5493]
    earlier = [{"duration_ms": wall, "run_time_ms": wall, "cpu_time_ms": wall // 5} for wall in walls]
    why = explain(stored("base2"), replace(stored("twice0"), earlier=earlier))
    assert why.is_normal and why.runs == 5
    assert [cause.code for cause in why.causes] == [NOT_EXPLAINED]
    assert "normal scatter, no cause" in why.text


def test_runs_that_did_the_same_and_differ_by_a_seventh_have_no_cause() -> None:
    """Nothing else is known of the query: two runs of it."""
    why = explain(stored("base2"), stored("base4"))
    assert why.difference_ms == -869
    assert why.is_normal and [cause.code for cause in why.causes] == [NOT_EXPLAINED]


def test_only_earlier_runs_with_the_same_plan_and_rows_tell_the_scatter() -> None:
    """Nine runs with a broadcast, or of half the rows, tell nothing of a run with a merge."""
    a, b = stored("base2"), stored("tiny0")
    wall, rows = a.execution["duration_ms"], sum(row["input_rows"] or 0 for row in a.stages)
    own = {"plan_fingerprint": a.execution["plan_fingerprint"], "input_rows": rows}
    others: tuple[dict[str, object], ...] = ({}, {"plan_fingerprint": "another"}, {"input_rows": rows // 2})
    runs = [
        explain(a, replace(b, earlier=[{"duration_ms": wall + 9 * each, **own, **other} for each in range(9)])).runs
        for other in others
    ]
    assert runs == [9, 0, 0]


@pytest.mark.parametrize(("is_busy", "named"), [(True, []), (False, [3_000, 5_000, 8_000])])
def test_busy_hosts_are_no_cause_where_they_always_are(is_busy: bool, named: list[int]) -> None:
    """Where tasks always wait for CPUs, two runs do not tell whether 14 s instead of 6.4 s is chance."""
    e = document("base2")
    if not is_busy:
        calm = [msgspec.structs.replace(each, cpu_time_ns=900_000 * each.run_time_ms) for each in e.stages]
        e = msgspec.structs.replace(e, stages=calm)
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    found = []
    for more in (500, 3_000, 5_000, 8_000):
        other = longer_stage(e, stage.id, more, run_time_ms=2 * more)
        why = explain(*(read_back(each, slots=2) for each in (e, other)))
        found += [more] * (not why.is_normal and why.causes[0].code == "contention")
    assert found == named


def test_side_effects_are_counted_with_their_cause() -> None:
    """What read twice the data also collected more garbage, and had a busier driver."""
    why = explain(stored("base2"), stored("twice0"))
    assert [cause.code for cause in why.causes] == ["data"]


def test_a_run_whose_numbers_are_partial_has_no_cause() -> None:
    partial = stored("tiny0", incomplete=["3 of 4 task ends of stage 1 were not seen"])
    why = explain(stored("base2"), partial)
    assert [cause.code for cause in why.causes] == [NOT_EXPLAINED]
    assert any("3 of 4 task ends" in limit for limit in why.limits)


def test_runs_of_two_versions_of_spark_are_divided_and_say_so() -> None:
    """The versions are a witness of another plan, as settings are."""
    a, b = (replace(stored(name), spark_version=version) for name, version in (("base2", "3.5.8"), ("bcast1", "4.3.0")))
    why = explain(a, b)
    assert any("Spark is 4.3.0, 3.5.8 before" in limit for limit in why.limits)
    plan = next(cause for cause in why.causes if cause.code == "plan")
    assert "Spark is 4.3.0, 3.5.8 before" in plan.evidence
    assert not explain(replace(a, spark_version="4.3.0"), b).limits


def test_a_run_without_a_critical_path_has_no_cause() -> None:
    """As one of which no stage is known."""
    why = explain(stored("base2"), replace(stored("tiny0"), segments=[]))
    assert [cause.code for cause in why.causes] == [NOT_EXPLAINED]
    assert why.causes[0].wall_ms == why.difference_ms
    assert any("has no critical path" in limit for limit in why.limits)


def test_stages_without_a_distribution_of_their_tasks_are_divided() -> None:
    """As documents of an execution whose tasks told no run time have them."""
    stages = [msgspec.structs.replace(stage, run_time=None) for stage in document("tiny0").stages]
    why = explain(stored("base2"), stored("tiny0", stages=stages))
    assert sum(cause.wall_ms for cause in why.causes) == why.difference_ms
    why = explain(stored("tiny0", stages=stages), stored("base2"))
    assert sum(cause.wall_ms for cause in why.causes) == why.difference_ms


def test_a_running_execution_cannot_be_divided() -> None:
    with pytest.raises(JoinsightError, match="is running"):
        explain(stored("base2"), stored("tiny0", state="running", ended_at_ms=None))


def test_the_typical_run_before_is_that_of_median_duration(engine: Engine) -> None:
    base = document("base2")
    runs = [
        msgspec.structs.replace(
            base,
            application_id="app-typical",
            execution_id=number,
            job_name="typical",
            sequence=number,
            started_at_ms=base.started_at_ms + number,
            ended_at_ms=base.started_at_ms + number + seconds * 1_000,
        )
        for number, seconds in enumerate((9, 5, 7, 8), 1)
    ]
    Writer(engine).write([application(application_id="app-typical"), *runs])
    with engine.connect() as connection:
        key = reading.find_execution(connection, "app-typical/4")
        assert reading.find_typical(connection, key)[3] == 3
        assert reading.find_previous(connection, key)[3] == 3
        assert reading.find_typical(connection, reading.find_execution(connection, "app-typical/3"))[3] == 2


def test_the_command_prints_the_contract(engine: Engine) -> None:
    first, last = document("base2"), document("tiny0")
    Writer(engine).write([application(application_id=first.application_id), first, last])
    url = engine.url.render_as_string(hide_password=False)
    names = [f"{each.application_id}/{each.execution_id}" for each in (first, last)]

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["why", *arguments], env={"JOINSIGHT_DATABASE_URL": url})
        assert result.exit_code == 0, result.output
        return result.stdout

    printed = json.loads(run(*names, "--json"))
    assert {"a", "b", "difference_ms", "task_difference_ms", "scatter_ms", "causes"} <= set(printed)
    assert set(printed["causes"][0]) == {"code", "wall_ms", "task_ms", "place", "evidence", "advice"}
    assert set(printed["causes"][0]["place"]) == {"operators", "stage"}
    assert sum(cause["wall_ms"] for cause in printed["causes"]) == printed["difference_ms"]
    assert "read 300 files, 2 before" in " ".join(run(*names).split())
    alone = json.loads(run(names[1], "--json"))
    assert alone["a"].endswith(f"/{first.execution_id}"), "the typical run before is chosen"


def test_the_command_names_the_accepted_advice_of_a_file(empty: Engine, tmp_path: Path) -> None:
    """From the file, by the application's setting and the database, to the words."""
    fast, slow = document("base2"), document("bcast1")
    joins = [{join.operator_key: join for join in execution_rows(each).joins} for each in (fast, slow)]
    [key] = (each for each in joins[0].keys() & joins[1].keys() if joins[0][each].strategy != joins[1][each].strategy)
    file = tmp_path / "joinsight-advice.toml"
    accepted = AcceptedAdvice(
        str(key), "broadcast it", 900, date(2026, 11, 27), low_ms=700, high_ms=1200, strategy=joins[1][key].strategy
    )
    add_to_file(file, [accepted])
    configuration = {SETTING: to_setting(read_file(file))}
    apps = {each.application_id: application(application_id=each.application_id) for each in (fast, slow)}
    known = [
        msgspec.structs.replace(each, configuration={**each.configuration, **configuration}) for each in apps.values()
    ]
    Writer(empty).write([*known, fast, slow])
    url = empty.url.render_as_string(hide_password=False)
    names = [f"{each.application_id}/{each.execution_id}" for each in (fast, slow)]
    result = CliRunner().invoke(cli, ["why", *names], env={"JOINSIGHT_DATABASE_URL": url})
    assert "it runs without accepted advice: broadcast it, which saved 900 ms" in " ".join(result.output.split())


def test_markdown(engine: Engine) -> None:
    """A table of the causes, whose texts are texts."""
    for name, number in (("base2", 1), ("twice0", 2)):
        its = msgspec.structs.replace(document(name), execution_id=number, application_id="markdown")
        Writer(engine).write([application(application_id="markdown"), its])
    url = engine.url.render_as_string(hide_password=False)
    arguments = ["why", "markdown/1", "markdown/2", "--markdown", "--database-url", url]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("# ") and "| time | cause | what moved | what to do |" in lines
    assert any(re.match(r"\| \+[\d.]+ (s|ms) \| data \| stage", line) for line in lines)
    assert any(line.endswith("| in all |  |  |") for line in lines)


def test_more_rows_that_took_more_cpu_are_a_cause_however_much_the_times_scatter() -> None:
    """Wall times of earlier runs tell nothing on busy hosts; the CPU time that the same rows take hardly changes."""
    walls = [8627, 6124, 6362, 7044, 5493]
    a, b = stored("base2"), stored("twice0")
    steady = [{"duration_ms": wall, "cpu_time_ms": 760 + wall // 100, "waited_ms": wall} for wall in walls]
    why = explain(a, replace(b, earlier=steady))
    assert why.scatter_ms > why.difference_ms and [cause.code for cause in why.causes] == ["data"]


@pytest.mark.parametrize(
    ("waited_ms", "is_named"),
    [([7_000, 7_400, 7_800], True), ([4_000, 7_000, 14_000], False), ([*[7_000] * 7, 20_000, 21_000], False)],
)
def test_a_busier_host_is_plain_where_tasks_hardly_ever_waited_nearly_as_long(
    waited_ms: list[int], is_named: bool
) -> None:
    """6.4 s took 5 s longer, with 764 ms of CPU time as ever."""
    e = document("base2")
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    other = longer_stage(e, stage.id, 5_000, run_time_ms=10_000)
    for each in e.stages:
        if each.id != stage.id and each.run_time_ms > 1_000:
            other = longer_stage(other, each.id, 500, run_time_ms=1_000)
    a, b = (read_back(each, slots=2) for each in (e, other))
    earlier = [
        {"duration_ms": 6_300 + i, "cpu_time_ms": 764, "waited_ms": waited_ms[i % len(waited_ms)]} for i in range(9)
    ]
    why = explain(a, replace(b, earlier=earlier))
    assert [cause.code for cause in why.causes] == ["contention" if is_named else NOT_EXPLAINED]
    assert ("Its hosts were busier, which may be chance: tasks of stage" in why.text) != is_named


def test_the_first_run_in_an_application_takes_longer_without_a_cause() -> None:
    """Its code is compiled: twice the CPU time a row. Of a query that always runs just once, that is a cause."""
    e = document("base2")
    stage = max(e.stages, key=lambda each: each.run_time_ms)
    first = longer_stage(e, stage.id, 2_000, run_time_ms=4_000, cpu_time_ns=4_000_000_000)
    a, b = (read_back(each, slots=2) for each in (first, e))
    runs: list[dict[str, object]] = [{"application_id": name, "duration_ms": 8_400} for name in ("other", "app")]
    own = str(a.execution["application_id"])
    warm = explain(replace(a, earlier=runs), replace(b, earlier=[{**runs[0], "application_id": own}]))
    assert warm.is_normal and "first run of the query" in warm.limits[0]
    later = explain(replace(b, earlier=runs), replace(a, earlier=[{**runs[0], "application_id": own}]))
    assert later.causes[0].code == "cpu_per_row", "the later one took longer"
    for earlier in (runs, []):
        alone = explain(replace(a, earlier=runs), replace(b, earlier=earlier))
        assert alone.causes[0].code == "cpu_per_row" and not alone.limits


def test_slots_that_others_held_are_a_cause_however_much_the_times_scatter() -> None:
    """Stages used 1 of 2 slots instead of 1.7; that hardly differs without a cause."""
    a, b = stored("base5"), stored("slots1")
    wild = [{"duration_ms": wall, "cpu_time_ms": 1_261, "waited_ms": wall} for wall in (2_000, 4_267, 9_000, 14_000)]
    why = explain(a, replace(b, earlier=wild))
    assert why.scatter_ms > why.difference_ms and why.causes[0].code == "slots"


def test_that_hosts_were_less_busy_is_not_named() -> None:
    """Tasks of the first waited for most of their time, of the second also or hardly; the load was the cause."""
    e = document("base2")
    calm = [msgspec.structs.replace(each, run_time_ms=each.cpu_time_ns // 700_000, run_time=None) for each in e.stages]
    for second in (e, msgspec.structs.replace(e, stages=calm)):
        why = explain(stored("hog0"), read_back(second, slots=2))
        assert [cause.code for cause in why.causes] == [NOT_EXPLAINED] and not why.is_normal
        assert "nothing that moved explains it" in why.text
