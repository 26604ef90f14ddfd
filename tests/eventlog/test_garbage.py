"""Reading any log raises no error, returns the valid content, and reports what is missing."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.eventlog import recorded as of_versions
from tests.eventlog.record import FORMS
from tests.eventlog.recorded import SQL, log_at, read, recorded
from tests.versions import NEWEST

from joinsight.backfill.log_file import FileStatus, log_of_folder
from joinsight.contract.document import Document, Execution, Stage


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recorded log, unpacked."""
    return of_versions.plain(recorded(NEWEST, tmp_path_factory.mktemp("log"))[0])


def executions(found: list[Document]) -> dict[int, Execution]:
    return {document.execution_id: document for document in found if isinstance(document, Execution)}


def read_bytes(folder: Path, content: bytes, name: str = "local-1") -> tuple[dict[int, Execution], list[str]]:
    path = folder / name
    path.write_bytes(content)
    found, outcome = read(log_at(path))
    return executions(found), outcome.problems


def test_a_log_cut_off_in_its_last_line_gives_what_is_before(plain: bytes, tmp_path: Path) -> None:
    """Executions that had ended are whole; one that had not is lost, or runs if the log is in progress."""
    start = plain.rindex(b"SparkListenerSQLExecutionStart")
    cut = plain.index(b"\n", plain.index(b"SparkListenerJobStart", start)) - 20
    whole, _ = read_bytes(tmp_path, plain)
    found, problems = read_bytes(tmp_path, plain[:cut])
    assert problems == ["local-1: the last line is cut off"]
    last = found.pop(max(found))
    assert (last.state, last.ended_at_ms) == ("lost", None)
    assert last.incomplete == ["the event log could not be read to the end: the last line is cut off"]
    assert last.incomplete_codes == ["log_cut_off"]
    assert all(found[each].accumulators == whole[each].accumulators for each in found)
    running, _ = read_bytes(tmp_path, plain[:cut], "local-1.inprogress")
    assert running[max(running)].state == "running"


def test_garbage_between_lines_is_counted_and_marks_what_ran(plain: bytes, tmp_path: Path) -> None:
    """The executions that ran while the log was unreadable say so, the others do not."""
    at = plain.index(b"\n", plain.index(b"SparkListenerJobStart")) + 1
    found, problems = read_bytes(
        tmp_path, plain[:at] + b'\xff\x00{"Event":\n{"Event":"SparkListenerJobEnd"}\n' + plain[at:]
    )
    assert len(problems) == 1
    assert "2 lines are unreadable, the first: line " in problems[0]
    marked = [
        each for each, e in found.items() if "lines of the event log could not be read while it ran" in e.incomplete
    ]
    assert marked == [0]


def test_a_line_that_breaks_off_anywhere_takes_no_other_with_it(plain: bytes, tmp_path: Path) -> None:
    """The end of a task, cut off at each of its bytes: the line after it is read as it was before."""
    start = plain.index(b'{"Event":"SparkListenerTaskEnd"')
    line = plain[start : plain.index(b"\n", start)]
    parts = [line[:cut] + b"\n" for cut in range(1, len(line))]
    path = tmp_path / "local-1"
    path.write_bytes(plain[:start] + b"".join(parts) + plain[start:])
    found, outcome = read(log_at(path))
    assert outcome.lines == plain.count(b"\n") + len(parts)
    assert f"{len(parts)} lines are unreadable" in outcome.problems[0]
    whole, _ = read_bytes(tmp_path, plain)
    without = executions(found)
    assert [stage.slots for e in without.values() for stage in e.stages][-1] is None, "any line may be of an executor"
    assert {each: _stages(e) for each, e in without.items()} == {each: _stages(e) for each, e in whole.items()}


def _stages(execution: Execution) -> list[Stage]:
    return [replace(stage, slots=None) for stage in execution.stages]


