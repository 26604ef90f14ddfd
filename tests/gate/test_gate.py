"""`joinsight gate` on executions that Spark recorded: files, databases, accepted changes, and the reports."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec import structs
from tests.conftest import ROOT
from tests.documents import STARTED_AT_MS, as_line, planned

from joinsight.base.errors import ConfigurationError
from joinsight.cli import cli
from joinsight.contract.decode import MAX_DOCUMENT_BYTES, decode_document
from joinsight.contract.document import Job, Nested
from joinsight.gate.accepted import Accepted, read_accepted, write_accepted
from joinsight.gate.pairs import QueryPair, pairs
from joinsight.gate.report import PairResult, junit_xml, markdown
from joinsight.gate.runs import QueryRun, read_database, read_file
from joinsight.store.database import connect
from joinsight.store.writer import Writer

CORPUS = ROOT / "tests/corpus"
BEFORE, AFTER = "spark-aqe-to-broadcast.ndjson", "spark-aqe-to-shuffled-hash.ndjson"
OTHERS = ("spark-skewed-join-split.ndjson", "spark-dynamic-partition-pruning.ndjson")
GROWTH = 1.2


def documents(name: str, **changes: Any) -> bytes:
    """The executions of a recorded file, as runs of the job ``sales``."""
    lines = [json.loads(line) for line in (CORPUS / name).read_bytes().splitlines()]
    changed = [{**line, "job_name": "sales", **changes} for line in lines if "execution_id" in line]
    return b"".join(json.dumps(line).encode() + b"\n" for line in changed)


@pytest.fixture
def side(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of these recorded executions, and gives its path."""

    def write(*names: str, **changes: Any) -> str:
        path = tmp_path / f"{'-'.join(names)}{len(changes)}"
        path.write_bytes(b"".join(documents(name, **changes) for name in names))
        return str(path)

    return write


@pytest.fixture
def runs(side: Callable[..., str]) -> list[QueryRun]:
    """Runs of two queries."""
    return read_file(Path(side(*OTHERS)))


def gate(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["gate", *arguments])


def test_equal_sides_end_with_code_0_and_a_count(side: Callable[..., str]) -> None:
    """Exit code 0, and the list of what was compared."""
    done = gate(side(*OTHERS), side(*OTHERS))
    assert done.exit_code == 0
    assert done.output.startswith("# No query has changed\n\nSpark 4.3.0. 2 queries compared, 2 unchanged.\n")


def test_a_changed_plan_is_found_and_can_be_accepted(side: Callable[..., str], tmp_path: Path) -> None:
    """The query of another shape is found by its plan; then somebody accepts the change."""
    base, head = side(BEFORE, OTHERS[0]), side(AFTER, *OTHERS)
    accepted, junit = tmp_path / "accepted.json", tmp_path / "junit.xml"
    done = gate(base, head, "--junit", str(junit))
    assert done.exit_code == 3
    assert done.output.startswith("# 1 query has changed\n\nSpark 4.3.0. 2 queries compared, 1 unchanged.\n")
    assert "- The join on key was broadcast, is now shuffled hash.\n" in done.output
    assert "\n- BroadcastHashJoin by AQE Inner (key = key)\n+ ShuffledHashJoin BuildRight" in done.output
    assert "New queries: 1<" in done.output
    suite = ElementTree.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    [failure] = suite.iter("failure")
    assert "The join on key was broadcast, is now shuffled hash." in (failure.text or "")

    assert gate(base, head, "--accepted", str(accepted)).exit_code == 3, "no file yet"
    again = gate(base, head, "--accepted", str(accepted), "--accept")
    assert again.exit_code == 0
    assert again.output.startswith("# No query has changed beyond what was accepted\n")
    [change] = read_accepted(accepted)
    assert (change.job, len(change.change)) == ("sales", 4)
    text = accepted.read_text()
    assert gate(base, head, "--accepted", str(accepted)).exit_code == 0
    assert gate(head, base, "--accepted", str(accepted)).exit_code == 3, "the other way is another change"
    assert gate(base, head, "--accepted", str(accepted), "--accept").exit_code == 0
    assert accepted.read_text() == text, "nothing twice"


