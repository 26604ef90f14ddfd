"""Generated documents, from the JSON Schema and parts of Spark's texts, and the documents in corpus/.

A file of corpus/ is named after what it shows. All that its documents need to be is good, read, and stored; what a
generated document has broken once goes there.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import BigInteger, Engine, Integer
from tests.documents import STARTED_AT_MS, StoredRows, request, stored_rows

from joinsight.base.errors import DocumentError
from joinsight.contract.decode import decode_document, decode_request
from joinsight.contract.document import Document, Execution, PlanNode
from joinsight.contract.schema import schema
from joinsight.plan.graph import build
from joinsight.plan.texts import broadcast_mode, join_text, shuffle_text, split
from joinsight.store.writer import Writer
from joinsight.tables.views import RELATIONS

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.ndjson"))
SCHEMA = schema()
RELAXED = settings(suppress_health_check=list(HealthCheck))

NAMES = (
    "AdaptiveSparkPlan", "WholeStageCodegen (1)", "InputAdapter", "Project", "Filter", "Sort", "Union", "HashAggregate",
    "Exchange", "CometExchange", "BroadcastExchange", "ReusedExchange", "ShuffleQueryStage", "BroadcastQueryStage",
    "TableCacheQueryStage", "ResultQueryStage", "AQEShuffleRead", "Subquery", "SubqueryBroadcast", "ReusedSubquery",
    "SortMergeJoin", "SortMergeJoin(skew=true)", "BroadcastHashJoin", "ShuffledHashJoin", "BroadcastNestedLoopJoin",
    "CartesianProduct", "Scan parquet t", "InMemoryTableScan", "",
)  # fmt: skip
METRICS = (
    "number of output rows", "data size", "number of partitions", "shuffle bytes written", "shuffle records written",
    "records read", "local bytes read", "remote bytes read", "fetch wait time", "sort time", "spill size",
    "time to collect", "time to build", "time to broadcast", "data size of build side", "partition data size",
    "time to build hash map", "number of skewed partitions", "odd",
)  # fmt: skip
TYPES = ("sum", "size", "timing", "nsTiming", "average", "v2Custom_a.B", "new")
PIECES = (
    "(", ")", "[", "]", "{", "}", ",", ", ", " ", "\n", "#12", "#12L", "=", "'", '"', "\\", "\0", "é", "😀", "ẞ",
    "hashpartitioning(", "rangepartitioning(", "SinglePartition", "RoundRobinPartitioning(8)", "key#1L", "200",
    "99999999999", "-1", "ENSURE_REQUIREMENTS", "REPARTITION_BY_NUM", "[plan_id=7]", "[id=#7]", "Inner", "LeftOuter",
    "ExistenceJoin(exists#5)", "BuildLeft", "BuildRight", "false", "true", "coalesced", "skewed", "local",
    "HashedRelationBroadcastMode(List(input[0, bigint, true]),false)", "IdentityBroadcastMode", "isFinalPlan=false",
    "(cast(a#1 as double) > (b#2 * 0.5))", "[coalesce(k#1, a, b), isnull(k#1)]", "concat(x, ), y)", "named_struct(",
    "Exchange ", "SortMergeJoin ", "BroadcastHashJoin ", "BroadcastExchange ", "AQEShuffleRead ",
)  # fmt: skip

words = st.sampled_from(PIECES) | st.text(max_size=4)
texts = st.lists(words, max_size=12).map("".join)


@cache
def defined(name: str) -> st.SearchStrategy[Any]:
    """Values of a class of ours."""
    return from_schema(SCHEMA["$defs"][name])


def from_schema(part: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a part of our JSON Schema allows."""
    if "$ref" in part:
        return defined(part["$ref"].rpartition("/")[2])
    if "anyOf" in part:
        return st.one_of([from_schema(each) for each in part["anyOf"]])
    if "enum" in part:
        return st.sampled_from(part["enum"])
    kind = part["type"]
    if kind == "object" and "properties" in part:
        needed = set(part["required"])
        fields = {name: from_schema(each) for name, each in part["properties"].items()}
        return st.fixed_dictionaries(
            {name: each for name, each in fields.items() if name in needed},
            optional={name: each for name, each in fields.items() if name not in needed},
        )
    if kind == "object":
        return st.dictionaries(words, from_schema(part["additionalProperties"]), max_size=2)
    if "prefixItems" in part:  # of ranges: the first number is not above the last
        return st.tuples(*map(from_schema, part["prefixItems"])).map(sorted)
    if kind == "array":
        return st.lists(from_schema(part["items"]), max_size=2)
    if kind == "integer":
        low, high = part.get("minimum", -(2**63)), part.get("maximum", 2**63 - 1)
        return st.integers(low, high) | st.sampled_from([low, high, max(low, 1)])
    if kind == "string":
        shortest, longest = part.get("minLength", 0), part.get("maxLength", 60)
        return words.map(lambda text: text[:longest].ljust(shortest, "x"))
    return {"null": st.none(), "boolean": st.booleans()}[kind]


