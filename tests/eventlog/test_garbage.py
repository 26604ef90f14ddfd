"""Whatever a log holds, reading it raises nothing, gives what is there, and says what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.eventlog.recorded import read, recorded

from joinsight.document import Document, Execution
from joinsight.eventlog.files import find, log_of_file, log_of_folder
from joinsight.eventlog.framing import lines
from joinsight.eventlog.piece import Piece

VERSION = "4.3.0"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recorded log, unpacked."""
    log, _ = recorded(VERSION, tmp_path_factory.mktemp("log"))
    with Path(log.files[0]).open("rb") as file:
        return b"".join(line + b"\n" for line in lines(file, log.files[0]))


def executions(found: list[Document]) -> dict[int, Execution]:
    return {document.execution_id: document for document in found if isinstance(document, Execution)}


def read_bytes(folder: Path, content: bytes, name: str = "local-1") -> tuple[dict[int, Execution], list[str]]:
    path = folder / name
    path.write_bytes(content)
    found, outcome = read(log_of_file(str(path)))
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
    assert last.incomplete == ["the event log could not be read to its end: the last line is cut off"]
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


def test_events_and_operators_that_nobody_knows_are_taken(plain: bytes, tmp_path: Path) -> None:
    """Events of other kinds are skipped, operators of other names are nodes."""
    strange = plain.replace(b'"nodeName":"BroadcastHashJoin"', b'"nodeName":"QuantumJoin"')
    found, problems = read_bytes(tmp_path, b'{"Event":"org.example.Something","x":[1]}\n' + strange)
    assert problems == []
    assert any(node.name == "QuantumJoin" for e in found.values() for node in e.nodes)


@pytest.mark.parametrize("version", ["3.4.4", "4.0.5", "4.1.4", "4.2.1"])
def test_a_truncated_compressed_log_gives_what_is_before(version: str, tmp_path: Path) -> None:
    """Of lz4, zstd, snappy and lzf: the blocks before the cut are read."""
    log, truth = recorded(version, tmp_path)
    path = Path(log.files[0])
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 3 // 4])
    found, outcome = read(log)
    assert 0 < len(executions(found)) <= len(truth["said"]["executions"])
    assert len(outcome.problems) == 1
    assert outcome.lines > 50


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


def test_pieces_put_together_are_the_whole(plain: bytes) -> None:
    """Wherever a log is cut between lines: its pieces, read apart and pickled, give the documents of the whole."""
    import pickle

    from joinsight.eventlog.fold import Fold

    split = plain.splitlines()

    def given_in(size: int) -> list[Document]:
        fold = Fold()
        found: list[Document] = []
        for start in range(0, len(split), size):
            piece: Piece = pickle.loads(pickle.dumps(Piece.read(split[start : start + size])))
            found += fold.add(piece.items, start)
        return [*found, *fold.finish(len(split), is_open=False)]

    whole = given_in(len(split))
    assert len(whole) > 15
    for size in (1, 7, 100):
        assert given_in(size) == whole


def test_a_rolling_log_is_read_in_order_from_its_last_compacted_file(plain: bytes, tmp_path: Path) -> None:
    """Numbers count, not names; what a compacted file replaces is left out; a missing file is said."""
    split = plain.splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app-1-1_2"
    folder.mkdir()
    size = len(split) // 11
    for number in range(1, 13):
        (folder / f"events_{number}_app-1-1_2").write_bytes(b"".join(split[(number - 1) * size : number * size]))
    (folder / "appstatus_app-1-1_2").touch()
    (folder / ".appstatus_app-1-1_2.crc").touch()
    (log,) = find(tmp_path)
    assert (log.application_id, log.attempt_id, log.is_open, log.missing) == ("app-1-1", "2", False, ())
    found, outcome = read(log)
    whole, _ = read_bytes(tmp_path, plain)
    assert outcome.problems == []
    assert [e.accumulators for e in executions(found).values()] == [e.accumulators for e in whole.values()]
    (folder / "events_3_app-1-1_2").unlink()
    assert read(next(find(folder)))[1].problems == ["file 3 of the rolling log is missing"]
    compacted = log_of_folder("/x/eventlog_v2_a", ["events_1_a", "events_2_a.compact", "events_2_a", "events_3_a"])
    assert compacted.files == ("/x/eventlog_v2_a/events_2_a.compact", "/x/eventlog_v2_a/events_3_a")
    assert compacted.is_compacted
    assert compacted.is_open


def test_an_attempt_is_what_the_log_says_not_its_name(plain: bytes, tmp_path: Path) -> None:
    """An application's id may end as an attempt's name does; the name counts where the log has lost its start."""
    path = tmp_path / "job_12"
    path.write_bytes(plain.replace(b"local-1795263707474", b"job_12"))
    found, _ = read(log_of_file(str(path)))
    assert {(each.application_id, each.attempt_id) for each in found} == {("job_12", "")}
    lines_of_log = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines_of_log if b"SparkListenerApplicationStart" not in line))
    found, _ = read(log_of_file(str(path)))
    assert {(each.application_id, each.attempt_id) for each in found} == {("job", "12")}


def test_literals_that_must_go_keep_a_log_from_being_read(plain: bytes, tmp_path: Path) -> None:
    """A log whose application redacts literals gives nothing, and says why."""
    setting = json.dumps({"spark.joinsight.redactLiterals": "true"})[1:-1].encode()
    found, problems = read_bytes(
        tmp_path, plain.replace(b'"Spark Properties":{', b'"Spark Properties":{' + setting + b",", 1)
    )
    assert found == {}
    assert "spark.joinsight.redactLiterals" in problems[0]