def test_a_command_that_only_started_others_is_compared_by_these(side: Callable[..., str], tmp_path: Path) -> None:
    """Its key has its line in the code, which moves."""
    command = planned("Execute SaveAsV1TableCommand", nested=[Nested(2, STARTED_AT_MS)])
    path = tmp_path / "with-command"
    path.write_bytes(as_line(command) + b"\n" + Path(side(OTHERS[0])).read_bytes())
    assert len(read_file(path)) == 1
    path.write_bytes(as_line(structs.replace(command, jobs=[Job(0, STARTED_AT_MS, stages=[])])))
    assert len(read_file(path)) == 1


DELTAS_LOG = "Delta: nightly: Filtering files for query"
HUDIS_INDEX = "org.apache.spark.sql.Dataset.collect(D.scala:1)\norg.apache.hudi.PartitionStatsIndexSupport.f(P.scala:1)"


@pytest.mark.parametrize("own", [{"description": DELTAS_LOG}, {"call_site": HUDIS_INDEX}])
def test_what_a_table_format_reads_for_itself_is_no_query(
    own: dict[str, str], make_store: Callable[[], str], side: Callable[..., str], tmp_path: Path
) -> None:
    """Neither new nor gone, also if it fails: whether Delta reads its log depends on what the session knows of it."""
    path = tmp_path / "with-own"
    mine = documents(OTHERS[0])
    path.write_bytes(mine + documents(BEFORE, execution_id=90, **own) + documents(AFTER, execution_id=91, **own))
    done = gate(side(OTHERS[0]), str(path))
    assert (done.exit_code, "New queries" in done.output) == (0, False), done.output
    url = make_store()
    with connect(url) as engine:
        Writer(engine).write([decode_document(line) for line in path.read_bytes().splitlines()])
    for sides in ((url, side(OTHERS[0])), (side(OTHERS[0]), url)):
        done = gate(*sides, "--since", "2020-01-01", "--job", "sales")
        assert (done.exit_code, "1 query compared, 1 unchanged" in done.output) == (0, True), done.output


def test_more_shuffled_bytes_count_from_20_percent_and_1_mib(runs: list[QueryRun], tmp_path: Path) -> None:
    """From 20 % and 1 MiB on; what is accepted may grow by as much, and can be accepted again for the same reason."""
    run = replace(runs[0], numbers={**runs[0].numbers, "shuffle_write_bytes": 10 << 20})

    def grown(size: int | None) -> QueryPair:
        return QueryPair(run, replace(run, numbers={**run.numbers, "shuffle_write_bytes": size}))

    assert grown(12 << 20).changes(GROWTH) == [] == grown(None).changes(GROWTH) == grown(1 << 20).changes(GROWTH)
    assert grown(13 << 20).changes(GROWTH) == ["Shuffled bytes grew from 10.0 MiB to 13.0 MiB."]
    assert grown((10 << 20) + (1 << 20) - 1).changes(1.01) == []
    accepted = Accepted("sales", "", [], grown(13 << 20).plans, 13 << 20, why="a new market")
    assert accepted.covers(grown(15 << 20), GROWTH)
    assert not accepted.covers(grown(16 << 20), GROWTH)
    [again] = write_accepted(tmp_path / "accepted.json", [accepted], [grown(16 << 20)], GROWTH)
    assert (again.shuffle_bytes, again.why) == (16 << 20, "a new market")


def test_growth_within_the_scatter_of_earlier_runs_is_inconclusive(runs: list[QueryRun]) -> None:
    """What earlier runs shuffled as well is no growth, and no proof of none."""
    run = replace(runs[0], numbers={**runs[0].numbers, "shuffle_write_bytes": 10 << 20}, earlier_shuffled=(14 << 20,))

    def grown(size: int) -> QueryPair:
        return QueryPair(run, replace(run, numbers={**run.numbers, "shuffle_write_bytes": size}))

    assert grown(12 << 20).doubts(GROWTH) == [] == grown(18 << 20).doubts(GROWTH)
    assert grown(18 << 20).changes(GROWTH) == ["Shuffled bytes grew from 10.0 MiB to 18.0 MiB."]
    assert grown(16 << 20).changes(GROWTH) == []
    [doubt] = grown(16 << 20).doubts(GROWTH)
    assert doubt == (
        "It shuffled 16.0 MiB. 2 runs of BASE shuffled between 10.0 MiB and 14.0 MiB:"
        " too much scatter to say that it grew."
    )
    verdict = PairResult(grown(16 << 20), [], doubts=[doubt])
    assert markdown([verdict]).startswith("# Inconclusive: 1 query cannot be compared\n")
    assert b"<skipped message=" in junit_xml([verdict])


