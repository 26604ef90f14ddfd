"""Bad requests have defined responses; valid documents next to a bad one are kept."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
import random
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.documents import (
    LISTENER,
    STARTED_AT_MS,
    Plan,
    PlanNode,
    application,
    as_line,
    draw,
    execution,
    request,
    stored_rows,
)
from tests.growth import check_cpu_time

from joinsight.base.errors import DocumentError, TooLarge
from joinsight.contract import decode
from joinsight.contract.decode import (
    MAX_DOCUMENT_BYTES,
    MAX_NODES,
    MAX_REQUEST_LINES,
    MAX_UNPACKED_BYTES,
    decode_document,
    decode_request,
)
from joinsight.contract.document import Accumulator, Execution

GOOD = execution()
GOOD_LINE = as_line(GOOD)


def changed(**changes: Any) -> bytes:
    """A good document's line with some fields changed."""
    return json.dumps({**json.loads(GOOD_LINE), **changes}).encode()


def replaced(old: str, new: str | bytes) -> bytes:
    """A good document's line with a piece of JSON replaced."""
    assert old.encode() in GOOD_LINE
    return GOOD_LINE.replace(old.encode(), new.encode() if isinstance(new, str) else new)


STAGE = {"id": 1, "attempt": 0, "name": "", "tasks": 1, "state": "failed"}


def plan_of(*parents: int) -> list[dict[str, Any]]:
    return [{"at_ms": 1, "nodes": [0] * len(parents), "parents": parents}]


def with_plans(plans: list[dict[str, Any]]) -> bytes:
    return changed(nodes=[{"name": "Project"}], plans=plans)


def accumulator(kind: str, *numbers: int | None, count: int = 1) -> list[dict[str, Any]]:
    names = ("sum", "min", "median", "p95", "max")
    return [{"id": 1, "type": kind, "count": count, **dict(zip(names, numbers, strict=False))}]


DEEP = 100_000

