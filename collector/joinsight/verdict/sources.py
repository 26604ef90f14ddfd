"""Reading sources and writing files."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.base.units import bytes_text
from joinsight.plan.graph import Node
from joinsight.plan.table_files import ADDED, ADDED_BYTES
from joinsight.verdict import names
from joinsight.verdict.cause import SMALL_FILE, Cause, rows_text, stage_of
from joinsight.verdict.view import View

_MANY_FILES = 100
TEXT_FORMATS = ("csv", "json", "xml")
_READ_LESS = "Read less: filter on partition columns, select fewer columns."
_COLUMNAR = ("parquet", "orc")


def scans(view: View) -> Iterator[Cause]:
    """Reading sources: many small files, or the scan as a place."""
    for node in view.of_kind("scan"):
        files, size = (view.plan.total(node, name) for name in ("number of files read", "size of files read"))
        wall = view.likely_wall_of(node.id)
        if files and size is not None and files >= _MANY_FILES and size / files < SMALL_FILE:
            listing = view.plan.total(node, "metadata time") or 0
            whole = sum(ran.wall_ms for ran in view.ran if node.id in ran.nodes)
            yield Cause(
                "small_files",
                min(whole, wall) + min(listing, view.rests.get("prepare", 0)),
                (node.id,),
                f"{names.operator(view, node.id)} read {files:,} files of {bytes_text(round(size / files))} on average",
                "Compact them into files of 128 MB and more, and let what writes them write fewer (repartition before"
                " the write).",
                {"files": files, "bytes": size, "metadata_time_ms": listing},
                stage_of(view, node.id),
            )
        text_format = _text_format(node)
        yield Cause(
            "scan",
            wall,
            (node.id,),
            f"{names.operator(view, node.id)} read {_scanned(view, node, files, size)}"
            + (f", and parsed {text_format}" if text_format else ""),
            f"Store it as Parquet or ORC, if it is read more than once: each read parses {text_format} again."
            if text_format
            else _READ_LESS
            if source_format(node) in _COLUMNAR
            else f"{_READ_LESS} Or store it in a columnar format.",
            {
                "files": files or 0,
                "bytes": size or 0,
                "rows": view.rows(node.id) or 0,
                "is_text": int(bool(text_format)),
            },
            stage_of(view, node.id),
        )


def _text_format(node: Node) -> str:
    """``JSON``: the format of a scan that has to be parsed; empty: another one."""
    return source_format(node).upper() if source_format(node) in TEXT_FORMATS else ""


def source_format(node: Node) -> str:
    """``json``: the second word of a scan's name."""
    words = node.name.split(" ", 2)
    return words[1] if len(words) > 1 else ""


def _scanned(view: View, node: Node, files: int | None, size: int | None) -> str:
    parts = [f"{rows_text(view.rows(node.id) or 0)}"]
    if files:
        parts.append(f"from {files:,} file{'s' * (files != 1)}")
        if size:
            parts[-1] += f" of {bytes_text(size)}" if files == 1 else f", {bytes_text(size)} in all"
    return " ".join(parts)


def files_written(view: View) -> Iterator[Cause]:
    """A write of many small files."""
    for node in view.of_kind("write"):
        metrics = view.plan.metrics(node)
        files, size = (
            next((metrics[name].sum for name in names if name in metrics), None)
            for names in (("number of written files", *ADDED), ("written output", *ADDED_BYTES))
        )
        if files is None or size is None or files < _MANY_FILES or size / files >= SMALL_FILE:
            continue
        stages = [ran for ran in view.ran if node.id in ran.nodes]
        yield Cause(
            "small_files",
            view.wall_of_writing(node.id) + view.rests.get("commit", 0),
            (node.id,),
            f"it wrote {files:,} files of {bytes_text(round(size / files))} on average",
            "Write fewer, larger files: repartition before the write, by its partition columns or to fewer partitions.",
            {"files": files, "bytes": size},
            stages[0].stage_id if stages else None,
        )
