"""The commands as users run them, each in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, text
from tests.history import Planted

pytestmark = [pytest.mark.spark, pytest.mark.matrix]


def run(engine: Engine, *arguments: Any, code: int = 0, more: Mapping[str, str] = {}) -> str:
    """What it prints; or what it says when it fails, among the words of Spark. `more`: of the environment."""
    url = engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-m", "joinsight.cli", *map(str, arguments), "--master", "local[2]"]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {"JOINSIGHT_DATABASE_URL": url, **more}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr[-3000:]
    assert str(engine.url.password) not in done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_day_is_exported_and_rolled_up(engine: Engine, planted: Planted, tmp_path: Path) -> None:
    """Parquet of a day, roll-ups of all days, and roll-ups of Parquet."""
    said = run(engine, "export", "--to", tmp_path, "--table", "joins", "--since", "2026-11-04", "--until", "2026-11-05")
    assert said.startswith("2026-11: ") and " rows of 1 table after " in said
    assert [path.name for path in (tmp_path / "joins").glob("day=*")] == ["day=2026-11-04"]
    said = run(engine, "rollup", "--until", "2026-11-06")
    with engine.connect() as connection:
        days = connection.scalar(text("SELECT count(DISTINCT day) FROM rollup_day WHERE day > '2000-01-01'"))
    assert said.startswith(f"{days} days: ") and said.endswith(" baselines as of 2026-10-30\n")
    assert "total" not in said.partition(";")[2]  # the executions of 1970 are not rolled up to be deleted
    for table in ("execution", "joins", "shuffle", "broadcast"):
        (tmp_path / "before" / table).mkdir(parents=True)  # what Spark writes of no rows
    said = run(engine, "rollup", "--from", tmp_path / "before", "--since", "1999-01-01", "--until", "1999-01-02")
    assert said.startswith("1 day: 0 ")
    said = run(engine, "rollup", "--from", tmp_path / "nowhere", "--since", "2026-11-01", code=1)
    assert "joinsight: Spark reports: [PATH_NOT_FOUND]" in said


def test_tasks_run_in_the_commands_python(engine: Engine, planted: Planted, tmp_path: Path) -> None:
    """Workers use the command's own Python, or the configured one; missing packages are reported."""
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # one without packages
    other.chmod(0o755)
    export = ("export", "--to", tmp_path / "lake", "--table", "application")
    run(engine, *export, more={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    said = run(engine, *export, code=1, more={"PYSPARK_PYTHON": str(other)})
    [line] = [line for line in said.splitlines() if line.startswith("joinsight: ")]
    assert "A Spark task failed: " in line and "No module named" in line and "PYSPARK_PYTHON" in line