REFUSED = {
    "not JSON": (b"hello", "not JSON"),
    "cut off": (GOOD_LINE[:-20], "not JSON: Input data was truncated"),
    "two documents in a line": (GOOD_LINE + GOOD_LINE, "not JSON: JSON is malformed: trailing characters"),
    "byte order mark": (b"\xef\xbb\xbf" + GOOD_LINE, "not JSON"),
    "UTF-16": (GOOD_LINE.decode().encode("utf-16"), "not JSON"),
    "a list": (b"[]", "Expected `object`, got `array`"),
    "null": (b"null", "Expected `object`, got `null`"),
    "empty object": (b"{}", "missing required field `kind`"),
    "wrong kind": (changed(kind="heartbeat"), "Invalid value 'heartbeat' - at `$.kind`"),
    "newer schema": (changed(schema_version=2), "schema_version 2 is not supported, only 1: the listener"),
    "newer schema of a new kind": (changed(schema_version=7, kind="heartbeat"), "schema_version 7 is not supported"),
    "older schema": (changed(schema_version=0), "schema_version 0 is not supported, only 1"),
    "far schema": (changed(schema_version=2**70), f"schema_version {2**70} is not supported, only 1"),
    "schema in words": (changed(schema_version="1"), "Expected `int`, got `str` - at `$.schema_version`"),
    "no schema": (replaced('"schema_version":1,', ""), "missing required field `schema_version`"),
    "wrong type": (changed(sequence="1"), "Expected `int`, got `str` - at `$.sequence`"),
    "invalid UTF-8": (replaced('"description":""', b'"description":"\xff"'), "not JSON: 'utf-8' codec can't decode"),
    "UTF-8 surrogate": (replaced('"description":""', b'"description":"\xed\xa0\x80"'), "not JSON: 'utf-8' codec"),
    "lone high surrogate": (replaced('"description":""', r'"description":"\ud800"'), "not JSON"),
    "lone low surrogate": (replaced('"description":""', r'"description":"\udc00x"'), "not JSON"),
    "lone surrogate in a key": (replaced('"tags":{}', r'"tags":{"\ud800":""}'), "not JSON"),
    "raw NUL": (replaced('"description":""', b'"description":"\0"'), "not JSON: JSON is malformed: invalid character"),
    "raw line feed": (replaced('"description":""', b'"description":"\r"'), "not JSON"),
    "NaN": (replaced('"sequence":1', '"sequence":NaN'), "not JSON"),
    "Infinity": (replaced('"sequence":1', '"sequence":Infinity'), "not JSON"),
    "1e400": (replaced('"sequence":1', '"sequence":1e400'), "Number out of range"),
    "a fraction": (replaced('"sequence":1', '"sequence":1.5'), "Expected `int`, got `float` - at `$.sequence`"),
    "2^63 - 1": (changed(sequence=2**63 - 1), "Expected `int` <= 9223372036854775806 - at `$.sequence`"),
    "number 0": (changed(sequence=0), "Expected `int` >= 1 - at `$.sequence`"),
    "far over 2^63": (changed(sequence=10**400), "Expected `int` <= 9223372036854775806 - at `$.sequence`"),
    "sum over 2^63": (changed(accumulators=accumulator("sum", 2**63, 1, 1, 1, 1)), "at `$.accumulators[0].sum`"),
    "negative id": (changed(execution_id=-1), "Expected `int` >= 0 - at `$.execution_id`"),
    "time before 1970": (changed(started_at_ms=-1), "Expected `int` >= 0 - at `$.started_at_ms`"),
    "time after 9999": (changed(started_at_ms=253_402_300_800_000), "at `$.started_at_ms`"),
    "deep": (replaced('"tags":{}', '"tags":' + "[" * DEEP + "]" * DEEP), "Expected `object`, got `array`"),
    "deep where nobody looks": (replaced('"tags":{}', '"x":' + "[" * DEEP + "]" * DEEP), "not JSON: maximum recursion"),
    "deep and of a newer schema": (
        changed(schema_version=2).replace(b'"tags": {}', b'"x": ' + b"[" * DEEP + b"]" * DEEP),
        "schema_version",
    ),
    "deep and of another kind": (
        changed(kind="heartbeat").replace(b'"tags": {}', b'"x": ' + b"[" * DEEP + b"]" * DEEP),
        "Invalid value 'heartbeat'",
    ),
    # What no JSON Schema says
    "first node with a parent": (with_plans(plan_of(0)), "$.plans[0].parents[0] is 0: it must be -1 for the"),
    "second root": (with_plans(plan_of(-1, -1)), "$.plans[0].parents[1] is -1"),
    "node below itself": (with_plans(plan_of(-1, 0, 2)), "$.plans[0].parents[2] is 2"),
    "parent behind its child": (with_plans(plan_of(-1, 2, 0)), "$.plans[0].parents[1] is 2"),
    "parent nowhere": (with_plans(plan_of(-1, 99)), "$.plans[0].parents[1] is 99"),
    "second plan": (with_plans(plan_of(-1) + plan_of(-1, 1)), "$.plans[1].parents[1] is 1"),
    "node nowhere": (changed(plans=plan_of(-1)), "$.plans[0].nodes[0] is 0, but there are 0 nodes"),
    "nodes without parents": (with_plans([{"at_ms": 1, "nodes": [0, 0], "parents": [-1]}]), "has 2 nodes and 1"),
    "more parents than nodes": (with_plans([{"at_ms": 1, "nodes": [], "parents": [-1]}]), "has 0 nodes and 1"),
    "many large plans": (with_plans(plan_of(-1, *[0] * 49_999) * 11), "the document has 250000 nodes up to $.plans["),
    "too many plans": (with_plans(plan_of() * 20_001), "the document has 20001 plans; 20000 are allowed"),
    "too many stages": (changed(stages=[STAGE] * 100_001), "the document has 100001 stages; 100000 are allowed"),
    "too many tags": (
        changed(job_tags=["ab"] * 1_000_001),
        "the document has 1000001 tags, settings and reasons; 1000000 are allowed",
    ),
    "nodes of no plan": (changed(nodes=[{"name": ""}] * 200_001), "the document has 200001 nodes; 200000 are allowed"),
    "too many nodes": (with_plans(plan_of(-1, *[0] * 50_000)), "$.plans[0] has 50001 nodes; 50000 are allowed"),
    "count without numbers": (changed(accumulators=accumulator("sum")), "$.accumulators[0] counts 1 values"),
    "count without p95": (changed(accumulators=accumulator("sum", 1, 1, 1, None, 1)), "$.accumulators[0] counts 1"),
    "negative size": (changed(accumulators=accumulator("size", -1, -1, -1, -1, -1)), "$.accumulators[0] is of type"),
    "negative minimum": (changed(accumulators=accumulator("timing", 5, -1, 1, 5, 5)), "$.accumulators[0] is of type"),
    "negative nsTiming": (changed(accumulators=accumulator("nsTiming", 5, 1, 1, 1, -1)), "$.accumulators[0] is of"),
    "negative average": (changed(accumulators=accumulator("average", 5, 1, -1, 5, 5)), "$.accumulators[0] is of type"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_line_is_refused_alone(name: str) -> None:
    line, reason = REFUSED[name]
    batch = decode_request(request(GOOD, line, application(), line, GOOD))
    assert batch.documents == [(1, GOOD), (3, application()), (5, GOOD)]
    assert [number for number, _ in batch.refused] == [2, 4]
    assert reason in batch.refused[0][1]


ACCEPTED = {
    "blanks around": b" \t" + GOOD_LINE + b" \r",
    "unknown metric type": changed(accumulators=accumulator("shiny", 5, 1, 1, 5, 5)),
    "unknown metric type, negative": changed(accumulators=accumulator("shiny", -5, -5, -5, -5, -5)),
    "negative sum": changed(accumulators=accumulator("sum", -(2**63), -(2**63), -5, -5, 2**63 - 1)),
    "negative v2Custom": changed(accumulators=accumulator("v2Custom_a.B", -5, -5, -5, -5, -5)),
    "nothing measured": changed(accumulators=accumulator("size", count=0)),
    "no plan": changed(plans=[]),
    "plan without nodes": changed(plans=plan_of()),
    "empty names": changed(application_name="", job_name="", nodes=[{"name": ""}], plans=plan_of(-1)),
    "a node in two plans": with_plans(plan_of(-1) + plan_of(-1, 0, 1)),
    "an empty plan": with_plans(plan_of()),
    "a field twice: the last one counts": replaced('"sequence":1', '"sequence":9,"sequence":1'),
    "deep as deep can be": replaced('"tags":{}', '"x":' + "[" * 100 + "]" * 100),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_unusual_documents_are_accepted(name: str) -> None:
    batch = decode_request(request(ACCEPTED[name]))
    assert (len(batch.documents), batch.refused) == (1, [])


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("\\u0000", "�"),
        ("a\\u0000b\\u0000\\u0000", "a�b��"),
        ("\\\\u0000", "\\u0000"),  # a backslash and a word
        ("\\\\\\u0000", "\\�"),
        ("\\\\\\\\u0000", "\\\\u0000"),
        ('\\"\\u0000', '"�'),
        ("\\ud83d\\ude00\\u0000", "😀�"),
    ],
)
def test_nul_is_replaced(text: str, stored: str) -> None:
    """An escaped NUL character, which PostgreSQL's text cannot hold, becomes U+FFFD, in values and in keys."""
    document = decode_document(replaced('"description":""', f'"description":"{text}"'))
    assert isinstance(document, Execution)
    assert document.description == stored
    document = decode_document(replaced('"tags":{}', f'"tags":{{"{text}":"{text}"}}'))
    assert isinstance(document, Execution)
    assert document.tags == {stored: stored}


NOT_GZIP = {
    "a word": (b"hello", "not gzip"),
    "JSON": (GOOD_LINE, "not gzip"),
    "zlib": (zlib.compress(GOOD_LINE), "not gzip"),
    "cut in its header": (request(GOOD)[:1], "cut off"),
    "cut behind its header": (request(GOOD)[:10], "cut off"),
    "cut in its data": (request(GOOD)[:-9], "cut off"),
    "cut in its trailer": (request(GOOD)[:-1], "cut off"),
    "wrong checksum": (request(GOOD)[:-8] + b"\0" * 8, "not gzip"),
    "more behind it": (request(GOOD) + b"more", "not gzip"),
    "second member cut": (request(GOOD) + request(GOOD)[:-9], "cut off"),
}


@pytest.mark.parametrize("name", NOT_GZIP)
def test_a_body_that_is_not_gzip_is_refused(name: str) -> None:
    """A body that is not whole gzip is refused as a whole."""
    body, message = NOT_GZIP[name]
    with pytest.raises(DocumentError, match=message):
        decode_request(body)


def test_an_empty_body_holds_no_documents() -> None:
    """A body without lines holds no documents; empty lines count, but are none."""
    assert decode_request(b"") == decode.Batch()
    assert decode_request(request()) == decode.Batch()
    assert decode_request(request(b"", b"  ", GOOD, b"", b"x", b"")).documents == [(3, GOOD)]
    assert decode_request(request(b"", b"  ", GOOD, b"", b"x", b"")).refused[0][0] == 5


def test_last_line_needs_no_end() -> None:
    assert decode_request(gzip.compress(GOOD_LINE + b"\n" + GOOD_LINE)).documents == [(1, GOOD), (2, GOOD)]


def test_a_body_may_be_several_gzip_members() -> None:
    """A body may be several gzip members, cut anywhere, even into empty ones."""
    whole = GOOD_LINE + b"\n" + as_line(application()) + b"\n"
    cuts = [0, 0, 5, len(GOOD_LINE), len(GOOD_LINE) + 1, len(whole) - 1, len(whole)]
    body = b"".join(gzip.compress(whole[start:end]) for start, end in itertools.pairwise(cuts))
    assert decode_request(body).documents == [(1, GOOD), (2, application())]


@pytest.mark.parametrize("member", [b"", b" "])
def test_many_gzip_members_take_linear_time(member: bytes) -> None:
    """Time grows linearly with the size of a body, however many members it has, and however small they are."""
    packed = gzip.compress(member, 1)
    assert decode_request(packed * 50_000) == decode.Batch()
    check_cpu_time(lambda members: lambda: decode_request(packed * members), 50_000)


def test_a_gzip_bomb_is_refused_before_it_is_unpacked() -> None:
    """A body that unpacks to too much is refused, without being held in memory."""
    packer = zlib.compressobj(1, wbits=31)
    body = b"".join(packer.compress(bytes(1 << 20)) for _ in range((MAX_UNPACKED_BYTES >> 20) + 1)) + packer.flush()
    assert len(body) < 2 << 20
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match=f"larger than {MAX_UNPACKED_BYTES} bytes unpacked"):
            decode_request(body)
        assert tracemalloc.get_traced_memory()[1] < 3 * MAX_DOCUMENT_BYTES
    finally:
        tracemalloc.stop()


