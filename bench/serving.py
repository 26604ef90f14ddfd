"""A collector that benchmarks send documents to, and what its processes take."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from joinsight.contract.decode import HEADERS
from joinsight.serve.tokens import TOKEN_VARIABLE

_TICKS = os.sysconf("SC_CLK_TCK")
TOKEN = "a-token-of-this-benchmark"
SENT = {"Authorization": f"Bearer {TOKEN}", **HEADERS}
"""The headers of a request with documents."""


@dataclass(frozen=True)
class Collector:
    """A collector that runs, with an embedded PostgreSQL in `folder`."""

    pid: int
    port: int
    folder: Path


@contextmanager
def serving(folder: Path, writers: int = 0, tokens: str = TOKEN) -> Iterator[Collector]:
    """``joinsight serve`` with data and log in this folder; it asks for the token in `TOKEN`, or has these lines."""
    data, log = folder / "data", folder / "log"
    command = [sys.executable, "-c", "from joinsight.cli import main; main()", "serve", "--port", "0"]
    with log.open("w") as output:
        environment = {**os.environ, TOKEN_VARIABLE: tokens}
        process = subprocess.Popen(
            [*command, "--data", str(data), "--log-format", "json", "--writers", str(writers)],
            stderr=output,
            env=environment,
        )
    try:
        while not (listening := [line for line in log.read_text().splitlines() if '"collecting"' in line]):
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield Collector(process.pid, int(json.loads(listening[0])["url"].rpartition(":")[2]), data)
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU seconds that these processes and their ended children have taken."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def memory_mb(pid: int) -> int:
    """Resident memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) >> 10 if found else 0


def shared_memory_mb(pids: Iterable[int]) -> int:
    """Resident memory of these processes; pages that several of them share count once."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError):
            found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
            total += int(found[1]) if found else 0
    return total >> 10


def with_children(pid: int) -> list[int]:
    """A process and its children."""
    return [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def postgres_pids(folder: Path) -> list[int]:
    """The processes of the PostgreSQL in this folder."""
    (pid_file,) = folder.rglob("postmaster.pid")
    return with_children(int(pid_file.read_text().split()[0]))
