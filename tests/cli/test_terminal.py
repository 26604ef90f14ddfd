"""Text from senders cannot control a terminal: every command runs on a store in which all texts are hostile."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import signal
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from rich.text import Text as RichText
from sqlalchemy import CheckConstraint, Engine, Table, Text, text
from sqlalchemy.dialects.postgresql import ARRAY
from tests.commands import leaves
from tests.documents import LISTENER, Plan, application, as_line, draw, execution, request
from tests.java import end_java
from tests.serve.real import post, service
from tests.store.test_regressions import BEFORE, SINCE, plant

import joinsight
from joinsight import tables
from joinsight.cli import cli, main
from joinsight.store.database import connect
from joinsight.store.writer import Writer
from joinsight.terminal import console

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x9b1;1H\x9d0;x\x9c\r\x08\x7f\u202egnp\u2066\u200b\u200d\u2028\u2029\U000e0041\xad\ufeff"
)
SEEN = r"\x1b]0;owned\x07\x1b[2J"
"""How it begins where it is shown."""
DRAWING = """
    SortMergeJoin | [k#1L], [k#2L], Inner | number of output rows=60+40
      Sort | [k#1L ASC NULLS FIRST], false, 0
        AQEShuffleRead | coalesced and skewed
          Exchange | hashpartitioning(k#1L, 200), ENSURE_REQUIREMENTS, [plan_id=7] | data size=900, shuffle bytes written=2097152+2097152, records read=10+20+970
            Scan | [k#1L] | number of output rows=1000
      BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=3] | data size=4194304, number of output rows=2, time to collect=30
"""
_OWN = re.compile(r"\x1b\[([0-9;]*m|\?25[lh]|1A|2K)|\r")
"""What rich writes on a terminal: colours; for a bar the cursor's way, and hiding and showing it."""


def is_harmless(character: str) -> bool:
    """Characters by their Unicode category, independent of our own list."""
    return character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def harmful(output: str) -> set[str]:
    """What must not be in it, named."""
    return {f"U+{ord(character):04X}" for character in output if not is_harmless(character)}


class Ran(NamedTuple):
    """A command that has run as the script runs it."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command as its script does."""

    def run(*arguments: str, **environment: str) -> Ran:
        written = {"stdout": io.BytesIO(), "stderr": io.BytesIO()}
        streams = {name: io.TextIOWrapper(behind, "utf-8") for name, behind in written.items()}
        with monkeypatch.context() as patch:
            for name, stream in streams.items():
                patch.setattr(sys, name, stream)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["joinsight", *arguments])
            patch.setattr(signal, "signal", lambda *_: None)
            patch.setattr(logging.root, "handlers", [])  # those of the command write to its stderr
            code: Any = 0
            try:
                main()
            except SystemExit as end:
                code = end.code
            except Exception:  # as Python does with what nobody catches
                sys.excepthook(*sys.exc_info())
                code = 1
            for stream in streams.values():
                stream.flush()
        out, err = (behind.getvalue().decode() for behind in written.values())
        return Ran(code, out, err)

    return run


@pytest.fixture(scope="module")
def url(make_store: Callable[[], str]) -> Iterator[str]:
    """A store of which every text is hostile, as far as the schema allows."""
    with connect(make_store()) as engine:
        nodes, accumulators = draw(DRAWING)
        nodes = [node._replace(simple=f"{node.simple} {HOSTILE}") for node in nodes]
        nodes[4] = nodes[4]._replace(name=f"Scan {HOSTILE}", metadata={HOSTILE: HOSTILE})
        common: dict[str, Any] = {"tags": {HOSTILE: HOSTILE}, "configuration": {f"spark.sql.{HOSTILE}": HOSTILE}}
        plans = [Plan(1_767_225_600_000, draw("BroadcastHashJoin | [k#1L], [k#2L], Inner")[0])]
        plans += [Plan(1_767_225_600_500, nodes)]
        measured = {"plans": plans, "accumulators": accumulators, **common}
        far = 4_102_444_800_000 * 2
        Writer(engine).write(
            [
                application(**common, documents_made=9, events_dropped=3, listener_failures=1),
                execution(sequence=2, execution_id=1, **measured),
                execution(sequence=3, execution_id=2, **measured | {"configuration": {}}),
                execution(sequence=4, execution_id=3, state="failed", error="x", incomplete=["x"], **measured),
                execution(sequence=5, execution_id=4, state="running", started_at_ms=far, ended_at_ms=None),
                application(application_id="app-2", listener=LISTENER.__class__("2", "0", "4.3.0")),
            ]
        )
        plant(engine, "slower", [*BEFORE, *[120_000] * 7])
        with engine.begin() as connection:
            ledger_row = {"problems": ["x"], "outcome": "failed", "path": "x", "application_id": "x"}
            _insert(connection, tables.event_log, ledger_row)
            _insert(connection, tables.finding, _key(connection) | {"severity": "warning", "finding": "spill"})
            for table in tables.metadata.sorted_tables:
                _poison(connection, table)
        yield engine.url.render_as_string(hide_password=False)


def _key(connection: Any) -> dict[str, Any]:
    names = ", ".join(tables.EXECUTION_KEY)
    return dict(connection.execute(text(f"SELECT {names} FROM execution WHERE execution_id = 1")).mappings().first())


def _insert(connection: Any, table: Table, row: dict[str, Any]) -> None:
    """A row, with anything in columns that need something."""
    fillers = {"TEXT": "x", "BIGINT": 1, "INTEGER": 1, "BOOLEAN": True, "JSONB": {"x": 1}}
    for column in table.columns:
        if column.name not in row and not column.nullable:
            row[column.name] = fillers.get(str(column.type), text("now()"))
    connection.execute(table.insert().values(row))


def _poison(connection: Any, table: Table) -> None:
    """Add hostile characters to all texts of a table that no constraint keeps to a few words."""
    checked = " ".join(str(c.sqltext) for c in table.constraints if isinstance(c, CheckConstraint))
    changes = {}
    for column in table.columns:
        if isinstance(column.type, Text) and column.name not in re.findall(r"\w+", checked):
            changes[column] = column + HOSTILE
        elif isinstance(column.type, ARRAY) and isinstance(column.type.item_type, Text):
            changes[column] = column.op("||")([HOSTILE])
    if changes:
        connection.execute(table.update().values(changes))


LISTS = [[], ["--json"], ["--application", HOSTILE], ["--sort", HOSTILE], ["--since", HOSTILE]]
ALL = [*LISTS, ["--execution", "1"], ["--operator", HOSTILE], ["--execution", HOSTILE]]
Runs = dict[tuple[str, ...], list[list[str]]]
RUNS: Runs = {
    ("queries",): [*LISTS, ["--shape", HOSTILE]],
    ("shuffles",): ALL,
    ("broadcasts",): ALL,
    ("joins",): ALL,
    ("findings",): [*ALL, ["--each"], ["--since", "2000-01-01"], ["--finding", HOSTILE]],
    ("plan",): [["1"], ["1", "--json"], ["1", "--metrics", "--all-versions"], ["3"], [HOSTILE], ["9/" + HOSTILE]],
    ("cost",): [["1"], ["1", "--json"], ["3"], [HOSTILE]],
    ("verdict",): [["1"], ["1", "--json"], ["3"], [HOSTILE]],
    ("keys",): [["1", "0"], ["1", "1"], ["1", "99"], ["3", "0"], [HOSTILE, "0"], ["1", HOSTILE]],
    ("why",): [["1", "2"], ["1", "2", "--json"], ["1"], ["3"], [HOSTILE, HOSTILE], ["1", "3"]],
    ("what-if",): [
        ["1", "--slots", "8"],
        ["1", "--broadcast", "1", "--json"],
        ["1", "--without", "skew"],
        ["1", "--without", HOSTILE],
        ["1", "--slots", HOSTILE],
        ["1"],
        ["3", "--slots", "8"],
        [HOSTILE, "--slots", "8"],
    ],
    ("export-html",): [
        ["1", "--output", "-"],
        ["1", "2", "--output", "-"],
        ["1", "--output", f"/nowhere/{HOSTILE}"],
        [HOSTILE],
        ["1", HOSTILE],
    ],
    ("diff",): [["1", "2", "--all"], ["1", "2", "--json"], ["1"], ["3"], [HOSTILE, HOSTILE], ["1", "3"]],
    ("report",): [["--since", str(SINCE.date())], ["--since", str(SINCE.date()), "--html"], ["--job", HOSTILE]],
    ("streams",): [[], ["--json"], ["--job", HOSTILE], ["--since", HOSTILE]],
    ("gate",): [[HOSTILE, HOSTILE], [f"/nowhere/{HOSTILE}", "/x"], ["/x", "/x", "--job", HOSTILE]],
    ("regressions",): [["--since", str(SINCE.date())], ["--since", str(SINCE.date()), "--json"], ["--job", HOSTILE]],
    ("docs",): [[], ["runbook"], ["findings#spill"], [HOSTILE], [f"sql#{HOSTILE}"]],
    ("skill",): [[], [HOSTILE]],
    ("mcp",): [["--http", "--token-file", HOSTILE], ["--port", HOSTILE]],
    ("completions",): [["bash"], [HOSTILE]],
    ("doctor",): [[], ["--json"], ["--application", HOSTILE], ["--url", f"http://{HOSTILE}"], ["--ca-file", HOSTILE]],
    ("db", "upgrade"): [[], ["--database-url", f"postgresql://x:y@localhost:1/{HOSTILE}"]],
    ("db", "prune"): [["--keep", "30d", "--dry-run", "--misdated"], ["--keep", HOSTILE]],
    ("db", "url"): [["--data", f"/nowhere/{HOSTILE}"], ["--database-url", HOSTILE]],
    ("db", "shell"): [["--database-url", f"postgresql://x:y@localhost:1/{HOSTILE}"]],
    ("ui",): [["--url", HOSTILE], ["--port", HOSTILE]],
    ("db", "status"): [["--data", f"/nowhere/{HOSTILE}"]],
    ("db", "stop"): [["--data", f"/nowhere/{HOSTILE}"]],
    ("db", "grant-reader"): [[f"reader {HOSTILE}"]],
    ("listener-jar",): [[], ["--conf"]],
    ("ship",): [[HOSTILE], ["/", "--url", HOSTILE], ["/", "--timeout", HOSTILE]],
    ("serve",): [["--token-file", HOSTILE], ["--finding-threshold", HOSTILE], ["--host", HOSTILE]],
    ("dashboards", "push"): [["--url", HOSTILE, "--token-file", HOSTILE]],
    ("dashboards", "export"): [[f"/dev/null/{HOSTILE}"]],
    # More of these below
    ("export",): [["--to", "/x", "--since", HOSTILE]],
    ("rollup",): [["--keep", HOSTILE]],
    ("backfill",): [["--split", HOSTILE, "/x"]],
    ("open",): [[f"/nowhere/{HOSTILE}"], [f"s3a:/{HOSTILE}"], [f"http://{HOSTILE}"], ["/x", "--port", HOSTILE]],
    ("demo",): [["--port", HOSTILE]],
}
WITH_SPARK: Runs = {
    ("backfill",): [[f"/nowhere/{HOSTILE}"]],
    ("export",): [["--to", "/dev/null", "--table", HOSTILE], ["--to", f"no such:{HOSTILE}", "--table", "application"]],
    ("rollup",): [["--from", f"/nowhere/{HOSTILE}", "--since", "2026-11-20"]],
}


def test_every_command_is_run_here() -> None:
    """A new command has its place in the table above."""
    assert RUNS.keys() == leaves().keys()


@pytest.mark.parametrize("path", RUNS, ids=" ".join)
def test_no_command_prints_what_commands_a_terminal(run: Run, url: str, path: tuple[str, ...]) -> None:
    """Stored texts and arguments are escaped in all formats, with and without colours."""
    assert_harmless(run, url, path, [*RUNS[path], ["--help"], [f"--{HOSTILE}"]])


@pytest.fixture(scope="module")
def java() -> Iterator[None]:
    """Ends what the commands leave of Spark in this process."""
    yield
    from pyspark import SparkContext

    if SparkContext._active_spark_context:
        SparkContext._active_spark_context.stop()
    end_java()


@pytest.mark.spark
@pytest.mark.usefixtures("java")
@pytest.mark.matrix
@pytest.mark.parametrize("path", WITH_SPARK, ids=" ".join)
def test_no_command_with_spark_does(run: Run, url: str, path: tuple[str, ...]) -> None:
    """Spark's errors about hostile names are escaped, too."""
    assert_harmless(run, url, path, WITH_SPARK[path])


def assert_harmless(run: Run, url: str, path: tuple[str, ...], runs: list[list[str]]) -> None:
    shown = ""
    for arguments in runs:
        for colours in ({}, {"FORCE_COLOR": "1"}):
            ran = run(*path, *arguments, JOINSIGHT_DATABASE_URL=url, COLUMNS="300", **colours)
            for output in (ran.out, ran.err):
                assert not harmful(_OWN.sub("", output) if colours else output), (arguments, output)
            shown += ran.out + ran.err
    assert r"\x1b" in shown or r"\u001b" in shown or path == ("db", "shell")  # which passes its arguments on to psql


def test_json_decodes_to_what_is_stored(run: Run, url: str) -> None:
    ran = run("queries", "--json", JOINSIGHT_DATABASE_URL=url)
    assert ran.code == 0
    for line in ran.out.splitlines():
        assert json.loads(line)["description"].endswith(HOSTILE)


def test_columns_stay_below_each_other(run: Run, url: str) -> None:
    """Columns stay aligned, by the width of the escaped text."""
    ran = run("queries", JOINSIGHT_DATABASE_URL=url, COLUMNS="300")
    header, *rows = [line for line in ran.out.splitlines() if not line.startswith("Application")]
    assert rows and SEEN in rows[0]
    assert {row.index("  2") + 2 for row in rows} == {header.index("started")}


def test_a_traceback_is_made_visible(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes internal errors, and output and warnings of libraries."""

    def fault() -> None:
        print(HOSTILE)
        click.echo(HOSTILE, err=True)
        logging.getLogger("any").warning(HOSTILE)
        sys.excepthook(ValueError, ValueError(HOSTILE), None)
        with console.progress() as bar:
            bar.add_task(HOSTILE)
            print(HOSTILE)
        console.console().print(HOSTILE, RichText(HOSTILE), f"[red]{HOSTILE}[/red]")

    command = click.Command("fault", callback=fault)
    monkeypatch.setitem(cli.commands, "fault", command)
    for colours in ({}, {"FORCE_COLOR": "1", "COLUMNS": "300"}):
        ran = run("fault", **colours)
        for output in (ran.out, ran.err):
            assert not harmful(_OWN.sub("", output) if colours else output), output
            assert SEEN in output
    assert "ValueError" in ran.err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_log_shows_what_senders_wrote_on_one_line(engine: Engine, form: str) -> None:
    database = engine.url.render_as_string(hide_password=False)
    environment = {"PYTHONIOENCODING": "utf-8"}
    with service(database, environment=environment, patch=_FORMAT if form == "text" else "") as running:
        bad = as_line(execution(application_id=f"app {HOSTILE}\n")).replace(b'"sequence":1', b'"sequence":"x"')
        assert post(running.url, request(bad)).status_code == 400
    [line] = [line for line in running.lines if "document refused" in line]
    assert not harmful(line)


_FORMAT = """
from joinsight.serve import logs
made = logs.JsonFormatter()
class Both(logs.TextFormatter):
    def format(self, record):
        return made.format(record) if record.getMessage() == "collecting" else super().format(record)
logs.JsonFormatter = Both
"""


def test_nothing_writes_but_through_the_one_place() -> None:
    """No module but `terminal/console` makes a console, takes a stream behind it or writes JSON by itself.

    What is printed in any other way goes through the guard, which `main` sets first of all.
    """
    package = Path(joinsight.__file__).parent
    for path in sorted(package.rglob("*.py")):
        where = path.relative_to(package)
        if where == Path("terminal/console.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            used = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            taken = node.module if isinstance(node, ast.ImportFrom) else ""
            assert taken not in ("rich", "rich.progress", "rich.live", "rich.logging", "rich.traceback"), where
            assert name != "Console", where
            assert used not in ("sys.__stdout__", "sys.__stderr__"), where
            assert not used.endswith((".stdout.buffer", ".stderr.buffer")), where
            assert not (
                name in ("json.dumps", "os.write")
                and where.parts[0] in ("cli", "terminal")
                and where.name != "escaping.py"
            ), where
    body = ast.parse((package / "cli/__init__.py").read_text()).body
    [its] = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "main"]
    assert ast.unparse(its.body[1]) == "guard()"


def test_a_text_is_written_in_a_notebook_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """There rich would show what is printed to a text, and leave the text empty."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    written = io.StringIO()
    console.text_console(written).print("plan")
    assert written.getvalue() == "plan\n"
