"""Output on real terminals of several widths."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tests.cli.test_read import SKEWED
from tests.documents import application, execution, planned

from joinsight.store.writer import Writer

PROGRAM = Path(__file__).parent / "programs" / "several.py"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(columns: int, *commands: str, **environment: str) -> str:
    """What these commands write to a terminal of this width."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "TERM")}
    command = [sys.executable, str(PROGRAM), ";".join(commands)]
    environment = {**variables, "TERM": "xterm", **environment}
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        written = b""
        try:
            while part := os.read(ours, 65536):
                written += part
        except OSError:  # how Linux says that the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return written.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def url(engine: Engine) -> str:
    """A store with a plan and two jobs."""
    long = execution(execution_id=2, sequence=3, job_name="other job", description="a long description " * 20)
    Writer(engine).write([application(), planned(SKEWED, execution_id=1, sequence=2), long])
    return engine.url.render_as_string(hide_password=False)


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_lines_fit_the_terminal(url: str, columns: int) -> None:
    """Texts are cut, and columns are left out where the terminal is narrow; a wide one shows more."""
    shown = on_a_terminal(
        columns, "queries", "shuffles --limit 1", "joins", "plan 1", "cost 1", JOINSIGHT_DATABASE_URL=url
    )
    assert shown.count("exit 0") == 5
    lines = _COLOUR.sub("", shown).splitlines()
    assert max(map(len, lines)) <= columns, shown
    assert ("too narrow for: operator, type, left rows" in shown) == (columns == 60)
    assert ("other job" in shown) == (columns > 60)
    assert ("a long description " * 3 in shown) == (columns == 200)


def test_colours_can_be_switched_off(url: str) -> None:
    """With NO_COLOR, the output is plain text."""
    assert _COLOUR.search(on_a_terminal(100, "queries", JOINSIGHT_DATABASE_URL=url))
    plain = on_a_terminal(100, "queries", "plan 1", JOINSIGHT_DATABASE_URL=url, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3\dm", plain)
