"""Which files form one event log: only names decide, so the rules hold on any file system.

Files whose names are not those that Spark gives its logs are candidates: Java looks at their first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from joinsight.base.errors import LogError
from joinsight.store.event_logs import FileState, moment

ROLLING = "eventlog_v2_"
IN_PROGRESS = ".inprogress"
COMPACT = ".compact"
_CODECS = "zstd|lz4|snappy|lzf|gz"
_STATUS = "appstatus_"
_EVENTS = re.compile(rf"events_(\d{{1,9}})_(.+?)(?:\.(?:{_CODECS}))?(?:\{IN_PROGRESS}|\{COMPACT})?")
_PACKED = re.compile(rf".+\.(?:{_CODECS})(?:\.inprogress|\.compact)?")
_NAME = re.compile(rf"(?P<id>application_\d+_\d+|.+?)(?:_(?P<attempt>\d{{1,4}}))?(?:\.(?:{_CODECS}))?")
# Names that Spark writes
_LOG_NAME = re.compile(
    rf"(?:application_\d+_\d+|local-\d+|app-\d+-\d+|spark-[0-9a-f]{{32}})(?:_\d{{1,4}})?(?:\.(?:{_CODECS}))?(?:\.inprogress)?"
)
_PACKED_TIMES = 10
"""Minimum bytes of events per byte of a compressed log."""


@dataclass(frozen=True, slots=True)
class FileStatus:
    """A file or folder as listed by its file system."""

    path: str
    is_folder: bool
    size: int
    modified: int
    """Milliseconds."""

    @property
    def name(self) -> str:
        return name_of(self.path)


@dataclass(frozen=True, slots=True)
class LogFile:
    """The event log of an application attempt: its files in the order in which they are read."""

    path: str
    files: tuple[FileStatus, ...]
    application_id: str
    """From the log's name; its events take precedence."""
    attempt_id: str = ""
    is_open: bool = False
    """Its application is still running, or was killed."""
    missing: tuple[int, ...] = ()
    """Numbers of the missing files of a rolling log."""
    is_compacted: bool = False
    """The History Server removed finished executions from it."""
    is_candidate: bool = False
    """It is read only if its first line is an event."""
    is_named: bool = False
    """The user gave its path, not that of a folder or a pattern: a candidate that cannot be opened has failed."""

    @property
    def key(self) -> str:
        """Its path, the same while it is written and after."""
        return self.path.removesuffix(IN_PROGRESS)

    @property
    def state(self) -> FileState:
        modified = moment(max(file.modified for file in self.files))
        return FileState(sum(file.size for file in self.files), modified, self.is_open)

    @property
    def weight(self) -> int:
        """Approximate bytes of its events."""
        return sum(file.size * (_PACKED_TIMES if _PACKED.fullmatch(file.name) else 1) for file in self.files)

    def request(self) -> dict[str, Any]:
        """The request to `EventLogReader`."""
        files = []
        before = 0
        for file in self.files:
            number = number_of(file.name)
            follows_missing = any(before < each < number for each in self.missing)
            files.append({"path": file.path, "follows_missing": follows_missing})
            before = number
        return {
            "application_id": self.application_id,
            "attempt_id": self.attempt_id,
            "is_open": self.is_open,
            "is_candidate": self.is_candidate,
            "is_named": self.is_named,
            "files": files,
        }


def log_of_file(file: FileStatus, *, is_named: bool = False) -> LogFile:
    """The log in a single file, which may be `is_named` by the user; a candidate if Spark gives no log such a name."""
    application_id, attempt_id = _ids(file.name.removesuffix(IN_PROGRESS))
    return LogFile(
        file.path,
        (file,),
        application_id,
        attempt_id,
        is_open=file.name.endswith(IN_PROGRESS),
        is_candidate=_LOG_NAME.fullmatch(file.name) is None,
        is_named=is_named,
    )


def is_rolling(folder: str, files: Iterable[str]) -> bool:
    """Whether a folder is that of a rolling log: by its name, or by those of its files where it was renamed."""
    if folder.startswith(ROLLING):
        return True
    events: set[str] = set()
    has_status = has_others = False
    for name in files:
        if match := _EVENTS.fullmatch(name):
            events.add(match[2])
        elif name.startswith(_STATUS):
            has_status = True
        else:
            has_others = True
    return len(events) == 1 and (has_status or not has_others)


def log_of_folder(path: str, files: Iterable[FileStatus]) -> LogFile:
    """The rolling log in a folder with these files. Raises `LogError` if none of them contains events."""
    path = path.rstrip("/")
    numbered: dict[int, FileStatus] = {}
    compacted = 0
    is_open = True  # until its status file shows that it is finished
    for file in sorted(files, key=lambda file: file.name):
        if file.name.startswith(_STATUS):
            is_open = file.name.endswith(IN_PROGRESS)
        number = number_of(file.name)
        if number == 0:
            continue
        if file.name.endswith(COMPACT):
            compacted = max(compacted, number)
        if number not in numbered or file.name.endswith(COMPACT):
            numbered[number] = file
    # A compacted file replaces those before it
    kept = [number for number in sorted(numbered) if number >= compacted]
    if not kept:
        raise LogError(f"{path} is a folder of a rolling event log without any events_ file")
    first = compacted or 1
    missing = tuple(number for number in range(first, min(kept[-1], first + 100_000)) if number not in numbered)
    in_order = tuple(numbered[number] for number in kept)
    is_renamed = not name_of(path).startswith(ROLLING)
    match = _EVENTS.fullmatch(in_order[0].name) if is_renamed else None
    application_id, attempt_id = _ids(match[2] if match else name_of(path).removeprefix(ROLLING))
    return LogFile(path, in_order, application_id, attempt_id, is_open, missing, compacted > 0, is_renamed)


def name_of(path: str) -> str:
    """The last component of a path."""
    return path.rstrip("/").rpartition("/")[2]


def number_of(name: str) -> int:
    """The number of a file of a rolling log, from 1; 0 for other files."""
    match = _EVENTS.fullmatch(name)
    return int(match.group(1)) if match else 0


def _ids(name: str) -> tuple[str, str]:
    match = _NAME.fullmatch(name)
    return (match["id"], match["attempt"] or "") if match else (name, "")
