"""Processes with a warm Spark: each runs the scripts of many tests, one after another, in one JVM.

Most of a short job's CPU is the start of Python, the JVM and Spark's classes: the same script took 14 s of CPU in a
process of its own and 2.5 s in a JVM that had run another. A script gets SparkContexts of its own, as a cell of a
notebook does after `spark.stop()`. Whatever is about a new process (attaching, the end of a driver, crashes) is tested
in new processes.

As a program, with the PySpark of any version: ``python spark_process.py FOLDER JAR`` answers requests on its standard
input, a line of JSON each. Scripts write to FOLDER/out and FOLDER/err, and so does the JVM.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

JOBS = Path(__file__).parent / "spark" / "jobs"
"""Scripts of tests, each as a user would write it."""
KEPT = 2
"""How many versions of Spark a process of the test run keeps at once, for 0.5 GB each."""


class SparkProcess:
    """A process with one JVM, for the Spark that a Python with these environment variables finds."""

    def __init__(self, environment: Mapping[str, str], folder: Path, jar: Path) -> None:
        self._folder = folder
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, str(folder), str(jar)]
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)

    def run(self, script: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a script as `python SCRIPT ARGUMENT...` would. Raises ``RuntimeError`` if the process ends meanwhile."""
        assert self._process.stdin and self._process.stdout
        before = {name: self._size(name) for name in ("out", "err")}
        request = {"arguments": [str(script), *arguments], "cwd": str(cwd or Path.cwd())}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        out, err = ((self._folder / name).read_bytes()[at:].decode() for name, at in before.items())
        if not answer:
            raise RuntimeError(f"the process of Spark has ended:\n{err[-5000:]}")
        return subprocess.CompletedProcess([str(script), *arguments], json.loads(answer), out, err)

    def close(self) -> None:
        """End it and its JVM."""
        self._process.communicate()

    def kill(self) -> None:
        """End it, whatever it does; its JVM ends with its standard input."""
        self._process.kill()
        self._process.communicate()

    def _size(self, name: str) -> int:
        path = self._folder / name
        return path.stat().st_size if path.exists() else 0


class SparkRun:
    """Runs scripts in the process of their version of Spark, which is started when a test first asks for it."""

    def __init__(self, environment: Callable[[str], dict[str, str]], folder: Callable[[str], Path], jar: Path) -> None:
        self._environment, self._folder, self._jar = environment, folder, jar
        self._processes: dict[str, SparkProcess] = {}

    def alone(
        self, version: str, script: Path, *arguments: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script in a process of its own, which must succeed."""
        command = [sys.executable, str(script), *arguments]
        environment = self._environment(version)
        return _succeeded(subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True))

    def __call__(
        self, version: str, script: Path, *arguments: str, cwd: Path | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run a script, which must exit with this code, in the process of this version of Spark."""
        process = self._processes.pop(version, None)
        if process is None:
            while len(self._processes) >= KEPT:
                self._processes.pop(next(iter(self._processes))).close()
            process = SparkProcess(self._environment(version), self._folder(f"spark-{version}"), self._jar)
        try:
            done = process.run(script, *arguments, cwd=cwd)
        except BaseException:  # a timeout, too: the script may never end
            process.kill()
            raise
        self._processes[version] = process  # the last one used is the last one to go
        return _succeeded(done, code)

    def close(self) -> None:
        """End all."""
        for process in self._processes.values():
            process.close()


def _succeeded(done: subprocess.CompletedProcess[str], code: int = 0) -> subprocess.CompletedProcess[str]:
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-6000:]
    return done


def serve(folder: Path, jar: str) -> None:
    """Answer requests until standard input ends."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    redirect(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        redirect(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)

    from pyspark import SparkConf, SparkContext

    # What the JVM is started with holds for all its contexts: only the class path
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).set("spark.driver.extraClassPath", jar))
    for line in requests:
        print(json.dumps(run(**json.loads(line))), file=answers)
    gateway: Any = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def redirect(source: int, target: int) -> None:
    os.dup2(source, target)
    os.close(source)


def run(arguments: list[str], cwd: str) -> int:
    """Run a script in this process; returns the exit code that Python would have had."""
    from pyspark import SparkContext

    log4j: Any = SparkContext._jvm.org.apache.logging.log4j  # whose level is the JVM's, not the context's
    log4j.core.config.Configurator.setRootLevel(log4j.Level.WARN)
    before = dict(os.environ)
    os.chdir(cwd)
    sys.argv[:] = arguments
    path = list(sys.path)
    sys.path.insert(0, str(Path(arguments[0]).parent))
    code = 0
    try:
        with warnings.catch_warnings():
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(before)
        context: Any = SparkContext._active_spark_context
        if context is not None:
            context.stop()
        sys.stdout.flush()
        sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2])