def test_a_body_of_too_many_lines_is_refused() -> None:
    assert len(decode_request(request(*[b"x"] * MAX_REQUEST_LINES)).refused) == MAX_REQUEST_LINES
    for line in (b"", b"x"):
        with pytest.raises(TooLarge, match=f"more than {MAX_REQUEST_LINES} lines"):
            decode_request(gzip.compress((line + b"\n") * 20_000_000, 1))


def test_too_many_nodes_in_small_documents_are_refused() -> None:
    """Documents that are small enough by themselves and too much together are a request that is too large."""
    half = with_plans(plan_of(-1, *[0] * 29_999) * 4)
    assert len(decode_request(request(half, GOOD)).documents) == 2
    with pytest.raises(TooLarge, match=f"the documents of the request have more than {MAX_NODES} nodes in total"):
        decode_request(request(half, GOOD, half))


def test_a_hint_that_is_too_long_is_refused() -> None:
    """A hint is a word or two."""
    long = changed(join_hints=[{"metric": 1, "left": "broadcast"}, {"metric": 2, "right": "x" * 1_001}])
    assert decode_request(request(long)).refused == [(1, "$.join_hints[1] has more than 1000 characters")]


@pytest.mark.parametrize("size", [MAX_DOCUMENT_BYTES + 1, 48 << 20])
def test_a_line_over_the_limit_is_refused_alone(size: int) -> None:
    long = changed(description="x" * size)[: size - 1] + b"x"
    batch = decode_request(request(GOOD, long, GOOD))
    assert batch.documents == [(1, GOOD), (3, GOOD)]
    assert batch.refused == [(2, f"the document is larger than {MAX_DOCUMENT_BYTES} bytes")]
    last = decode_request(gzip.compress(GOOD_LINE + b"\n" + long, 1))
    assert (last.documents, last.refused) == ([(1, GOOD)], batch.refused)


