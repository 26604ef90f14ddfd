"""Keys of plans that come again."""

from __future__ import annotations

import random
import re
from pathlib import Path

import msgspec
import pytest
from tests.documents import planned

from joinsight.analysis.rows import Plans
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.plan.keys import KeyCache, Keys, digest

CORPUS = Path(__file__).parents[1] / "corpus"
RUNS = 3
SCAN = """
    Exchange | hashpartitioning(k#17L, 200), ENSURE_REQUIREMENTS, [plan_id=41]
      Filter | (k#17L > 5)
        Scan parquet t#1 | [k#17L,v#18] Batched: true, Location: InMemoryFileIndex[file:/data/t]
"""


def with_other_ids(e: Execution, run: int) -> Execution:
    """The same plans with other ids, in another order and of other lengths."""
    chance = random.Random(run)
    ids: dict[str, str] = {}

    def other(found: re.Match[str]) -> str:
        if found[0] not in ids:
            ids[found[0]] = str(10 ** chance.randrange(1, 8) + len(ids))
        return ids[found[0]]

    nodes = []
    for node in e.nodes:
        simple, *values = (
            re.sub(r"(?<=#)\d+|(?<=plan_id=)\d+", other, t) for t in (node.simple, *node.metadata.values())
        )
        nodes.append(
            msgspec.structs.replace(node, simple=simple, metadata=dict(zip(node.metadata, values, strict=True)))
        )
    return msgspec.structs.replace(e, nodes=nodes)


def keys(e: Execution, remembered: KeyCache) -> Keys:
    return remembered.keys(e, Plans(e).graphs)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("spark-*.ndjson")), ids=lambda path: path.stem)
def test_ids_do_not_count(path: Path) -> None:
    """Plans of real executions with other ids have the same keys, whether these are remembered or not."""
    for line in path.read_bytes().splitlines():
        e = decode_document(line)
        if not isinstance(e, Execution):
            continue
        remembered = KeyCache()
        first = keys(e, remembered)
        for run in range(RUNS):
            other = with_other_ids(e, run)
            assert keys(other, KeyCache()) == first
            assert keys(other, remembered) is first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v#18", "w#18"),
        ("k#17L > 5", "v#18 > 5"),
        ("> 5", "> 6"),
        ("t#1", "t#2"),
        ("file:/data/t", "file:/data/u"),
        ("Exchange | hash", "BroadcastExchange | hash"),
        ("k#17L,v#18", "k#17L,v#17"),
        ("        Scan", "      Scan"),
    ],
)
def test_plans_that_differ_in_more_than_ids_are_different(old: str, new: str) -> None:
    assert old in SCAN
    assert digest(planned(SCAN.replace(old, new))) != digest(planned(SCAN))


def test_versions_of_spark_count() -> None:
    """Spark's versions draw reused subqueries differently."""
    e = planned(SCAN)
    older = msgspec.structs.replace(e, listener=msgspec.structs.replace(e.listener, spark_version="3.4.4"))
    assert digest(older) != digest(e)


def test_filters_of_partitions_count() -> None:
    """Spark names them in a scan's metadata, and cuts them off in its text."""

    def filtered(by: str) -> bytes:
        e = planned(SCAN)
        metadata = {"PartitionFilters": f"[isnotnull({by})]"}
        return digest(msgspec.structs.replace(e, nodes=[msgspec.structs.replace(e.nodes[0], metadata=metadata)]))

    assert filtered("day#1") == filtered("day#23")
    assert filtered("day#1") != filtered("hour#1")


def test_what_looks_like_an_id_in_a_title_is_kept() -> None:
    """Tables and paths may have names with a number sign."""
    remembered = KeyCache()
    one, two = (
        planned(f"Execute InsertIntoHadoopFsRelationCommand | file:/data/run#{run}, false, Parquet, [path=x]")
        for run in (1, 2)
    )
    assert "#1" in keys(one, remembered).outline
    assert keys(two, remembered) == keys(two, KeyCache())


def test_memory_is_bounded() -> None:
    """When it is full it starts again, and never holds plans with more keys than it may."""
    remembered = KeyCache(most=10)
    first, second, third = (planned(SCAN.replace("t#1", f"t{n}")) for n in range(3))  # 5 keys each
    known = keys(first, remembered)
    keys(second, remembered)
    assert keys(first, remembered) is known
    keys(third, remembered)
    assert keys(first, remembered) is not known
    small = KeyCache(most=2)
    assert keys(first, small) is not keys(first, small)


def test_long_texts_are_not_remembered() -> None:
    """The digest of texts that are all ids would take many times their memory."""
    remembered = KeyCache()
    long = planned(f"Scan parquet t | [v#1] {'x' * 1_100_000}")
    short = planned("Scan parquet t | [v#1]")
    assert keys(long, remembered) is not keys(long, remembered)
    assert keys(short, remembered) is keys(short, remembered)
