"""The line of the user's code that started an execution, ``sales.py:42``, from Spark's call sites.

The short call site is the description where the job set none, ``collect at Sales.scala:12``. The long one lists what
called what, innermost first: lines of Python, ``count at /jobs/sales.py:42`` (`driver.call_sites`), or the JVM's
frames, of which the second is the first one outside Spark.
"""

from __future__ import annotations

import re

_READ = 4_000  # characters of a text
SHORT_CALL_SITE = re.compile(r"(?P<action>\S+) at (?P<file><[^>\n]*>|[^\n]*\.\w{1,8}):(?P<line>\d+)")
_FRAME = re.compile(r"[^(\n]*\((?P<file><[^>\n]*>|[\w$.-]+\.\w{1,8}):(?P<line>\d+)\)")
_CELL = re.compile(r"<ipython-input-[^>]*>|.*[/\\]ipykernel_\d+[/\\]\d+\.py")
# A generated class has no file: Java makes one of a method that is called often by reflection, as PySpark's are
_OF_JVM = re.compile(
    r"<unknown>|(?:\w*Method\w*Accessor\w*|Method|Thread|ThreadPoolExecutor|Executors|FutureTask|ForkJoin\w+|CompletableFuture)\.java"
)


def called_from(description: str, call_site: str) -> str | None:
    """The file's name without its folder, and the line; ``<cell>`` for a notebook's cell. None where unknown."""
    short = SHORT_CALL_SITE.fullmatch(description[:_READ].strip())
    lines = call_site[:_READ].split("\n", 2)
    frame = _FRAME.fullmatch(lines[1].strip()) if len(lines) > 1 else None
    for found in (short, SHORT_CALL_SITE.fullmatch(lines[0].strip()), frame):
        if found and (name := _name(found["file"])):
            return f"{name}:{found['line']}"
    return None


def _name(file: str) -> str | None:
    if _CELL.fullmatch(file):
        return "<cell>"
    name = re.split(r"[/\\]", file)[-1]
    return None if _OF_JVM.fullmatch(name) else name
