"""Finds event logs on any file system that Spark knows, through the driver's Hadoop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from joinsight.backfill.share import Found
from joinsight.errors import JoinsightError, LogError
from joinsight.eventlog.files import ROLLING, Log, is_log_name, log_of_file, log_of_folder
from joinsight.store.ledger import moment

_GLOB = frozenset("*?[{")


@dataclass(slots=True)
class Listing:
    """What is there."""

    logs: dict[str, Found] = field(default_factory=dict)
    """By key."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Folders that could not be listed, and why."""


@dataclass(frozen=True, slots=True)
class _Status:
    at: Any
    """Hadoop's Path."""
    path: str
    is_folder: bool
    size: int
    modified: int
    """Milliseconds."""

    @classmethod
    def of(cls, status: Any) -> _Status:
        at = status.getPath()
        return cls(at, at.toString(), status.isDirectory(), status.getLen(), status.getModificationTime())

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]


def find(spark: SparkSession, paths: Iterable[str]) -> Listing:
    """All logs at these paths: files, folders with all below them, and patterns of Hadoop (``/logs/2026-*``).

    A file that is named is taken for a log; in folders, and of what a pattern fits, those are taken that have a name as
    Spark gives. Raises `JoinsightError` if one of the paths is not there or cannot be listed.
    """
    listing = Listing()
    context: Any = spark.sparkContext
    configuration = context._jsc.hadoopConfiguration()
    for path in paths:
        try:
            at = context._jvm.org.apache.hadoop.fs.Path(path)
            matches = [_Status.of(each) for each in at.getFileSystem(configuration).globStatus(at) or ()]
            if not matches:
                raise JoinsightError(f"{path} does not exist; it must be an event log, or a folder of event logs")
            named = not _GLOB.intersection(path)
            for status in matches:
                if not status.is_folder:
                    if named or is_log_name(status.name):
                        _add(listing, log_of_file(status.path), [status])
                elif named:
                    _add_folder(listing, status, _children(status, configuration), configuration)
                else:
                    _add_below(listing, status, configuration)
        except Py4JJavaError as error:
            raise JoinsightError(f"{path}: {reason_of(error)}") from None
    return listing


def _children(folder: _Status, configuration: Any) -> list[_Status]:
    """In the order of their names."""
    found = [_Status.of(each) for each in folder.at.getFileSystem(configuration).listStatus(folder.at)]
    return sorted(found, key=lambda status: status.name)


def _add_below(listing: Listing, folder: _Status, configuration: Any) -> None:
    try:
        _add_folder(listing, folder, _children(folder, configuration), configuration)
    except Py4JJavaError as error:
        listing.unreadable[folder.path] = reason_of(error)


def _add_folder(listing: Listing, folder: _Status, children: list[_Status], configuration: Any) -> None:
    if folder.name.startswith(ROLLING):
        files = [child for child in children if not child.is_folder]
        try:
            _add(listing, log_of_folder(folder.path, [file.name for file in files]), files)
        except LogError:
            return  # a folder that is being made
    else:
        for child in children:
            if child.name.startswith("."):
                continue
            if child.is_folder:
                _add_below(listing, child, configuration)
            elif is_log_name(child.name):
                _add(listing, log_of_file(child.path), [child])


def _add(listing: Listing, log: Log, files: list[_Status]) -> None:
    by_name = {file.name: file for file in files}
    of_log = [by_name[path.rpartition("/")[2]] for path in log.files]
    found = Found(log, tuple(file.size for file in of_log), moment(max(file.modified for file in of_log)))
    listing.logs.setdefault(found.key, found)


def reason_of(error: Py4JJavaError) -> str:
    """The first line of what Java says."""
    exception = error.java_exception
    text = exception.getMessage() or exception.toString()
    return str(text).strip().splitlines()[0]
