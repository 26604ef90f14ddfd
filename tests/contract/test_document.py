"""The contract between listener and collector: its JSON Schema, its example, and allowed changes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from tests.documents import stored_rows

import joinsight
from joinsight.base.errors import DocumentError
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Application, Execution
from joinsight.contract.schema import schema

SCHEMAS = Path(joinsight.__file__).parent / "contract" / "schemas"
SCHEMA_FILE = SCHEMAS / "document-v1.schema.json"
EXAMPLE = [json.loads(line) for line in (SCHEMAS / "document-v1.example.ndjson").read_text().splitlines()]
EXECUTION, APPLICATION = EXAMPLE
VALIDATOR = jsonschema.Draft202012Validator(schema())


def decode(document: Any) -> Application | Execution:
    return decode_document(json.dumps(document).encode())


def test_schema_file_is_generated() -> None:
    """The file in the package is what the classes say; `make docs` writes it."""
    assert json.loads(SCHEMA_FILE.read_text()) == schema()
    printed = subprocess.run(
        [sys.executable, "-m", "joinsight.contract.schema"], capture_output=True, text=True, check=True
    )
    assert printed.stdout == SCHEMA_FILE.read_text()


def test_schema_is_one() -> None:
    """It is a JSON Schema of 2020-12 with a name."""
    VALIDATOR.check_schema(schema())
    assert schema()["$schema"] == VALIDATOR.META_SCHEMA["$id"]
    assert schema()["$id"] == "urn:joinsight:document:v1"


def test_example_has_a_document_of_each_kind() -> None:
    """The example is an execution and an application, and small enough to be read."""
    assert [document["kind"] for document in EXAMPLE] == ["execution", "application"]
    assert len(json.dumps(EXAMPLE)) < 20_000


@pytest.mark.parametrize("document", EXAMPLE, ids=lambda document: str(document["kind"]))
def test_example_fits_the_schema(document: dict[str, Any]) -> None:
    """The example is valid, decodes, and holds nothing that the classes do not know."""
    VALIDATOR.validate(document)
    known = json.loads(msgspec.json.encode(decode(document)))
    assert list(_unknown(document, known)) == []


def _unknown(given: Any, known: Any, path: str = "$") -> Iterator[str]:
    if isinstance(given, dict):
        for name in given:
            if name not in known:
                yield f"{path}.{name}"
            else:
                yield from _unknown(given[name], known[name], f"{path}.{name}")
    elif isinstance(given, list):
        for index, (a, b) in enumerate(zip(given, known, strict=True)):
            yield from _unknown(a, b, f"{path}[{index}]")
    elif given != known:
        yield path


def test_example_is_whole() -> None:
    """The example has a shuffle, a broadcast and a join, each with measurements."""
    document = decode(EXECUTION)
    assert isinstance(document, Execution)
    rows = stored_rows(document)
    assert [row["rows_written"] for row in rows["shuffle"]] == [8]
    assert [row["rows"] for row in rows["broadcast"]] == [40]
    assert [(row["strategy"], row["output_rows"]) for row in rows["joins"]] == [("BroadcastHashJoin", 200_000)]
    assert rows["execution"][0]["incomplete"] is None


def _objects(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where an object with fields of its own stands: the first of each list is enough, maps are left out."""
    if isinstance(document, dict):
        yield path
        for name, value in document.items():
            if name not in ("tags", "configuration", "metadata", "dropped"):
                yield from _objects(value, (*path, name))
    elif isinstance(document, list) and document:
        yield from _objects(document[0], (*path, 0))


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def _first_with_metrics(document: dict[str, Any]) -> dict[str, Any]:
    """The same with a node that has metrics in front, so that the walk meets every kind of object."""
    changed = copy.deepcopy(document)
    if changed["kind"] == "execution":
        nodes = changed["nodes"]
        nodes[0], nodes[1] = nodes[1], nodes[0]
    return changed


OBJECTS = [(document, path) for document in map(_first_with_metrics, EXAMPLE) for path in _objects(document)]
every_object = pytest.mark.parametrize(
    ("document", "path"), OBJECTS, ids=[".".join(map(str, (document["kind"], *path))) for document, path in OBJECTS]
)


def test_the_walk_meets_every_kind_of_object() -> None:
    """The tests of fields below see all classes of documents."""
    names = {next((step for step in reversed(path) if isinstance(step, str)), "document") for _, path in OBJECTS}
    assert names >= {"document", "listener", "plans", "nodes", "metrics", "accumulators", "jobs", "stages", "run_time"}