def test_a_run_that_is_partial_or_alone_ends_with_code_4(side: Callable[..., str]) -> None:
    """Nothing is called unchanged that was not compared; a change that is certain counts first."""
    partial = side(OTHERS[0], incomplete=["3 of 4 task ends of stage 3 were not seen"])
    done = gate(side(OTHERS[0]), partial)
    assert done.exit_code == 4
    assert "- Numbers of its run in HEAD are missing, as not all events arrived.\n" in done.output
    assert gate(side(BEFORE, OTHERS[0]), side(AFTER, OTHERS[0])).exit_code == 3
    alone = gate(side(OTHERS[0], job_name="a"), side(OTHERS[0], job_name="b", parallelism=3))
    assert (alone.exit_code, alone.output.splitlines()[0]) == (4, "# Inconclusive: no query ran on both sides")


def test_a_query_that_fails(runs: list[QueryRun], tmp_path: Path) -> None:
    """Its plan is not its final one; nobody can accept it."""
    failed = replace(runs[0], error="no space left\nmore", section=runs[1].section)
    pair = QueryPair(runs[0], failed)
    assert pair.changes(GROWTH) == ["It fails: no space left"]
    assert not Accepted("sales", "", [], pair.plans).covers(pair, GROWTH)
    assert write_accepted(tmp_path / "accepted.json", [], [pair], GROWTH) == []
    assert QueryPair(failed, runs[0]).changes(GROWTH) == [] == QueryPair(failed, failed).changes(GROWTH)


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3)), st.lists(st.tuples(*[st.sampled_from("ab")] * 3)))
def test_every_run_is_in_one_pair(base: list[tuple[str, ...]], head: list[tuple[str, ...]]) -> None:
    """Both sides are of one job; queries of the same shape are paired before others."""
    [run] = read_file(CORPUS / OTHERS[0])
    sides = [
        [replace(run, job=job, shape=shape, section=replace(run.section, lines=[line])) for job, shape, line in side]
        for side in (base, head)
    ]
    found = pairs(*sides)
    for number, side in enumerate(sides):
        kept = [(pair.base, pair.head)[number] for pair in found]
        assert Counter(map(id, filter(None, kept))) == Counter(map(id, side))
    both = [(pair.base, pair.head) for pair in found if pair.base and pair.head]
    assert all(old.job == new.job for old, new in both)
    same = sum((Counter((r.job, r.shape) for r in sides[0]) & Counter((r.job, r.shape) for r in sides[1])).values())
    assert sum(old.shape == new.shape for old, new in both) == same


HOSTILE = (
    "[x](https://evil.example) <img src=x onerror=alert(1)> ![](//evil.example/p.png) https://evil.example"
    " www.evil.example @team #12 GH-26 0123456789abcdef"
    " `code` | a | **b** </details><script>alert(1)</script> &lt;b&gt; \x1b[31m \x00\n# x"
)


def test_texts_of_queries_are_no_markup(runs: list[QueryRun]) -> None:
    """Titles, jobs, errors, settings and plans of a stranger's branch."""
    lines = ["```", f"Scan {' '.join(HOSTILE.split())}[a]", "</details>"]
    evil = replace(runs[0], job=HOSTILE, section=replace(runs[0].section, title=HOSTILE, lines=lines))
    failed = replace(evil, error=HOSTILE)
    changed = QueryPair(replace(runs[0], job=HOSTILE), evil)
    verdicts = [
        PairResult(pair, pair.changes(GROWTH))
        for pair in (changed, QueryPair(runs[0], failed), QueryPair(None, failed))
    ]
    assert all(verdict.changes for verdict in verdicts[:2])
    text = markdown(verdicts)
    html = MarkdownIt("commonmark").enable("table").render(text)
    for markup in ("<a ", "<img", "<script", "<strong", "<h1>x", "<td>a"):
        assert markup not in html, markup
    assert html.count("</details>") == html.count("<details>") == 3
    assert "fails: \\[x\\](https\\://evil" in text and " www\\.evil" in text
    assert "@\u2060team" in text and "#\u206012" in text and "GH-\u206026" in text
    assert "012345\u20606789ab\u2060cdef" in text
    ElementTree.fromstring(junit_xml(verdicts))