def test_a_line_at_the_limit_is_read() -> None:
    line = changed(description="")
    line = changed(description="x" * (MAX_DOCUMENT_BYTES - len(line)))
    assert len(line) == MAX_DOCUMENT_BYTES
    assert len(decode_request(request(line)).documents) == 1


def test_a_plan_of_5000_levels_becomes_rows() -> None:
    nodes = [PlanNode("Project", level - 1, f"Project {level}") for level in range(5_000)]
    deep = execution(plans=[Plan(STARTED_AT_MS, nodes)])
    batch = decode_request(request(deep))
    assert batch.documents == [(1, deep)]
    rows = stored_rows(deep)
    assert (len(rows["plan_node"]), len(rows["plan_edge"])) == (5_000, 4_999)


def test_a_fault_of_ours_is_of_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A document that our own code fails on is refused, with a traceback in the log; the others are kept."""

    def faulty(e: Execution) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(decode, "_check", faulty)
    batch = decode_request(request(application(), GOOD, application()))
    assert [number for number, _ in batch.documents] == [1, 3]
    assert batch.refused == [(2, "could not be read: ZeroDivisionError: division by zero")]
    assert "Traceback" in caplog.text


def test_reasons_are_short() -> None:
    """A reason quotes little of the document, and nothing that would break a line of a log."""
    batch = decode_request(request(changed(kind="a\nb\r\x1b[31m" + "x" * 100_000), changed(state="y" * 100_000)))
    for _, reason in batch.refused:
        assert len(reason) < 400
        assert reason.isprintable()
    assert "$.kind" in batch.refused[0][1]


# Arbitrary input


@settings(max_examples=300)
@given(st.binary())
def test_no_body_is_another_error(body: bytes) -> None:
    """Any bytes give a batch or a defined error."""
    with suppress(DocumentError, TooLarge):
        decode_request(body)


@given(st.lists(st.binary() | st.text().map(str.encode)))
def test_no_lines_are_another_error(lines: list[bytes]) -> None:
    """Any lines give a batch with the valid documents."""
    lines = [line.replace(b"\n", b"") for line in lines]
    batch = decode_request(request(GOOD, *lines, GOOD))
    assert [number for number, document in batch.documents if document == GOOD] == [1, len(lines) + 2]


def _whole() -> dict[str, Any]:
    """A document with something in every field."""
    nodes, accumulators = draw("""
    SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5+6
      Exchange | hashpartitioning(k#1, 8), [plan_id=3] | records read=1+2+9, data size=?
      BroadcastExchange | IdentityBroadcastMode | data size=7
    """)
    document: dict[str, Any] = json.loads(
        msgspec.json.encode(
            execution(
                plans=[Plan(STARTED_AT_MS, nodes)],
                accumulators=[*accumulators, Accumulator(900, "v2Custom_a.B", 0, text="N/A")],
                ended_at_ms=STARTED_AT_MS + 5,
                error="no",
                tags={"a": "b"},
                configuration={"spark.sql.shuffle.partitions": "7", "spark.sql.autoBroadcastJoinThreshold": "1m"},
                listener=LISTENER,
            )
        )
    )
    spread = {"min": 1, "median": 2, "p95": 3, "max": 4, "max_task": 5}
    document["jobs"] = [{"id": 1, "submitted_at_ms": 5, "stages": [7]}]
    document["stages"] = [{"id": 7, "attempt": 0, "name": "s", "tasks": 3, "state": "failed", "run_time": spread}]
    document["announced"] = [{"name": "data size", "id": 900, "type": "size"}]
    return document


WHOLE = _whole()
VALUES: list[Any] = [
    None, True, 0, -1, 1, 1.5, 2**31, 2**63 - 1, -(2**63), 2**63, 10**30, "", "x", "\0", "9" * 5000, "²",
    [], {}, [None],
    "hashpartitioning(", "Exchange", "BroadcastExchange", "SortMergeJoin", "ReusedExchange", "Subquery", "1m", "size",
]  # fmt: skip


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(), st.integers(1, 3))
def test_no_mutation_is_another_error(seed: int, times: int) -> None:
    """A document with any of its values replaced is refused, or taken and made into rows."""
    dice = random.Random(seed)
    document = copy.deepcopy(WHOLE)
    for _ in range(times):
        holder, key = dice.choice(list(_places(document)))
        if dice.random() < 0.2:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(dice.choice(VALUES))
    try:
        decoded = decode_document(json.dumps(document).encode())
    except DocumentError:
        return
    assert isinstance(decoded, Execution)
    stored_rows(decoded)
