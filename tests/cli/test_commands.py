"""The table of commands: what each imports, its summary, completion, and how the help reads."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner
from tests.commands import commands

import joinsight.cli
from joinsight.cli import cli, main

HEAVY = {"alembic", "httpx", "jinja2", "msgspec", "prometheus_client", "psycopg", "pyspark", "rich", "sqlalchemy"}
HEAVY |= {"mcp", "starlette", "uvicorn"}


def imported(*arguments: str, **environment: str) -> tuple[set[str], str]:
    """The top-level modules that a command imports, Joinsight's own with their path; and what it prints."""
    program = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
    program += "from joinsight.cli import main; sys.argv[0] = 'joinsight'; main()"
    command = [sys.executable, "-c", program, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return {name if name.startswith("joinsight") else name.partition(".")[0] for name in ran.stderr.split()}, ran.stdout


COMPLETE = {"_JOINSIGHT_COMPLETE": "bash_complete", "COMP_WORDS": "joinsight que", "COMP_CWORD": "1"}


@pytest.mark.parametrize(("arguments", "environment"), [(["--help"], {}), (["--version"], {}), ([], COMPLETE)])
def test_help_and_completion_import_no_command(arguments: list[str], environment: dict[str, str]) -> None:
    """What lists the commands imports none of them, and no package but click."""
    modules, shown = imported(*arguments, **environment)
    assert shown == "plain,queries\n" if environment else shown
    assert not modules & HEAVY
    assert {name for name in modules if name.startswith("joinsight.cli.")} == set()


@pytest.mark.parametrize("limit", [RuntimeError("can't start new thread"), MemoryError()])
def test_limits_of_the_machine_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], limit: Exception
) -> None:
    """As under `ulimit -v` or in a container; no traceback."""

    def exhausted() -> None:
        raise limit

    monkeypatch.setattr(joinsight.cli, "cli", exhausted)
    with pytest.raises(SystemExit, match="1"):
        main()
    assert "too little memory, or there are too many threads" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("listener-jar", set()),
        ("docs", {"rich"}),
        ("dashboards", set()),
        ("export", set()),
        ("rollup", set()),
        *((name, {"msgspec"}) for name in ("queries", "joins", "shuffles", "broadcasts", "findings", "plan")),
        ("regressions", {"msgspec"}),
        ("ship", {"httpx", "msgspec", "rich"}),
        ("backfill", {"rich", "msgspec"}),
        ("diff", {"alembic", "psycopg", "rich", "sqlalchemy", "msgspec"}),
    ],
)
def test_a_command_imports_what_it_uses(command: str, allowed: set[str]) -> None:
    """The help of a command does not import what belongs to others."""
    modules, _ = imported(command, "--help")
    assert modules & HEAVY <= allowed
    assert "joinsight.serve.app" not in modules


def test_each_summary_begins_the_help_of_its_command() -> None:
    listed = CliRunner().invoke(cli, ["--help"], terminal_width=100).output
    for path, command in commands().items():
        first = (command.help or "").partition("\n\n")[0].replace("\n", " ")
        assert first, path
        if len(path) == 1:
            [line] = [line for line in listed.splitlines() if line.split()[:1] == [path[0]]]
            assert first.startswith(line.split(None, 1)[1]), path


@pytest.mark.parametrize("width", [80, 100])
def test_help_fits_a_terminal(width: int) -> None:
    """No line of any help is wider than the terminal, and no option leaves its text a narrow column."""
    for path in [(), *commands()]:
        shown = CliRunner().invoke(cli, [*path, "--help"], terminal_width=width)
        assert shown.exit_code == 0, path
        assert max(map(len, shown.output.splitlines())) <= width, path
        assert not re.search(r"^  \S+ +.*\.\.\.$", shown.output.partition("Commands:")[2], re.MULTILINE), path


def test_help_uses_the_width_of_the_terminal() -> None:
    """The help is as wide as the terminal, 100 columns at most."""
    widths = {}
    for columns in (60, 90, 200):
        _, shown = imported("ship", "--help", COLUMNS=str(columns))
        widths[columns] = max(map(len, shown.splitlines()))
    assert widths[60] <= 60 < widths[90] <= 90 < widths[200] <= 100


def test_an_unknown_command_is_an_error() -> None:
    """A mistyped name is answered with the ones that are alike."""
    result = CliRunner().invoke(cli, ["quries"])
    assert result.exit_code == 2
    assert "No such command 'quries'" in result.output
    assert "Did you mean queries?" in result.output


def test_no_help_begins_with_where_the_data_are() -> None:
    """What selects the database, and what few need, have sections of their own, below all other options."""
    for path, command in commands().items():
        shown = CliRunner().invoke(cli, [*path, "--help"], terminal_width=100).output
        if any(getattr(param, "section", "") == "Database" for param in command.params):
            assert shown.index("\nOptions:\n") < shown.index("\nDatabase:\n") < shown.index("\n  --data "), path
    regressions = CliRunner().invoke(cli, ["regressions", "--help"]).output
    assert regressions.index("--job ") < regressions.index("Expert options:") < regressions.index("--mads ")