def test_databases_give_the_same_report_as_files(make_store: Callable[[], str], side: Callable[..., str]) -> None:
    """The last run of each query in a database, the same as from files."""
    earlier = {"started_at_ms": 1_767_225_600_000, "ended_at_ms": 1_767_225_601_000, "execution_id": 1}
    old, new, other = documents(OTHERS[0], **earlier), documents(OTHERS[0]), documents(OTHERS[1], job_name="other")
    url = make_store()
    with connect(url) as engine:
        Writer(engine).write([decode_document(line) for each in (old, new, other) for line in each.splitlines()])
        since = datetime(2020, 1, 1, tzinfo=timezone.utc)
        [run] = read_database(engine, since, ["sales"])
        assert [each.job for each in read_database(engine, since, [])] == ["other", "sales"]
        assert read_database(engine, datetime.now(timezone.utc), []) == []
    [expected] = read_file(Path(side(OTHERS[0])))
    assert run == replace(expected, earlier_shuffled=(expected.numbers["shuffle_write_bytes"] or 0,))
    assert gate(url, side(OTHERS[0]), "--since", "2020-01-01", "--job", "sales").exit_code == 0
    nothing = gate(url, side(OTHERS[0]), "--job", "nobody")
    assert isinstance(nothing.exception, ConfigurationError)
    assert "no queries found" in str(nothing.exception)


def test_a_small_file_that_holds_gigabytes_is_not_read_to_its_end(
    tmp_path: Path, side: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gzip packs a thousand bytes in one; what is not packed may have any size."""
    good = Path(side(OTHERS[0])).read_bytes()
    path = tmp_path / "many"
    monkeypatch.setattr("joinsight.gate.runs._MAX_UNPACKED_BYTES", 3 * len(good))
    for content, runs in ((good * 4, 4), (gzip.compress(good * 3), 3)):
        path.write_bytes(content)
        assert len(read_file(path)) == runs
    path.write_bytes(gzip.compress(good * 4))
    with pytest.raises(ConfigurationError, match="it holds more than"):
        read_file(path)


def test_files_that_cannot_be_read(tmp_path: Path, side: Callable[..., str]) -> None:
    """Each error names the file, the line and the way out."""
    good = Path(side(OTHERS[0])).read_bytes()
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(good))
    assert len(read_file(packed)) == 1
    for content, problem in (
        (good + good[:-20], "line 2 is not a document: not JSON"),
        (gzip.compress(good)[:-9], "Compressed file ended"),
        (gzip.compress(good)[:10] + b"\xff" * 100, "Error -3 while decompressing"),
        (gzip.compress(good)[:-8] + bytes(8), "CRC check failed"),
        (gzip.compress(bytes(MAX_DOCUMENT_BYTES + 1)), "line 1 is longer than 16.0 MiB"),
        (b"", "no query in it has a plan"),
        (b"\xff\xfe", "line 1 is not a document"),
    ):
        packed.write_bytes(content)
        with pytest.raises(ConfigurationError, match=problem):
            read_file(packed)
    with pytest.raises(ConfigurationError, match="No such file"):
        read_file(tmp_path / "missing")
    assert isinstance(gate(side(*OTHERS), side(*OTHERS), "--accept").exception, ConfigurationError)
    for content in (b"{}", b'[{"job": 1}]', b'[{"job":"a","query":"","change":[],"plans":"","plan":1}]', b"\xff"):
        packed.write_bytes(content)
        with pytest.raises(ConfigurationError, match="joinsight gate --accept writes it"):
            read_accepted(packed)