def test_empty_and_foreign_files_give_no_executions(tmp_path: Path) -> None:
    """An empty log, a text, a picture: no execution, no exception."""
    for content in (
        b"",
        b"hello\n",
        b"\x89PNG\r\n\x1a\n" + bytes(1000),
        b"LZ4Block" + bytes(50),
        b"\x28\xb5\x2f\xfd\xff",
    ):
        found, _ = read_bytes(tmp_path, content)
        assert found == {}


def test_a_broken_log_is_not_tried_again_and_one_that_cannot_be_opened_is(tmp_path: Path) -> None:
    """What is wrong with its bytes stays, wherever it is; what the file system says may pass."""
    for content in (b"\x82SNAPPY\x00", b"LZ4Block" + bytes(50), b"ZV\x09abcdef", b"\x28\xb5\x2f\xfd broken"):
        path = tmp_path / "local-1"
        path.write_bytes(content)
        outcome = read(log_at(path))[1]
        assert (len(outcome.problems), outcome.failed) == (1, False), content
        assert "compression is broken: " in outcome.problems[0]
    log = log_at(path)
    path.unlink()
    outcome = read(log)[1]
    assert ("No such file" in outcome.problems[0], outcome.failed) == (True, True)


def test_events_and_operators_that_nobody_knows_are_taken(plain: bytes, tmp_path: Path) -> None:
    """Events of other kinds are skipped, operators of other names are nodes."""
    strange = plain.replace(b'"nodeName":"BroadcastHashJoin"', b'"nodeName":"QuantumJoin"')
    found, problems = read_bytes(tmp_path, b'{"Event":"org.example.Something","x":[1]}\n' + strange)
    assert problems == []
    assert any(node.name == "QuantumJoin" for e in found.values() for node in e.nodes)