@st.composite
def trees(draw: st.DrawFn, nodes: int) -> dict[str, Any]:
    """A plan over so many nodes, each as often as you like."""
    parents = [-1] + [draw(st.integers(0, n)) for n in range(draw(st.integers(0, 12)))]
    index = st.integers(0, nodes - 1)
    return {"at_ms": STARTED_AT_MS, "nodes": [draw(index) for _ in parents], "parents": sorted(parents)}


@st.composite
def measured(draw: st.DrawFn) -> dict[str, Any]:
    """An accumulator that fits those of `nodes_of`."""
    numbers = st.integers(0, 2**63 - 1) | st.integers(0, 100)
    names = ("sum", "min", "median", "p95", "max")
    found = {"id": draw(st.integers(0, 9)), "type": draw(st.sampled_from(TYPES)), "count": draw(st.integers(0, 3))}
    return {**found, **{name: draw(numbers) for name in names}, "stages": draw(st.lists(st.integers(0, 3), max_size=2))}


@st.composite
def executions(draw: st.DrawFn) -> dict[str, Any]:
    """An execution with plans that hang together: what the schema alone gives hardly ever has any."""
    document: dict[str, Any] = draw(defined("Execution"))
    metrics = st.fixed_dictionaries(
        {"name": st.sampled_from(METRICS), "id": st.integers(0, 9), "type": st.sampled_from(TYPES)}
    )
    simple = st.tuples(st.sampled_from(NAMES), texts)
    node = st.builds(
        lambda pair, metrics: {"name": pair[0], "simple": f"{pair[0]} {pair[1]}", "metrics": metrics},
        simple,
        st.lists(metrics, max_size=4),
    )
    document["nodes"] = draw(st.lists(node, min_size=1, max_size=8))
    document["plans"] = draw(st.lists(trees(len(document["nodes"])), max_size=3))
    document["accumulators"] = draw(st.lists(measured(), max_size=10, unique_by=lambda a: a["id"]))
    return document


def check_rows(rows: StoredRows) -> None:
    """They fit the tables, and the graph hangs together.

    But for `plan_versions`: no listener drops 2,147,483,648 plans, and PostgreSQL refuses a document that says so.
    """
    for table, found in rows.items():
        columns = RELATIONS[table].columns
        for row in found:
            assert set(row) <= set(columns.keys())
            for column in columns:
                value = row.get(column.name)
                written_by_us = value is not None or column.name == "updated_at"
                assert written_by_us or column.nullable, (table, column.name)
                if isinstance(column.type, Integer) and value is not None and column.name != "plan_versions":
                    bits = 63 if isinstance(column.type, BigInteger) else 31
                    assert -(2**bits) <= value < 2**bits, (table, column.name, value)
    names = {row["version"]: {node["id"]: node["name"] for node in row["nodes"]} for row in rows["plan_version"]}
    for row in rows["aqe_decision"]:  # each names a node of its own version, or one that is gone
        assert row["version"] > 0
        earlier = {name for version in range(row["version"]) for name in names[version].values()}
        if row["node_id"] is None:
            assert row["operator"] in earlier
        else:
            assert names[row["version"]][row["node_id"]] == row["operator"]
    nodes = {row["node_id"]: row for row in rows["plan_node"]}
    assert sorted(nodes) == list(range(len(nodes)))
    for row in nodes.values():
        assert row["cluster_id"] is None or nodes[row["cluster_id"]]["is_cluster"]
    for edge in rows["plan_edge"]:
        assert edge["child_id"] in nodes and edge["parent_id"] in nodes
        assert edge["child_id"] != edge["parent_id"]


def check(line: bytes) -> Document | None:
    """A line is refused with a reason, or read, the same again when it is written, and made into rows that fit."""
    try:
        document = decode_document(line)
    except DocumentError as error:
        assert str(error)
        return None
    assert decode_document(msgspec.json.encode(document)) == document
    if isinstance(document, Execution):
        rows = stored_rows(document)
        assert rows == stored_rows(document)
        check_rows(rows)
    return document


