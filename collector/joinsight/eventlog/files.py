"""Which files are event logs, and which files make one log.

Only names decide here, so that the same rules hold on every file system: `log_of_folder` and `log_of_file` take names,
`find` looks at local folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from joinsight.errors import LogError

ROLLING = "eventlog_v2_"
IN_PROGRESS = ".inprogress"
COMPACT = ".compact"
_EVENTS = re.compile(r"events_(\d{1,9})_.+")
_NAME = re.compile(r"(?P<id>application_\d+_\d+|.+?)(?:_(?P<attempt>\d{1,4}))?(?:\.(?:zstd|lz4|snappy|lzf))?")
# What Spark writes; other files in the same folder are left alone unless they are named
_LOG_NAME = re.compile(
    r"(?:application_\d+_\d+|local-\d+|app-\d+-\d+|spark-[0-9a-f]{32})(?:_\d{1,4})?(?:\.(?:zstd|lz4|snappy|lzf))?(?:\.inprogress)?"
)


@dataclass(frozen=True, slots=True)
class Log:
    """The event log of an application attempt: its files in the order in which they are read."""

    path: str
    files: tuple[str, ...]
    """Paths."""
    application_id: str
    """By the log's name; what its events say comes first."""
    attempt_id: str = ""
    is_open: bool = False
    """Its application still runs, or was killed."""
    missing: tuple[int, ...] = ()
    """Numbers of files of a rolling log that are not there."""
    is_compacted: bool = False
    """The History Server removed from it what had ended."""


def log_of_file(path: str) -> Log:
    """The log of a single file."""
    name = path.rstrip("/").rpartition("/")[2]
    application_id, attempt_id = _ids(name.removesuffix(IN_PROGRESS))
    return Log(path, (path,), application_id, attempt_id, is_open=name.endswith(IN_PROGRESS))


def log_of_folder(path: str, names: Iterable[str]) -> Log:
    """The rolling log of a folder that holds files of these names. Raises `LogError` if none of them holds events."""
    path = path.rstrip("/")
    numbered: dict[int, str] = {}
    compacted = 0
    is_open = True  # until its status file says that it is not
    for name in sorted(names):
        if name.startswith("appstatus_"):
            is_open = name.endswith(IN_PROGRESS)
        match = _EVENTS.fullmatch(name)
        if match is None:
            continue
        number = int(match.group(1))
        if name.endswith(COMPACT):
            compacted = max(compacted, number)
        if number not in numbered or name.endswith(COMPACT):
            numbered[number] = name
    # A compacted file replaces those before it
    kept = [number for number in sorted(numbered) if number >= compacted]
    if not kept:
        raise LogError(f"{path} is a folder of a rolling event log without any events_ file")
    first = compacted or 1
    missing = tuple(number for number in range(first, min(kept[-1], first + 100_000)) if number not in numbered)
    application_id, attempt_id = _ids(path.rpartition("/")[2].removeprefix(ROLLING))
    files = tuple(f"{path}/{numbered[number]}" for number in kept)
    return Log(path, files, application_id, attempt_id, is_open, missing, is_compacted=compacted > 0)


def number_of(name: str) -> int:
    """The number of a file of a rolling log, from 1; 0 for another file."""
    match = _EVENTS.fullmatch(name)
    return int(match.group(1)) if match else 0


def is_log_name(name: str) -> bool:
    """Whether a file of this name, met in a folder, is a log that Spark wrote."""
    return _LOG_NAME.fullmatch(name) is not None


def find(path: Path) -> Iterator[Log]:
    """The log at this path, or all logs in this folder and those below it, in the order of their names.

    Raises `LogError` if there is nothing at the path.
    """
    if path.is_file():
        yield log_of_file(str(path))
    elif not path.is_dir():
        raise LogError(f"{path} does not exist; it must be an event log, or a folder of event logs")
    elif path.name.startswith(ROLLING):
        yield log_of_folder(str(path), [file.name for file in path.iterdir()])
    else:
        for entry in sorted(path.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_dir() or (entry.is_file() and is_log_name(entry.name)):
                yield from _find_below(entry)


def _find_below(entry: Path) -> Iterator[Log]:
    try:
        yield from find(entry)
    except LogError:
        return  # a folder that is being made


def _ids(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    return (match["id"], match["attempt"] or "") if match else (name, "")
