"""A JVM that reads event logs on local disks: the listener's jar with Spark's own jars, without a Spark context."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.driver.attach import listener_jar

OUTCOME = b'{"kind":"log"'
"""The beginning of the last line of a log."""
_READER = "io.joinsight.eventlog.EventLogReader"
_READY = b"ready\n"
"""The first line of a JVM that works."""
# Nobody reads Java's log output here, and log4j takes half a second to load
_OPTIONS: tuple[str, ...] = ("-XX:+UseSerialGC", "-Xms64m", "-Xmx2g", "-Xss4m", "-Dfile.encoding=UTF-8")
_OPTIONS += ("-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider",)
_SMALL = 2 << 30
"""Bytes of events below which the JVM's optimizing compiler costs more CPU than it saves (docs/decisions/012)."""


class Reader:
    """A context manager; `read` may be called repeatedly. `size`: approximate bytes of events that it will read.

    Raises `ConfigurationError` if Java is not installed, `JoinsightError` if it does not work.
    """

    def __init__(self, size: int = 0) -> None:
        options = (*_OPTIONS, "-XX:TieredStopAtLevel=1") if size < _SMALL else _OPTIONS
        path = os.pathsep.join(map(str, (listener_jar(), spark_jars() / "*")))
        self._command = [find_java(), *options, "-cp", path, _READER]
        self._start()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._is_ready = False
        try:
            self._java = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
            )
        except OSError as error:
            self._errors.close()
            raise JoinsightError(f"Java cannot be started: {error}") from None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._java.kill()
        assert self._java.stdin and self._java.stdout
        with suppress(BrokenPipeError):  # of a request that it did not read
            self._java.stdin.close()
        self._java.stdout.close()
        self._java.wait()
        self._errors.close()

    def read(self, logs: Sequence[dict[str, Any]]) -> Iterator[bytes]:
        """Yield the lines of each log: its documents, then its outcome. `logs` are requests to `EventLogReader`.

        If the JVM ends, the log that it was reading has failed, and another JVM reads the rest. Raises
        `JoinsightError` if a JVM does not start.
        """
        done = 0
        while done < len(logs):
            for line in self._lines(logs[done:]):
                done += line.startswith(OUTCOME)
                yield line
            if done < len(logs):
                done += 1
                yield _failure(f"{self._ended()} while it read this log")
                self._end()
                self._start()

    def _lines(self, logs: Sequence[dict[str, Any]]) -> Iterator[bytes]:
        """The lines of these logs, in which the JVM may end."""
        assert self._java.stdout
        if not self._is_ready and self._java.stdout.readline() != _READY:
            raise JoinsightError(self._ended())
        self._is_ready = True
        # The JVM reads the next request when it has written the documents of a log, which waits for their reader
        asking = threading.Thread(target=_ask, args=(self._java.stdin, logs), name="requests", daemon=True)
        asking.start()
        left = len(logs)
        while left:
            line = self._java.stdout.readline()
            if not line.endswith(b"\n"):
                break
            left -= line.startswith(OUTCOME)
            yield line
        asking.join()

    def _ended(self) -> str:
        code = self._java.wait()
        if code < 0:
            return f"The JVM that reads event logs was killed by {signal.Signals(-code).name}"
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = [line for line in lines if line.strip() and not line.startswith("SLF4J")]
        why = said[0] if said else "no output"
        return f"The JVM that reads event logs ended with exit code {code}: {why}"


def _ask(target: IO[bytes], logs: Sequence[dict[str, Any]]) -> None:
    with suppress(BrokenPipeError, ValueError):  # the JVM has ended, or was closed
        for log in logs:
            target.write(json.dumps(log).encode() + b"\n")
            target.flush()


def _failure(problem: str) -> bytes:
    """The outcome of a log that was not read to its end, and may be the next time."""
    outcome = {"kind": "log", "lines": 0, "bytes": 0, "problems": [problem], "failed": True}
    return json.dumps(outcome, separators=(",", ":")).encode() + b"\n"


def spark_jars() -> Path:
    """The folder of Spark's jars: in SPARK_HOME, or else in the installed PySpark, which is not imported."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else importlib.util.find_spec("pyspark")
    folder = Path(home) if home else Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "jars").is_dir():
        raise JoinsightError("Reading event logs needs Spark's jars: pip install 'joinsight[spark]'")
    return folder / "jars"


def find_java() -> str:
    """The path of the program, in JAVA_HOME or else on PATH. Raises `ConfigurationError` if there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        problem = "it has no bin/java" if home else "Java is not installed; Spark and its event logs need it"
        remedy = (
            "Install 17 or later (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)."
        )
        raise ConfigurationError("JAVA_HOME", home, problem, remedy)
    return found
