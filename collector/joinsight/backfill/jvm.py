"""A JVM that reads event logs on local disks: the listener's jar with Spark's own jars, without a Spark context."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from joinsight.attach import listener_jar
from joinsight.errors import JoinsightError

OUTCOME = b'{"kind":"log"'
"""The beginning of the last line of a log."""
_READER = "io.joinsight.EventLogReader"
# Nobody reads Java's log output here, and log4j takes half a second to load
_OPTIONS: tuple[str, ...] = ("-XX:+UseSerialGC", "-Xms64m", "-Xmx2g", "-Xss4m", "-Dfile.encoding=UTF-8")
_OPTIONS += ("-Dslf4j.provider=org.slf4j.helpers.NOP_FallbackServiceProvider",)
_SMALL = 2 << 30
"""Bytes of events below which the JVM's optimizing compiler costs more CPU than it saves (docs/benchmarks.md)."""


class Reader:
    """A context manager; `read` may be called repeatedly. `size`: approximate bytes of events that it will read.

    Raises `JoinsightError` if Java is not installed.
    """

    def __init__(self, size: int = 0) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        options = (*_OPTIONS, "-XX:TieredStopAtLevel=1") if size < _SMALL else _OPTIONS
        path = os.pathsep.join(map(str, (listener_jar(), spark_jars() / "*")))
        try:
            self._java = subprocess.Popen(
                [_java(), *options, "-cp", path, _READER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
        except OSError as error:
            self._errors.close()
            raise JoinsightError(f"Reading event logs needs Java, on PATH or in JAVA_HOME: {error}") from None

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._java.kill()
        self._java.communicate()
        self._errors.close()

    def read(self, logs: Sequence[dict[str, Any]]) -> Iterator[bytes]:
        """Yield the lines of each log: its documents, then its outcome. `logs` are requests to `EventLogReader`.

        Raises `JoinsightError` if the JVM ends before it has read all logs.
        """
        for number, log in enumerate(logs):
            if number == 0:
                self._ask(log)
            if number + 1 < len(logs):  # Java reads the next log while this one is written
                self._ask(logs[number + 1])
            line = b""
            while not line.startswith(OUTCOME):
                assert self._java.stdout
                line = self._java.stdout.readline()
                if not line.endswith(b"\n"):
                    raise self._ended()
                yield line

    def _ask(self, log: dict[str, Any]) -> None:
        assert self._java.stdin
        try:
            self._java.stdin.write(json.dumps(log).encode() + b"\n")
            self._java.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _ended(self) -> JoinsightError:
        code = self._java.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = [line for line in lines if line.strip() and not line.startswith("SLF4J")]
        why = said[0] if said else "no output"
        return JoinsightError(f"The JVM that reads event logs ended with exit code {code}: {why}")


def spark_jars() -> Path:
    """The folder of Spark's jars: in SPARK_HOME, or else in the installed PySpark, which is not imported."""
    home = os.environ.get("SPARK_HOME")
    spec = None if home else importlib.util.find_spec("pyspark")
    folder = Path(home) if home else Path(spec.origin).parent if spec and spec.origin else None
    if folder is None or not (folder / "jars").is_dir():
        raise JoinsightError("Reading event logs needs Spark's jars: pip install 'joinsight[spark]'")
    return folder / "jars"


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"