@pytest.mark.parametrize("version", FORMS)
def test_a_truncated_compressed_log_gives_what_is_before(version: str, tmp_path: Path) -> None:
    """The blocks before the cut are read, for lz4, zstd, snappy and lzf; of gzip, all that can be unpacked."""
    log, truth = recorded(version, tmp_path)
    path = Path(log.files[0].path.removeprefix("file:"))
    is_gzip = FORMS[version][0] == "gz"
    content = gzip.compress(path.read_bytes()) if is_gzip else path.read_bytes()
    cut = content[: len(content) * 3 // 4]
    path.write_bytes(cut)
    found, outcome = read(log)
    assert 0 < len(executions(found)) <= len(truth["said"]["executions"])
    assert len(outcome.problems) == 1
    assert outcome.lines >= (zlib.decompressobj(31).decompress(cut).count(b"\n") if is_gzip else 51)


@pytest.mark.parametrize("version", [version for version, (codec, _) in FORMS.items() if codec != "gz"])
def test_a_compressed_log_without_a_whole_block_is_partial(version: str, tmp_path: Path) -> None:
    """Nothing of it can be read; that is no problem only while it is written."""
    source = Path(recorded(version, tmp_path)[0].files[0].path.removeprefix("file:"))
    for name, number_of_problems in (("local-1", 1), ("local-1.inprogress", 0)):
        path = tmp_path / name
        path.write_bytes(source.read_bytes()[:200])
        found, outcome = read(log_at(path))
        assert (found, len(outcome.problems), outcome.failed) == ([], number_of_problems, False)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_makes_reading_fail(data: st.DataObject, plain: bytes, tmp_path: Path) -> None:
    """Bytes changed, removed and doubled anywhere."""
    events = [line for line in plain.split(b"\n") if b"TaskStart" not in line[:60]]
    start = data.draw(st.integers(0, len(events)))
    damaged = bytearray(b"\n".join(events[:5] + events[start : start + 40]))
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        length = data.draw(st.sampled_from([1, 1, 2, 50]))
        damaged[at : at + length] = data.draw(
            st.sampled_from([b"", b"9", b"-", b"null", b'"', b"\xff", b"99999999999999999999"])
        )
    read_bytes(tmp_path, bytes(damaged))


def test_texts_of_any_length_and_plans_of_any_depth(plain: bytes, tmp_path: Path) -> None:
    """Jackson's own limits, 20 million characters and 1,000 levels, are none of ours."""
    plan = '{"nodeName":"Range","simpleString":"Range","children":[],"metadata":{},"metrics":[]}'
    for _ in range(2_000):
        plan = f'{{"nodeName":"Filter","simpleString":"Filter","children":[{plan}],"metadata":{{}},"metrics":[]}}'
    start = {"Event": f"{SQL}Start", "executionId": 77, "description": "x" * 25_000_000, "details": "", "time": 2}
    line = json.dumps(start, separators=(",", ":"))[:-1] + f',"sparkPlanInfo":{plan}}}\n'
    found, problems = read_bytes(tmp_path, plain + line.encode())
    assert problems == []
    assert (len(found[77].description), len(found[77].plans[0].nodes)) == (16 * 1024, 2_001)
    assert found[77].state == "lost"


def test_a_rolling_log_is_read_in_order_from_its_last_compacted_file(plain: bytes, tmp_path: Path) -> None:
    """Numbers count, not names; files that a compacted file replaces are skipped; a missing file is reported."""
    split = plain.splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app-1-1_2"
    folder.mkdir()
    size = len(split) // 11
    for number in range(1, 13):
        (folder / f"events_{number}_app-1-1_2").write_bytes(b"".join(split[(number - 1) * size : number * size]))
    (folder / "appstatus_app-1-1_2").touch()
    (folder / ".appstatus_app-1-1_2.crc").touch()
    log = log_at(folder)
    assert (log.application_id, log.attempt_id, log.is_open, log.missing) == ("app-1-1", "2", False, ())
    found, outcome = read(log)
    whole, _ = read_bytes(tmp_path, plain)
    assert outcome.problems == []
    assert [e.accumulators for e in executions(found).values()] == [e.accumulators for e in whole.values()]
    (folder / "events_3_app-1-1_2").unlink()
    assert read(log_at(folder))[1].problems == ["file 3 of the rolling log is missing"]
    files = [
        FileStatus(f"/x/eventlog_v2_a/events_{name}", False, 1, 1) for name in ("1_a", "2_a.compact", "2_a", "3_a")
    ]
    compacted = log_of_folder("/x/eventlog_v2_a", files)
    assert [file.name for file in compacted.files] == ["events_2_a.compact", "events_3_a"]
    assert compacted.is_compacted
    assert compacted.is_open


def test_an_attempt_is_what_the_log_says_not_its_name(plain: bytes, tmp_path: Path) -> None:
    """An application's id may end as an attempt's name does; the name counts where the log has lost its start."""
    path = tmp_path / "job_12"
    path.write_bytes(re.sub(rb"local-\d{13}", b"job_12", plain))
    found, _ = read(log_at(path))
    assert {(each.application_id, each.attempt_id) for each in found} == {("job_12", "")}
    lines_of_log = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines_of_log if b"SparkListenerApplicationStart" not in line))
    found, _ = read(log_at(path))
    assert {(each.application_id, each.attempt_id) for each in found} == {("job", "12")}


def test_literals_go_where_the_application_asked_for_it(plain: bytes, tmp_path: Path) -> None:
    """Texts and plans are redacted as in the driver; everything else stays."""
    setting = json.dumps({"spark.joinsight.redactLiterals": "true"})[1:-1].encode()
    whole, _ = read_bytes(tmp_path, plain)
    found, problems = read_bytes(
        tmp_path, plain.replace(b'"Spark Properties":{', b'"Spark Properties":{' + setting + b",", 1)
    )
    assert problems == []
    assert {number: e.accumulators for number, e in found.items()} == {n: e.accumulators for n, e in whole.items()}
    texts = ["\n".join(node.simple for e in read.values() for node in e.nodes) for read in (whole, found)]
    assert ["on purpose" in text for text in texts] == [True, False]
    assert "?" in texts[1]
