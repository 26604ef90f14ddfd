"""Finds event logs on this machine, or on any file system that Spark supports, through the driver's Hadoop classes."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any, Protocol

from joinsight.backfill.log_file import FileStatus, LogFile, is_rolling, log_of_file, log_of_folder
from joinsight.base.errors import JoinsightError, LogError
from joinsight.spark.packages import reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "file:"
_GLOB = frozenset("*?[{")
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(slots=True)
class Listing:
    """The event logs that were found."""

    logs: dict[str, LogFile] = field(default_factory=dict)
    """By key."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that could not be listed, with the reason."""
    empty: list[str] = field(default_factory=list)
    """Folders of rolling logs without a file of events."""


class FileSystem(Protocol):
    """Lists files and folders; raises `OSError` with a readable message."""

    def matches(self, path: str) -> list[FileStatus]:
        """Everything that matches a path or Hadoop pattern (``/logs/2026-*``)."""

    def children(self, folder: FileStatus) -> list[FileStatus]:
        """The contents of a folder."""


class Local:
    """This machine's disks."""

    def matches(self, path: str) -> list[FileStatus]:
        found = []
        for pattern in _without_braces(path.removeprefix(LOCAL)):
            names = sorted(glob.glob(pattern)) if _GLOB.intersection(pattern) else [pattern]  # noqa: PTH207
            found += _statuses(Path(os.path.abspath(name)) for name in names)  # noqa: PTH100
        return found

    def children(self, folder: FileStatus) -> list[FileStatus]:
        return _statuses(Path(folder.path.removeprefix(LOCAL)).iterdir())


def _statuses(paths: Iterable[Path]) -> list[FileStatus]:
    found = []
    for path in paths:
        try:
            each = path.stat()
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):  # a link to nothing or to itself, or renamed in the meantime
                continue
            raise
        found.append(FileStatus(f"{LOCAL}{path}", S_ISDIR(each.st_mode), each.st_size, each.st_mtime_ns // 1_000_000))
    return found


def _without_braces(pattern: str) -> Iterator[str]:
    match = _BRACES.search(pattern)
    if match is None:
        yield pattern
        return
    for each in match[1].split(","):
        yield from _without_braces(pattern[: match.start()] + each + pattern[match.end() :])


class Hadoop:
    """The file systems of a Spark driver."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._path = context._jvm.org.apache.hadoop.fs.Path
        self._configuration = context._jsc.hadoopConfiguration()
        self._jvm = context._jvm

    def matches(self, path: str) -> list[FileStatus]:
        return self._list(path, "globStatus")

    def children(self, folder: FileStatus) -> list[FileStatus]:
        return self._list(folder.path, "listStatus")

    def _list(self, path: str, method: str) -> list[FileStatus]:
        from py4j.protocol import Py4JJavaError

        try:
            at = self._path(path)
            found = getattr(at.getFileSystem(self._configuration), method)(at) or ()
            return [
                FileStatus(each.getPath().toString(), each.isDirectory(), each.getLen(), each.getModificationTime())
                for each in found
            ]
        except Py4JJavaError as error:
            raise OSError(reason_of(error, self._jvm)) from None


def find(file_system: FileSystem, paths: Iterable[str]) -> Listing:
    """All logs at these paths: files, folders (recursively), and patterns.

    Files with names that Spark does not give its logs are candidates. A folder that is reached in several ways, such as
    by links, is searched once. Raises `JoinsightError` if a path does not exist or cannot be listed.
    """
    listing = Listing()
    visited: set[object] = set()
    for path in paths:
        try:
            matches = file_system.matches(path)
            if not matches:
                raise _missing(path)
            is_named = not _GLOB.intersection(path)
            for status in matches:
                if status.is_folder:
                    _add_below(listing, status, file_system, visited, is_named=is_named)
                else:
                    _add(listing, log_of_file(status, is_named=is_named))
        except OSError as error:
            raise JoinsightError(f"{path}: {_text(error)}") from None
    return listing


def check_local(paths: Iterable[str]) -> None:
    """Raises `JoinsightError` if one of these paths, all on this machine's disks, does not exist."""
    for path in paths:
        if not Local().matches(path):
            raise _missing(path)


def _missing(path: str) -> JoinsightError:
    return JoinsightError(f"{path} does not exist; it must be an event log, or a folder of event logs")


def _add_below(
    listing: Listing, top: FileStatus, file_system: FileSystem, visited: set[object], *, is_named: bool
) -> None:
    """Raises `OSError` if `top` is named and cannot be listed."""
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            identity = _identity(folder)
            if identity in visited:
                continue
            visited.add(identity)
            children = sorted(file_system.children(folder), key=lambda child: child.name)
        except OSError as error:
            if is_named and folder is top:
                raise
            listing.unreadable[folder.path] = _text(error)
            continue
        files = [child for child in children if not child.is_folder and not child.name.startswith(".")]
        if is_rolling(folder.name, (file.name for file in files)):
            try:
                _add(listing, log_of_folder(folder.path, files))
            except LogError:
                listing.empty.append(folder.path)  # Spark creates the folder before the first file in it
            continue
        for file in files:
            _add(listing, log_of_file(file))
        folders += reversed([child for child in children if child.is_folder and not child.name.startswith(".")])


def _identity(folder: FileStatus) -> object:
    """The same for all paths of a folder: links may form loops."""
    if not folder.path.startswith(LOCAL):
        return folder.path
    status = os.stat(folder.path.removeprefix(LOCAL))  # noqa: PTH116
    return status.st_dev, status.st_ino


def _add(listing: Listing, log: LogFile) -> None:
    listing.logs.setdefault(log.key, log)


def _text(error: OSError) -> str:
    return error.strerror or str(error)
