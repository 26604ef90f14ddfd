"""Names the line of the user's Python code in Spark's call sites: ``count at /jobs/sales.py:42``.

Spark's call site of a call from PySpark is Py4J's, ``count at NativeMethodAccessorImpl.java:0``; only `collect` and
its relatives set the user's line. All calls go through Py4J's client. There, those that may run a query get the
user's line as Spark's local properties for the call. Nothing of PySpark's own interface is replaced
(docs/decisions/014-call-sites-in-py4j.md).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

SHORT, LONG = "callSite.short", "callSite.long"

_OF_DATASETS = """
    count isEmpty showString htmlString getRowsToPython collectToPython tailToPython collectAsArrowToPython
    toPythonIterator checkpoint localCheckpoint first head take tail collect
    describe summary approxQuantile corr cov crosstab freqItems bloomFilter countMinSketch pivot
"""
_OF_READERS_AND_WRITERS = """
    load table save saveAsTable insertInto csv jdbc json orc parquet text xml
    create replace createOrReplace append overwrite overwritePartitions merge
"""
_OF_SESSIONS = "sql createTable createExternalTable recoverPartitions refreshTable cacheTable"
_OF_ML = "fit evaluate"
ACTIONS = frozenset(" ".join((_OF_DATASETS, _OF_READERS_AND_WRITERS, _OF_SESSIONS, _OF_ML)).split())
"""Methods of the JVM's objects that may run a query, in any supported version."""

_MAX_LINES = 20
_LIBRARIES = ("pyspark", "py4j", "IPython")
_OF_PYTHON = str(Path(os.__file__).parent) + os.sep
_PACKAGES = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_FROM_JVM = ("NativeMethodAccessorImpl.java:", "DirectMethodHandleAccessor.java:")

_JVM_IS_GONE = "x"  # Py4J's answer then, after it has logged an error

_switch = {"on": False}
_by_pyspark = threading.local()


def install(on: bool = True) -> None:
    """Name the lines from now on, in all sessions of this process; `on=False` ends it. A second call is harmless."""
    from py4j.clientserver import JavaClient  # of the mode in which a Python thread has a JVM thread, PySpark's default

    _switch["on"] = on
    if on and not hasattr(JavaClient.send_command, "_joinsight"):
        JavaClient.send_command = _naming_lines(JavaClient.send_command)


def _naming_lines(send_command: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send_command)
    def send(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        method = _method(command) if _switch["on"] else None
        if method == "setCallSite":
            _remember(command)
        if method not in ACTIONS:
            return send_command(self, command, *args, **kwargs)
        line = _Line()
        answer = None
        try:
            line.set(self, method or "")
            answer = send_command(self, command, *args, **kwargs)
            return answer
        finally:
            if answer != _JVM_IS_GONE:
                line.restore()

    send._joinsight = True  # type: ignore[attr-defined]
    return send


def _method(command: str) -> str | None:
    """The method that a command calls on an object of the JVM: of ``c\\no12\\ncount\\ne\\n``, count."""
    if not command.startswith("c\no"):
        return None
    start = command.find("\n", 3) + 1
    return command[start : command.find("\n", start)]


def _remember(command: str) -> None:
    """Keep the call site that PySpark sets for a `collect`. Under several threads it may fail to remove it, as it
    counts their calls together: it would name the wrong line for what this thread runs next."""
    caller = sys._getframe(3)  # of Py4J's JavaMember
    if caller.f_globals.get("__name__") == "pyspark.traceback_utils":
        _by_pyspark.argument = command.split("\n")[3]


class _Line:
    """The user's line for one call, unless the user has set a call site. Never raises."""

    def __init__(self) -> None:
        self._context: Any = None
        self._before: tuple[str | None, str | None] = (None, None)

    def set(self, client: Any, method: str) -> None:
        """Set it, for a call of Py4J's `JavaMember`."""
        from pyspark import SparkContext

        try:
            context = SparkContext._active_spark_context
            gateway: Any = SparkContext._gateway
            if context is None or gateway is None or gateway._gateway_client is not client:
                return
            java_context: Any = context._jsc
            site = call_site(sys._getframe(2), method)
            short = java_context.getLocalProperty(SHORT)
            if (site is None) if short is None else not _is_machinery(short):
                return
            self._before = (short, None if short is None else java_context.getLocalProperty(LONG))
            self._context = java_context
            self._write(site or (None, None))
        except Exception:  # the call matters, its line does not
            return

    def restore(self) -> None:
        """Set what was set before."""
        if self._context is None:
            return
        try:
            self._write(self._before)
        except Exception:  # the context was stopped by another thread
            return

    def _write(self, site: tuple[str | None, str | None]) -> None:
        for name, value in zip((SHORT, LONG), site, strict=True):
            self._context.setLocalProperty(name, value)


def _is_machinery(short: str) -> bool:
    """Whether no user set this call site: Py4J's own, of a stream's thread, or one of PySpark's for a `collect`."""
    return any(file in short for file in _FROM_JVM) or getattr(_by_pyspark, "argument", None) == _argument(short)


def _argument(text: str) -> str:
    from py4j.protocol import get_command_part

    part: str = get_command_part(text)
    return part.rstrip("\n")


def call_site(frame: FrameType | None, method: str) -> tuple[str, str] | None:
    """The short and the long call site of a call in `frame`: what called what, innermost first, a line each."""
    function = method
    lines: list[str] = []
    while frame is not None and len(lines) < _MAX_LINES:
        code = frame.f_code
        module = frame.f_globals.get("__name__") or ""
        if module == __name__ or module.partition(".")[0] in _LIBRARIES:
            if not lines and not module.startswith("py4j"):
                function = code.co_name
        elif not _is_of_python(code.co_filename):
            lines.append(f"{function} at {code.co_filename}:{frame.f_lineno}")
            function = code.co_name
        frame = frame.f_back
    return (lines[0], "\n".join(lines)) if lines else None


def _is_of_python(file: str) -> bool:
    """Whether a file is Python's own library, such as a thread pool's."""
    if file.startswith("<frozen "):
        return True
    return file.startswith(_OF_PYTHON) and not any(folder in file for folder in _PACKAGES)
