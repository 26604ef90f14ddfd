"""The run time of stages is divided among operators: by samples where there are any, else by Spark's own times."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.documents import Plan, draw, execution, planned, stored_rows
from tests.test_fuzz import RELAXED

from joinsight.analysis.rows import execution_rows
from joinsight.analysis.stored import stored_plan
from joinsight.contract.document import Execution, Stage
from joinsight.present.cost import Labels
from joinsight.tables import Row
from joinsight.timing.task_time import _EXPRESSIONS, PARTS

# A stage that reads two shuffles, joins, aggregates and writes a shuffle; all that is measured here was in stage 7
JOIN = """
Exchange | hashpartitioning(g#9, 4), [plan_id=9] | shuffle bytes written=5, shuffle write time=3000000
  WholeStageCodegen (5) | | duration=1
    HashAggregate | (keys=[g#9])
      Project | [k#1L AS g#9]
        SortMergeJoin | [k#1L], [k#2L], Inner
          InputAdapter
            WholeStageCodegen (2) | | duration=1
              Sort | [k#1L ASC] | sort time=20
                InputAdapter
                  Exchange | hashpartitioning(k#1L, 4), [plan_id=1] | records read=4, fetch wait time=7
          InputAdapter
            WholeStageCodegen (4) | | duration=1
              Sort | [k#2L ASC] | sort time=0
                Project | [k#2L, hash(v#3) AS h#4]
                  InputAdapter
                    Window | [row_number()]
                      InputAdapter
                        Exchange | hashpartitioning(k#2L, 4), [plan_id=2] | records read=4
"""
NAMES = {
    "write": "Exchange hashpartitioning(g#9",
    "left": "Exchange hashpartitioning(k#1L",
    "right": "Exchange hashpartitioning(k#2L",
    "join": "SortMergeJoin",
    "aggregate": "HashAggregate",
    "project": "Project [k#1L AS",
    "left sort": "Sort [k#1L",
    "right sort": "Sort [k#2L",
    "window": "Window",
    "code 2": "WholeStageCodegen (2)",
    "code 4": "WholeStageCodegen (4)",
    "code 5": "WholeStageCodegen (5)",
}


def spent(drawing: str, samples: dict[str, int], run_time_ms: int = 100) -> list[Row]:
    """Rows of `task_time`, which add up to the stage's run time, with the name of the node."""
    stage = Stage(7, 0, "", tasks=1, state="succeeded", samples=samples, run_time_ms=run_time_ms)
    rows = stored_rows(planned(drawing, stages=[stage]))
    assert sum(row["task_time_ms"] for row in rows["task_time"]) == run_time_ms
    (execution,) = rows["execution"]
    assert execution["is_sampled"] == any(row["method"] == "sampled" for row in rows["task_time"])
    nodes = {row["node_id"]: row for row in rows["plan_node"]}
    of_nodes: Counter[int] = Counter()
    for row in rows["task_time"]:
        if row["node_id"] is not None:
            of_nodes[row["node_id"]] += row["task_time_ms"]
    for node_id, row in nodes.items():
        assert row["task_time_ms"] == of_nodes.get(node_id)
        assert (row["task_time_method"] is None) == (row["task_time_ms"] is None)
    for row in rows["task_time"]:
        simple = "" if row["node_id"] is None else nodes[row["node_id"]]["simple"] or nodes[row["node_id"]]["name"]
        row["node"] = next((name for name, text in NAMES.items() if simple.startswith(text)), simple)
    return rows["task_time"]


KEYS = (
    "code 5 smj_findNextJoinRows_0", "code 5 processNext", "code 9 processNext", "sort 4 sort_addToSorter_0",
    "shuffle_read 2", "shuffle_read", "shuffle_write", "operator Window 4", "operator Generate", "collect", "other",
    "code 5 processNext +regex", "shuffle_read +compression", "operator Window 4 +", "+json",
)  # fmt: skip


@pytest.mark.parametrize(
    ("key", "node"),
    [
        ("code 5 smj_findNextJoinRows_0", "join"),
        ("code 5 hashAgg_doConsume_0", "aggregate"),
        ("code 5 hashAgg_FastHashMap_0", "aggregate"),
        ("code 5 hashAgg_doAggregate_max_0", "aggregate"),
        ("code 5 hashAgg_doAggregate_bit_and_0", "aggregate"),
        ("aggregation 5 hashAgg_doConsume_0", "aggregate"),
        ("code 5 processNext", "aggregate"),  # what it returns
        ("code 5 hashAgg_doAggregateWithKeysOutput_0", "aggregate"),
        ("code 5 project_subExpr_0", "project"),
        ("code 5 hashAgg_doAggregateWithKeys_0", "code 5"),  # the loop over the join, with the projection in it
        ("code 5 apply_0_3", "code 5"),
        ("code 2 sort_addToSorter_0", "left sort"),
        ("sort 2 sort_addToSorter_0", "left sort"),
        ("sort 2 processNext", "left sort"),
        ("code 4 sort_addToSorter_0", "code 4"),  # the sort, or the projection in its loop
        ("sort 4 sort_addToSorter_0", "right sort"),
        ("shuffle_read 2", "left"),
        ("shuffle_read 4", "right"),
        ("shuffle_read", ""),  # one of two
        ("shuffle_write", "write"),
        ("operator Window 4", "window"),
        ("operator Sort 2", "left sort"),
        ("operator Sort", ""),
        ("operator Generate", ""),
        ("code 3 processNext", ""),  # no codegen stage of the final plan
        ("other", ""),
        ("later 5 fn", ""),  # of a newer listener
        ("code", ""),
    ],
)
def test_a_sample_becomes_a_node(key: str, node: str) -> None:
    """The operator if it can be told, else the codegen stage with several, else none."""
    (row,) = spent(JOIN, {key: 3})
    assert (row["node"], row["samples"], row["method"], row["task_time_ms"]) == (node, 3, "sampled", 100)
    assert 0 < row["task_time_error_ms"] < 100


def test_each_kind_of_work_is_a_row() -> None:
    """Each is a row of its own, which an operator's time is the sum of."""
    found = spent(JOIN, {"code 5 smj_findNextJoinRows_0 +string": 2, "code 5 smj_findNextJoinRows_0": 1,
                         "operator Window 4 +user:com.acme.Sum": 4, "shuffle_write +later": 1}, 800)  # fmt: skip
    assert [(row["node"], row["work"], row["samples"], row["task_time_ms"]) for row in found] == [
        ("window", "user:com.acme.Sum", 4, 400),
        ("join", "string", 2, 200),
        ("join", None, 1, 100),
        ("write", "later", 1, 100),
    ]


@pytest.mark.parametrize(
    ("condition", "function", "work", "operator"),
    [
        ("a#2 RLIKE (x+)+", "hashAgg_doAggregateWithKeys_0", "regex", "Filter"),
        ("a#2 RLIKE (x+)+", "hashAgg_doAggregateWithKeys_0", "json", "WholeStageCodegen"),
        ("a#2 RLIKE (x+)+", "hashAgg_doAggregateWithKeys_0", "string", "WholeStageCodegen"),
        ("a#2 RLIKE (x+)+", "hashAgg_doConsume_0", "regex", "aggregate"),
        ("(a#2 = 1)", "hashAgg_doAggregateWithKeys_0", "regex", "WholeStageCodegen"),
        ("(get_json_object(a#2, $.b) = 1)", "hashAgg_doAggregateWithKeys_0", "json", "Filter"),
        ("regexp_replace(a#2, x, y) = b#3", "hashAgg_doAggregateWithKeys_0", "regex", "WholeStageCodegen"),
    ],
)
def test_work_of_an_expression_is_its_operators(condition: str, function: str, work: str, operator: str) -> None:
    """Where several operators share a function, and one of them names such an expression."""
    drawing = f"""
    WholeStageCodegen (1) | | duration=1
      HashAggregate | (keys=[g#9])
        Project | [{"regexp_extract(b#3, x, 0)" if "replace" in condition else "(b#3 + 1)"} AS g#9]
          Filter | {condition}
            InputAdapter
              Scan ExistingRDD
    """
    (row,) = spent(drawing, {f"code 1 {function} +{work}": 3})
    assert (row["work"], row["node"].split(" ")[0]) == (work, operator)


def test_a_codegen_stage_of_one_operator_is_that_operators() -> None:
    """A loop over what it reads is that operator's too: there is no other."""
    alone = """
    WholeStageCodegen (1) | | duration=1
      HashAggregate | (keys=[g#9])
        InputAdapter
          Exchange | hashpartitioning(g#9, 4) | records read=4
    """
    (row,) = spent(alone, {"code 1 hashAgg_doAggregateWithKeys_0": 3})
    assert row["node"] == "aggregate"


@pytest.mark.parametrize("columns", ["| [k#1L, v.x#2]", "| []", "|"])
def test_a_projection_without_code(columns: str) -> None:
    """Picking columns, or none for a count, takes no time: it does not share the join's."""
    counted = f"""
    WholeStageCodegen (2) | | duration=1
      HashAggregate | (keys=[], functions=[partial_count(1)])
        Project {columns}
          BroadcastHashJoin | [k#1L], [k#2L], Inner, BuildRight, (v#3 <> w#4)
            InputAdapter
              Scan ExistingRDD
            InputAdapter
              BroadcastExchange | HashedRelationBroadcastMode
    """
    for function in ("bhj_doConsume_0", "hashAgg_doAggregateWithoutKey_0"):
        (row,) = spent(counted, {f"code 2 {function}": 3})
        assert row["node"].startswith("BroadcastHashJoin")


@pytest.mark.parametrize(
    ("work", "node"), [("json", "Project [k#1L, from_json"), ("regex", "left sort"), ("compare", "left sort")]
)
def test_work_of_an_operator_that_only_iterates(work: str, node: str) -> None:
    """The rows of a projection without code come through its consumer's code: what is not the consumer's is its own."""
    fallback = """
    WholeStageCodegen (2) | | duration=1
      Sort | [k#1L ASC NULLS FIRST], false, 0 | sort time=0
        InputAdapter
          Project | [k#1L, from_json(StructField(a,StringType,true), body#2) AS j#3]
            WholeStageCodegen (1) | | duration=1
              Filter | (k#1L > 3)
                InputAdapter
                  Scan parquet t | [k#1L,body#2]
    """
    (row,) = spent(fallback, {f"code 2 sort_addToSorter_0 +{work}": 3})
    assert row["node"].startswith(node)


def test_a_stage_reads_no_shuffle_that_it_writes() -> None:
    """So there is one that it can have read."""
    between = """
    Exchange | SinglePartition, [plan_id=9] | shuffle bytes written=5
      SortAggregate | (keys=[]) | number of output rows=1
        Exchange | hashpartitioning(k#1L, 4), [plan_id=1] | records read=4
    """
    found = spent(between, {"shuffle_read": 2, "shuffle_write": 1})
    assert [(row["part"], row["node"]) for row in found] == [
        ("shuffle_read", "left"),
        ("shuffle_write", "Exchange SinglePartition, [plan_id=9]"),
    ]


def test_an_operator_without_code_below_its_like() -> None:
    """Spark splits a filter if only a part of its condition has code: what is interpreted is the other part."""
    split = """
    WholeStageCodegen (2) | | duration=1
      HashAggregate | (keys=[g#9])
        Project | [(id#3L % 5) AS g#9]
          Filter | isnotnull((id#3L % 5))
            InputAdapter
              Filter | (reflect(f, id#3L) = a)
                InputAdapter
                  WholeStageCodegen (1) | | duration=1
                    Range | (0, 9)
    """
    (row,) = spent(split, {"operator Filter 2": 3})
    assert row["node"].startswith("Filter (reflect")


def test_parts_add_up() -> None:
    """Shares of the run time, with their standard error, rounded so that they add up."""
    found = spent(JOIN, {"code 5 smj_findNextJoinRows_0": 1, "shuffle_write": 1, "shuffle_read 2": 1, "other": 0})
    assert sorted(row["task_time_ms"] for row in found) == [33, 33, 34]
    assert spent(JOIN, {"other": 3}, run_time_ms=0) == []
    many = spent(JOIN, {"code 5 smj_findNextJoinRows_0": 300, "shuffle_write": 700})
    assert [(row["task_time_ms"], row["task_time_error_ms"]) for row in many] == [(70, 2), (30, 2)]


@RELAXED
@given(st.integers(0, 2**45), st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=9), st.integers(0, 2**45)))
def test_any_parts_add_up(run_time_ms: int, samples: dict[str, int]) -> None:
    """Whatever a stage was seen at, however long it ran, with samples or without."""
    for row in spent(JOIN, samples, run_time_ms):
        assert 0 <= row["task_time_ms"] <= run_time_ms
        assert row["part"] in PARTS


def test_without_samples_only_measured_times_are_an_operators() -> None:
    """Times that Spark measures, which include no other operator's; the rest is the stage's."""
    found = spent(JOIN, {})
    assert [(row["part"], row["node"], row["task_time_ms"], row["method"]) for row in found] == [
        ("sort", "left sort", 20, "metrics"),
        ("shuffle_read", "left", 7, "metrics"),
        ("shuffle_write", "write", 3, "metrics"),
        ("rest", "", 70, "stage"),
    ]
    assert {row["samples"] for row in found} == {row["task_time_error_ms"] for row in found} == {None}


def test_times_that_overlap_are_no_parts() -> None:
    found = spent(JOIN.replace("sort time=20", "sort time=200"), {})
    assert [(row["part"], row["task_time_ms"]) for row in found] == [("rest", 100)]


def test_equal_numbers_of_codegen_stages() -> None:
    """A subquery numbers its codegen stages from 1 too; the stage tells which one ran."""
    both = """
    Filter | (a#1 > Subquery scalar-subquery#5)
      Subquery | subquery#5
        WholeStageCodegen (1) | | {subquery}
          HashAggregate | (keys=[])
      WholeStageCodegen (1) | | {query}
        Range | (0, 9)
    """
    (row,) = spent(both.format(subquery="duration=?", query="duration=4"), {"code 1 processNext": 1})
    assert row["node"].startswith("Range")
    (row,) = spent(both.format(subquery="duration=?", query="duration=?"), {"code 1 processNext": 1})
    assert row["node"] == ""


def test_counts_of_samples_fit() -> None:
    """Also those that no sampler can have counted."""
    found = spent(JOIN, {"nothing 1": 1, "nothing 2": 2**63 - 1})
    assert [row["samples"] for row in found] == [2**63 - 1]


@pytest.mark.parametrize("work", _EXPRESSIONS)
@pytest.mark.parametrize("word", ["json", "variant", "xml", "xpath", "csv", "aes_", "sha", " ", "R"])
def test_texts_are_searched_for_expressions_in_proportion_to_their_length(work: str, word: str) -> None:
    """Two million characters: what takes time by their square does not end."""
    assert _EXPRESSIONS[work].search(word * (2_000_000 // len(word))) is None


NATIVE = """
CometExchange | hashpartitioning(k#1, 4) | shuffle bytes written=5, native shuffle writer time:nsTiming=30000000
  CometSort | [k#1], [k#1 ASC] | total time (in ms) spent in this operator:nsTiming=180000000
    CometFilter | [k#1], (k#1 > 5) | total time (in ms) spent in this operator:nsTiming=60000000
      CometNativeScan parquet t | [k#1] | scan time:nsTiming=30000000
"""
UNTIMED = NATIVE.replace("CometFilter", "CometExpand").replace("(k#1 > 5) | total time", "[] | no time")
"""With an operator that measures no time."""
BY_OPERATOR = {"CometSort [k#1]": 6, "CometFilter": 2, "CometNativeScan": 1, "CometExchange": 1}


def of_operators(rows: list[Row]) -> dict[str, int]:
    """The time of each operator, by the beginning of its text; ``""``: of none."""
    found: Counter[str] = Counter()
    for row in rows:
        found[next((name for name in BY_OPERATOR if row["node"].startswith(name)), "")] += row["task_time_ms"]
    return dict(found)


def test_native_calls_are_divided_by_what_operators_measured() -> None:
    """Samples tell how long tasks were in such calls, the engine's own metrics what these did; both add up."""
    rows = spent(NATIVE, {"native": 8, "shuffle_write": 1, "other": 1}, 500)
    assert of_operators(rows) == {name: 40 * n for name, n in BY_OPERATOR.items()} | {"CometExchange": 90, "": 50}
    assert {row["method"] for row in rows if row["part"] in ("sort", "scan")} == {"metrics"}


def test_native_times_without_samples() -> None:
    """If all operators of a stage measured theirs, they are all of it, unless they are less than half of it."""
    assert of_operators(spent(NATIVE, {}, 500)) == {name: 50 * n for name, n in BY_OPERATOR.items()}
    assert of_operators(spent(NATIVE, {}, 100)) == {name: 10 * n for name, n in BY_OPERATOR.items()}
    measured = {name: 30 * n for name, n in BY_OPERATOR.items()}
    assert of_operators(spent(NATIVE, {}, 1_000)) == measured | {"": 700}


@pytest.mark.parametrize(
    ("drawing", "parts"),
    [
        (NATIVE, {"shuffle_write": 100, "sort": 600, "operator": 200, "scan": 100}),
        (UNTIMED, {"shuffle_write": 30, "sort": 180, "operator": 760, "scan": 30}),
    ],
)
def test_stages_that_ended_before_a_sample(drawing: str, parts: dict[str, int]) -> None:
    """Where others are sampled, starting a call is part of its operators, or of the one without a time."""
    stages = [
        Stage(number, 0, "", tasks=1, state="succeeded", samples=samples, run_time_ms=1_000)
        for number, samples in ((7, {}), (8, {"other": 1}))
    ]
    rows = stored_rows(planned(drawing, stages=stages))["task_time"]
    assert {row["part"]: row["task_time_ms"] for row in rows if row["stage_id"] == 7} == parts


def removed(drawing: str, run_time_ms: int) -> Execution:
    """An execution whose stage ran these operators, which AQE then removed from the plan."""
    nodes, accumulators = draw(drawing)
    plans = [Plan(1, nodes), Plan(2, draw("LocalTableScan")[0])]
    stage = Stage(7, 0, "", tasks=1, state="succeeded", run_time_ms=run_time_ms)
    return execution(plans=plans, accumulators=accumulators, stages=[stage])


@pytest.mark.parametrize(
    ("drawing", "parts"),
    [
        (NATIVE, {"shuffle_write": 50, "sort": 300, "operator": 100, "scan": 50}),
        (UNTIMED, {"shuffle_write": 30, "sort": 180, "rest": 260, "scan": 30}),
    ],
)
def test_native_times_of_operators_that_aqe_removed(drawing: str, parts: dict[str, int]) -> None:
    """What they measured is told apart, of no node; the breakdown names them at their stage."""
    rows = execution_rows(removed(drawing, 500))
    assert {each.part: each.task_time_ms for each in rows.task_time} == parts
    assert {each.node_id for each in rows.task_time} == {None}
    stored = stored_plan(rows)
    (item,) = (each for each in stored.breakdown.items if each.task_time_ms)
    middle = "CometExpand" if drawing is UNTIMED else "CometFilter"
    shown = f"stage 7: CometExchange, CometSort, {middle}, CometNativeScan parquet t, which AQE removed"
    assert Labels(stored).item(item) == shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("count at HoodieSparkSqlWriter.scala:978", "no operator, count at HoodieSparkSqlWriter.scala:978"),
        ("sql at NativeMethodAccessorImpl.java:0", "operators unknown"),
        ("collect at job.py:7", "operators unknown"),
        ("", "operators unknown"),
    ],
)
def test_a_stage_of_a_formats_own_code_is_named_by_it(name: str, shown: str) -> None:
    """Hudi merges without operators of Spark: its tasks do not just start, nor compile."""
    stage = Stage(7, 0, name, tasks=1, state="succeeded", samples={"other": 5}, run_time_ms=500)
    rows = execution_rows(planned("Execute MergeIntoHoodieTableCommand", stages=[stage]))
    stored = stored_plan(rows)
    (item,) = (each for each in stored.breakdown.items if each.task_time_ms)
    assert Labels(stored).item(item) == f"stage 7: {shown}"


def test_native_reads_of_several_shuffles() -> None:
    """No stack tells which of them is read: the bytes of each divide the time."""
    reads = "CometExchange | hashpartitioning({}, 4) | local bytes read:size={}"
    join = "CometSortMergeJoin | [k#1], [j#2], Inner | Total time for joining:nsTiming=20000000"
    drawing = f"\n{join}\n  {reads.format('k#1', 3)}\n  {reads.format('j#2', 1)}\n"
    rows = spent(drawing, {"native": 1, "shuffle_read +io": 1})
    assert sorted(row["task_time_ms"] for row in rows) == [12, 38, 50]
    assert {(row["part"], bool(row["node"])) for row in rows} == {("operator", True), ("shuffle_read", True)}


@pytest.mark.parametrize(
    ("rows", "of_none"), [("", 240), (", number of output rows=30", 240), (", number of output rows=9", 0)]
)
def test_a_native_operator_that_measures_no_time(rows: str, of_none: int) -> None:
    """What the others of a call leave is its time, unless it reads few rows."""
    drawing = UNTIMED.replace("operator:nsTiming=60", "operator=1, number of output rows=100, x:nsTiming=60")
    parts = spent(drawing.replace("=30000000\n", f"=30000000{rows}\n"), {"native": 1}, 480)
    assert sum(row["task_time_ms"] for row in parts if row["node"].startswith("CometExpand")) == of_none
    found = of_operators(parts)
    measured = {"CometSort [k#1]": 180, "CometNativeScan": 30, "CometExchange": 30}
    all_ms = 480 - of_none
    assert found == {name: ms * all_ms // 240 for name, ms in measured.items()} | ({"": of_none} if of_none else {})


def test_native_operators_that_measure_no_time() -> None:
    """If there are several, none is known to have taken what the others leave."""
    drawing = NATIVE.replace("CometFilter", "CometExpand").replace("total time", "no time")
    parts = spent(drawing.replace("CometSort", "CometExpand"), {"native": 1}, 480)
    assert of_operators(parts) == {"": 420, "CometNativeScan": 30, "CometExchange": 30}
    assert not any(row["node"].startswith("CometExpand") for row in parts)


def test_a_sparks_operator_beside_native_ones() -> None:
    """Calls are of these, of which it takes what samples say; in a stage without samples, it has no time."""
    drawing = NATIVE.replace("CometFilter | [k#1], (k#1 > 5) | total time", "Window | [row_number()] | no time")
    parts = spent(drawing, {"native": 8, "operator Window": 1, "other": 1}, 1_000)
    assert sum(row["task_time_ms"] for row in parts if row["node"].startswith("window")) == 100
    assert of_operators(parts) == {"CometSort [k#1]": 600, "CometExchange": 100, "CometNativeScan": 100, "": 200}
    stages = [
        Stage(number, 0, "", tasks=1, state="succeeded", samples=samples, run_time_ms=1_000)
        for number, samples in ((7, {}), (8, {"other": 1}))
    ]
    rows = stored_rows(planned(drawing, stages=stages))["task_time"]
    assert {row["part"] for row in rows if row["stage_id"] == 7} == {"sort", "scan", "shuffle_write", "rest"}


def test_native_operators_that_took_less_than_a_millisecond() -> None:
    """They divide the time of their stage like others."""
    rows = spent(NATIVE.replace("0000000", "00"), {"native": 1}, 100)
    assert of_operators(rows) == {name: 10 * n for name, n in BY_OPERATOR.items()}


def test_what_makes_an_exchange() -> None:
    """Rows that a broadcast collects are its, and so are those that a shuffle takes a sample of, for its ranges."""
    below = "\n  Filter | (k#1 > 5) | number of output rows=1\n    Scan parquet t | [k#1]\n"
    for exchange, part in (
        ("BroadcastExchange | m", "collect"),
        ("Exchange | rangepartitioning(k#1, 4)", "shuffle_write"),
    ):
        (row,) = spent(f"\n{exchange}{below}", {part: 1})
        assert row["node"].startswith(exchange.partition(" ")[0])


WAITS = NATIVE.replace(
    "scan time:nsTiming=30000000",
    "Wall clock time elapsed for data decompression + decoding:nsTiming=30000000, "
    "Total elapsed wall clock time for scanning + record batch decompression / decoding:nsTiming={whole}, "
    "Wall clock time elapsed for file opening:nsTiming={opening}",
)


@pytest.mark.parametrize(
    ("whole_ms", "opening_ms", "scan_ms"), [(300, 0, 30), (200, 0, 30), (500, 0, 230), (300, 200, 230)]
)
def test_scans_that_wait_for_files(whole_ms: int, opening_ms: int, scan_ms: int) -> None:
    """What others did between its first row and its last is not a scan's, waiting for files and opening them is."""
    drawing = WAITS.replace("{whole}", str(whole_ms * 1_000_000)).replace("{opening}", str(opening_ms * 1_000_000))
    assert of_operators(spent(drawing, {"native": 1}, 270 + scan_ms))["CometNativeScan"] == scan_ms