@every_object
def test_new_fields_are_ignored(document: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """A field that a later version adds to any object does no harm: to the decoder, or to the schema."""
    changed = copy.deepcopy(document)
    _at(changed, path)["from_the_future"] = {"a": [1, None]}
    assert decode(changed) == decode(document)
    VALIDATOR.validate(changed)


@every_object
def test_each_field_is_needed_or_not(document: dict[str, Any], path: tuple[str | int, ...]) -> None:
    """Without one of its fields an object is refused or taken by the decoder as by the schema."""
    for name in _at(document, path):
        changed = copy.deepcopy(document)
        del _at(changed, path)[name]
        if name in ("sum", "min", "median", "p95", "max") and path[:1] == ("accumulators",):
            continue  # needed if count is not 0, which a JSON Schema of classes cannot say
        if name == "nodes" and not path:
            continue  # needed if there are plans
        if VALIDATOR.is_valid(changed):
            decode(changed)
        else:
            with pytest.raises(DocumentError, match=f"missing required field `{name}`"):
                decode(changed)


def test_few_fields_are_required() -> None:
    common = {"schema_version", "origin", "listener", "sequence", "application_id", "application_name", "job_name"}
    needed = {name: set(definition.get("required", [])) for name, definition in schema()["$defs"].items()}
    assert needed == {
        "Application": {"kind", *common, "state", "started_at_ms"},
        "Execution": {"kind", *common, "execution_id", "root_execution_id", "state", "started_at_ms"},
        "Listener": {"id", "version", "spark_version"},
        "Plan": {"at_ms", "nodes", "parents"},
        "PlanNode": {"name"},
        "Metric": {"name", "id", "type"},
        "Accumulator": {"id", "type", "count"},
        "JoinHint": {"metric"},
        "Job": {"id", "submitted_at_ms", "stages"},
        "Stage": {"id", "attempt", "name", "tasks", "state"},
        "Slowest": {*("host", "tasks", "run_time_ms", "cpu_time_ms", "median_ms", "others_median_ms", "excess_ms")},
        "Spread": {"min", "median", "p95", "max", "max_task"},
        "Nested": {"id", "started_at_ms"},
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("kind",), "query"),
        (("schema_version",), 2),
        (("schema_version",), "1"),
        (("origin",), "guess"),
        (("sequence",), -1),
        (("sequence",), 2**63),
        (("sequence",), 1.5),
        (("sequence",), True),
        (("application_id",), ""),
        (("application_id",), "a" * 1025),
        (("application_id",), None),
        (("attempt_id",), "1" * 65),
        (("started_at_ms",), -1),
        (("started_at_ms",), 253_402_300_800_000),
        (("state",), "done"),
        (("description",), 5),
        (("tags",), {"team": 5}),
        (("tags",), ["team"]),
        (("job_tags",), "nightly"),
        (("execution_id",), -1),
        (("jobs", 0, "id"), 2**31),
        (("jobs", 0, "state"), "lost"),
        (("stages", 0, "tasks"), -1),
        (("stages", 0, "state"), "lost"),
        (("stages", 0, "input_bytes"), -1),
        (("stages", 0, "input_bytes"), "5"),
        (("plans", 0, "parents", 0), -2),
        (("plans", 0, "nodes", 0), -1),
        (("nodes", 0, "metrics", 0, "id"), -1),
        (("accumulators", 0, "count"), -1),
        (("accumulators", 0, "sum"), 2**63),
        (("accumulators", 0, "sum"), -(2**63) - 1),
        (("accumulators", 0, "max_stage"), 2**31),
        (("plans",), {}),
        ((), None),
        ((), []),
        ((), "execution"),
    ],
)
def test_wrong_values_are_refused(path: tuple[str | int, ...], value: Any) -> None:
    """Decoder and schema refuse the same values, and the decoder says where they are."""
    changed: Any = copy.deepcopy(_first_with_metrics(EXECUTION))
    if path:
        _at(changed, path[:-1])[path[-1]] = value
    else:
        changed = value
    assert not VALIDATOR.is_valid(changed)
    with pytest.raises(DocumentError) as caught:
        decode(changed)
    if path and path[0] != "schema_version":
        assert "$." + str(path[0]) in str(caught.value)
