"""Repeats every benchmark with small sizes: ``python -m bench --help``.

One after the other, each as a process of its own. The output is printed and written to a file for each in build/bench,
below the date, the machine, its load, and the versions of what is measured. A benchmark is ended after `--minutes`, and
the others run: by default all take less than three hours. Sizes are small, for a look at each number: what
docs/benchmarks.md publishes takes the sizes that it names.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from threading import Timer

from joinsight.store.embedded import find_binaries

ROOT = Path(__file__).parents[1]
BENCHMARKS = {
    "ingestion": "--documents 200",
    "company": "--drivers 200 --rate 28 167 --seconds 20 20 --writers 2",
    "busy_hour": "--minutes 2",
    "storage": "--executions 200",
    "queries": "--rows 100000 --runs 5",
    "backfill": "--tasks 6000 --queries 100 --passes 1 --rounds 2",
    "open_log": "--rounds 3",
    "overhead": "--tasks 4000 --queries 30 --rounds 4 --memory 2g",
    "crowd": "--rounds 2",
    "sampler": "--rounds 3 --queries 2",
    "task_time": "--rounds 0 --scale 0.02",
    "savings": "--rows 400000 --rounds 2",
    "replay": "--scale 0.05 --queries 6",
    "cost": "--rounds 1 --least 1 --most 1",
    "what_if": "--rounds 1",
    "golden": "--processes 1 --sessions 2 --mutants 20 --pairs 20",
    "long_life": "executions --executions 1000",
    "why": "--sizes 1 --rounds 1 --minutes 9",
    "alarms": "--weeks 500 --changes 20 --otava-weeks 50 --otava-changes 5",
    "keys": "--cases 20",
    "advice": "--queries 3",
    "verdicts": "--only join --sizes small --rounds 1",
}
"""The options of each."""


def machine() -> Iterator[str]:
    """When and where this runs, now."""
    yield f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC, commit {output('git', 'rev-parse', '--short', 'HEAD')}"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GB of memory, load {load}"
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    found = re.search(r'version "(.*?)"', output(java, "-version"))
    postgres = output(find_binaries() / "postgres", "--version").rpartition(" ")[2]
    yield (
        f"Python {platform.python_version()}, Java {found[1] if found else 'unknown'}, Spark {version('pyspark')},"
        f" PostgreSQL {postgres}"
    )


def output(*command: str | Path) -> str:
    """What a command prints, also to stderr; empty if there is no such command."""
    with suppress(FileNotFoundError):
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.stdout.strip()
    return ""


def run(name: str, options: str, folder: Path, minutes: float) -> str:
    """Run a benchmark, ended after some minutes; returns how it ended."""
    command = [sys.executable, "-m", f"bench.{name}", *options.split()]
    started = time.monotonic()
    with (folder / f"{name}.txt").open("w") as file:

        def say(line: str) -> None:
            for each in (file, sys.stdout):
                print(line, file=each, flush=True)

        for line in (*machine(), f"python {' '.join(command[1:])}", ""):
            say(line)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_interruptible,
        )
        # An interrupt lets a benchmark stop its servers
        timers = [
            Timer(60 * minutes + more, os.killpg, (process.pid, how))
            for more, how in ((0, signal.SIGINT), (60, signal.SIGKILL))
        ]
        for timer in timers:
            timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                say(line.rstrip("\n"))
        except BaseException:
            os.killpg(process.pid, signal.SIGINT)
            raise
        finally:
            code = process.wait()
            is_late = not timers[0].is_alive()
            for timer in timers:
                timer.cancel()
        ended = f"ended after {minutes:g} minutes" if is_late else f"exit code {code}" if code else "done"
        say(f"\n{name}: {ended}, {time.monotonic() - started:.0f} s\n")
    return ended


def _interruptible() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells have processes in the background ignore it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ", ".join(BENCHMARKS)
    parser.add_argument("benchmarks", nargs="*", default=[*BENCHMARKS], help=f"of {names} (default: all)")
    parser.add_argument("--minutes", type=float, default=11, help="for each benchmark (default: 11)")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "bench", help="folder (default: build/bench)")
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.benchmarks:
        if name not in BENCHMARKS:
            parser.error(f"no benchmark {name}: choose from {names}")
    ended = {name: run(name, BENCHMARKS[name], options.to, options.minutes) for name in options.benchmarks}
    for name, how in ended.items():
        print(f"{name:<12}{how}")
    print(f"Results: {options.to}")
    sys.exit(any(how != "done" for how in ended.values()))


if __name__ == "__main__":
    main()
