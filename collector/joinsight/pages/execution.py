"""The page of one execution: figures, plan, findings, AQE's decisions, shuffles, broadcasts and joins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from joinsight.compare import Run
from joinsight.display import bytes_text, duration_text, row_text
from joinsight.document import ENDED
from joinsight.errors import NotFound
from joinsight.pages.drawing import draw
from joinsight.pages.environment import address, render
from joinsight.plan.operators import FILES_SIZE
from joinsight.present import execution_name, number_text
from joinsight.present.decisions import lines, moment
from joinsight.present.tree import skewed_nodes
from joinsight.reading import StoredPlan
from joinsight.tables import Row


def execution_page(
    stored: StoredPlan, run: Run, *, version: int | None = None, node: int | None = None, fit: bool = False
) -> str:
    """The page as HTML: the plan of `version` (None: the final one), all metrics of `node`; `fit` scales to the width.

    Raises `NotFound` if there is no such version or node.
    """
    e, shown = stored.execution, stored.version(version)
    final = stored.version(None)
    here = partial(address, e)
    return render(
        "execution.html",
        e=e,
        name=execution_name(e),
        figures=_figures(stored),
        versions=[{**each, "after": moment(stored, each["planned_at"])} for each in stored.versions],
        version=shown,
        drawing=draw(stored, shown) if shown else None,
        selected=(selected := _node(shown, node)),
        metrics=_metrics(stored, selected) if selected else None,
        fit=fit,
        findings=stored.findings,
        final_nodes={each["id"]: each for each in final["nodes"]} if final else {},
        decisions=[(number, line) for number, line in lines(stored)],
        decided_here=[line for _, line in lines(stored, shown["version"])] if shown and version is not None else [],
        shuffles=_largest_first(run.shuffle, "bytes_written"),
        broadcasts=_largest_first(run.broadcast, "size_bytes"),
        joins=_largest_first(run.joins, "output_rows"),
        ended=ENDED,
        skewed=skewed_nodes(stored.findings),
        address=lambda version=None, node=None, fit=None: _anchored(here(version=version, node=node, fit=fit), node),
        node_address=lambda node: _anchored(here(version=version, node=node, fit=fit or None), node),
    )


def _anchored(page: str, node: int | None) -> str:
    return page if node is None else f"{page}#n{node}"


def _figures(stored: StoredPlan) -> list[tuple[str, str]]:
    """Total costs as labels and texts, without those that were not measured or are 0."""
    files = [
        row["total"] for row in stored.metrics if row["name"] == FILES_SIZE and row["node_id"] >= 0 and row["total"]
    ]
    e = {**stored.execution, "files_bytes": sum(files)}
    figures = (
        ("Duration", "duration_ms", duration_text),
        ("Time of its tasks", "task_time_ms", duration_text),
        ("Tasks", "tasks", number_text),
        ("Files read", "files_bytes", bytes_text),
        ("Read by tasks", "input_bytes", bytes_text),
        ("Shuffled", "shuffle_write_bytes", bytes_text),
        ("Broadcast", "broadcast_bytes", bytes_text),
        ("Spilled to disk", "disk_spilled_bytes", bytes_text),
        ("Written", "output_bytes", bytes_text),
    )
    return [(label, show(e[name])) for label, name, show in figures if e[name]]


def _largest_first(rows: Iterable[Row], measure: str) -> list[Row]:
    return sorted(rows, key=lambda row: -1 if row[measure] is None else row[measure], reverse=True)


def _node(version: Row | None, node: int | None) -> Row | None:
    if node is None or version is None:
        return None
    for each in version["nodes"]:
        if each["id"] == node:
            return dict(each)
    raise NotFound(f"Plan {version['version']} has no node {node}.")


def _metrics(stored: StoredPlan, node: Row) -> tuple[list[tuple[str, str]], list[str]]:
    """The measured metrics of a node, formatted as in Spark's UI, and the names of those that are 0."""
    measured = {row["accumulator_id"]: row for row in stored.metrics}
    shown, zero = [], []
    for accumulator, name, _ in node["metrics"]:
        row = measured.get(accumulator)
        if row is None or not row["count"]:
            continue
        if row["total"] == 0 and row["text"] is None:
            zero.append(name)
        else:
            shown.append((name, row_text(row) or ""))
    return shown, zero
