"""Where the data is: folders without a database, an empty database, and output that cannot be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tests.commands import leaves

from joinsight.base.errors import ConfigurationError
from joinsight.cli import cli

CREATING = {("serve",), ("demo",), ("backfill",), ("open",), ("db", "upgrade")}
ARGUMENTS = {
    ("plan",): ["last"],
    ("cost",): ["last"],
    ("verdict",): ["last"],
    ("export-html",): ["last"],
    ("keys",): ["last", "3"],
    ("diff",): ["last"],
    ("why",): ["last"],
    ("what-if",): ["last", "--slots", "4"],
    ("db", "prune"): ["--keep", "400d"],
    ("db", "grant-reader"): ["reader"],
    ("export",): ["--to", "/nowhere"],
}
WITH_DATA = [path for path, command in leaves().items() if any("--data" in each.opts for each in command.params)]
READING = [
    path
    for path in WITH_DATA
    if path not in CREATING and path not in {("db", "status"), ("db", "stop"), ("db", "url"), ("ui",)}
]


@pytest.fixture(autouse=True)
def without_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server is configured, and the default folder is a new one."""
    monkeypatch.delenv("JOINSIGHT_DATABASE_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "default"))


@pytest.mark.parametrize("path", READING, ids=" ".join)
def test_a_wrong_folder_is_an_error(path: tuple[str, ...], tmp_path: Path) -> None:
    """Only commands that write the first data create a database; all others name these and leave the disk alone."""
    typo = tmp_path / "typo"
    result = CliRunner().invoke(cli, [*path, *ARGUMENTS.get(path, []), "--data", str(typo)])
    assert isinstance(result.exception, ConfigurationError)
    creating = "`joinsight demo`, `serve`, `backfill` and `db upgrade` create one"
    assert str(result.exception) == f"--data='{typo}': no database in this folder. {creating}."
    result = CliRunner().invoke(cli, [*path, *ARGUMENTS.get(path, [])])
    assert result.exit_code == 1
    shown = " ".join(f"{result.exception} {result.output}".split())  # `doctor` has it among its checks
    assert f"No database yet in {tmp_path / 'default' / 'joinsight'}. {creating};" in shown
    assert list(tmp_path.iterdir()) == []


def test_an_upgrade_creates_a_database(tmp_path: Path) -> None:
    """`joinsight db upgrade` creates the folder and the database, in which other commands find nothing yet."""
    data = ["--data", str(tmp_path / "new")]
    assert CliRunner().invoke(cli, ["db", "status", *data]).output == f"{tmp_path / 'new'}: no database\n"
    assert CliRunner().invoke(cli, ["db", "upgrade", *data]).exit_code == 0
    assert CliRunner().invoke(cli, ["queries", *data]).exit_code == 0
    assert CliRunner().invoke(cli, ["db", "status", *data]).output == f"{tmp_path / 'new'}: not running\n"


@pytest.mark.parametrize("arguments", [["docs", "sql"], ["docs"], ["--help"]], ids=" ".join)
def test_a_full_disk_is_an_error(arguments: list[str]) -> None:
    """The cause is named, without a traceback."""
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "joinsight.cli", *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ran.returncode, ran.stderr) == (1, "joinsight: the output cannot be written: No space left on device\n")


def test_a_reader_may_close_the_pipe() -> None:
    """As `head` does: no traceback."""
    command = f"{sys.executable} -m joinsight.cli docs sql | true; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True)
    assert ran.returncode in (0, 1)
    assert ran.stderr == ""


def test_a_closed_output_is_no_error() -> None:
    """Nothing is written then, and nothing fails."""
    ran = subprocess.run(["sh", "-c", f"{sys.executable} -m joinsight.cli docs >&-"], stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_an_empty_database_says_what_to_do(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """How executions come into it; with `--json` too, on stderr."""
    monkeypatch.setenv("JOINSIGHT_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    for arguments in (["queries"], ["joins", "--json"], ["findings", "--severity", "critical"]):
        result = CliRunner().invoke(cli, arguments)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "No executions are stored yet. `joinsight demo` runs an example" in result.stderr
    result = CliRunner().invoke(cli, ["plan", "last"])
    assert "No executions are stored yet." in str(result.exception)