@settings(RELAXED, max_examples=100)
@given(from_schema(SCHEMA))
def test_what_the_schema_allows_is_decoded_or_refused(document: dict[str, Any]) -> None:
    check(json.dumps(document).encode())


@settings(RELAXED, max_examples=150)
@given(executions())
def test_plans_of_any_shape_become_rows(document: dict[str, Any]) -> None:
    """Executions whose plans hang together are read, and become rows that fit."""
    made = check(json.dumps(document).encode())
    if not any(a["type"] == "average" and not a["count"] for a in document["accumulators"]):
        assert made is not None


@settings(RELAXED, max_examples=200)
@given(texts)
def test_split_takes_nothing_away(text: str) -> None:
    """The parts are what stands between commas: put together again they are split the same way."""
    parts = split(text)
    assert all(part and part == part.strip() for part in parts)
    assert split(", ".join(parts)) == parts
    squeezed = "".join(text.split()).replace(",", "")
    assert "".join("".join(parts).split()).replace(",", "") == squeezed


balanced = st.recursive(
    st.sampled_from(["k#1L", "8", "true", "a b", "é"]),
    lambda inner: st.builds(
        lambda name, pair, parts: name + pair[0] + ", ".join(parts) + pair[1],
        st.sampled_from(["", "cast", "hashpartitioning"]),
        st.sampled_from(["()", "[]", "{}"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
)


@settings(RELAXED, max_examples=100)
@given(st.lists(balanced, min_size=1, max_size=4))
def test_split_keeps_brackets_whole(parts: list[str]) -> None:
    """A comma within brackets that match parts nothing, however deep they are."""
    assert split(", ".join(parts)) == parts


@settings(RELAXED, max_examples=200)
@given(st.sampled_from(NAMES), texts)
def test_what_is_read_from_a_text_stands_in_it(name: str, text: str) -> None:
    """Keys, partitionings, conditions and modes are quotes."""
    simple = f"{name} {text}"
    shuffle = shuffle_text(simple)
    join = join_text(name, simple)
    quotes = [shuffle.partitioning, *shuffle.keys, shuffle.origin, broadcast_mode(simple)]
    if join is not None:
        quotes += [*join.left_keys, *join.right_keys, join.join_type if name != "CartesianProduct" else None]
    assert all(quote in simple for quote in quotes if quote is not None)
    assert shuffle.partitions is None or shuffle.partitions == 1 or str(shuffle.partitions) in simple


@settings(RELAXED, max_examples=100)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=30), st.data())
def test_a_graph_has_no_more_nodes_than_its_tree(names: list[str], data: st.DataObject) -> None:
    """No tree of nodes makes more nodes than it has, or an edge to nowhere; an edge runs to a node of a smaller id
    unless something is reused."""
    nodes = [PlanNode(name, name) for name in names]
    parents = [-1] + [data.draw(st.integers(0, n)) for n in range(len(names) - 1)]
    graph = build(nodes, parents)
    assert [node.id for node in graph.nodes] == list(range(len(graph.nodes)))
    assert len(graph.nodes) <= len(nodes)
    for child, parent in graph.edges:
        assert 0 <= child < len(graph.nodes) and 0 <= parent < len(graph.nodes)
    if not any("Exchange" in name or "Subquery" in name or "Stage" in name for name in names):
        assert all(child > parent for child, parent in graph.edges)


@settings(RELAXED, max_examples=25)
@given(st.lists(executions(), min_size=1, max_size=4))
def test_postgresql_takes_it(engine: Engine, documents: list[dict[str, Any]]) -> None:
    """A batch is written; what PostgreSQL cannot hold is refused, and nothing else."""
    batch = decode_request(request(*documents))
    written = Writer(engine).write([document for _, document in batch.documents])
    assert written.stored + written.stale + len(written.refused) == len(batch.documents)


@pytest.mark.parametrize("file", CORPUS, ids=lambda file: file.stem)
def test_every_document_of_the_corpus_is_stored(engine: Engine, file: Path) -> None:
    """All documents of a file are good: read, made into rows that fit, stored."""
    lines = file.read_bytes().splitlines()
    assert len(lines) > 0
    documents = [check(line) for line in lines]
    assert None not in documents
    written = Writer(engine).write([document for document in documents if document is not None])
    assert written.refused == []
