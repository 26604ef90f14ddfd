"""The page of one execution: figures, findings, stages, plan, AQE's decisions, shuffles, broadcasts and joins."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joinsight.analysis.comparison import ComparedExecution
from joinsight.analysis.stored import StoredPlan
from joinsight.analysis.title import is_sparks_own
from joinsight.base.errors import NotFound
from joinsight.base.units import bytes_text, duration_text, percent_text
from joinsight.contract.document import ENDED
from joinsight.pages.drawing import Drawing, draw
from joinsight.pages.environment import address, compare_plans, render, started_at
from joinsight.pages.failure import failure
from joinsight.pages.panel import OperatorPanel, panels_of
from joinsight.pages.plan_map import MAP_WIDTH, plan_map
from joinsight.pages.svg_file import svg_file
from joinsight.pages.timeline import timeline
from joinsight.pages.view import DEFAULT, FIT, ZOOMS, ViewOptions
from joinsight.plan.operators import FILES_SIZE
from joinsight.present.cost import Labels, between
from joinsight.present.decisions import lines, moment
from joinsight.present.engines import changed_text, engine_text, files_text, own_reads_text
from joinsight.present.findings import at_stake, none_found
from joinsight.present.tree import skewed_nodes
from joinsight.present.values import execution_name, number_text, one_line, query_title
from joinsight.tables import Row
from joinsight.timing.cost import CostBreakdown
from joinsight.verdict import judge

MAX_DRAWN = 10_000
"""The largest number of operators that is drawn."""
REFRESH_SECONDS = 10
"""How often the page of a running execution loads itself again: listeners report as often."""
_MOST_WAITS = 6
_LEAST_WAIT = 0.005
"""The share of the time from which on a wait is listed."""
_LAST_PLAN = {"running": "latest", "lost": "last known"}


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """Findings of one kind with the same advice."""

    severity: str
    finding: str
    advice: str
    rows: Sequence[Row]
    """With `at_stake`, a text."""


@dataclass(frozen=True, slots=True)
class Wait:
    """What the execution waited for: an operator, or something else."""

    text: str
    node: int | None
    stage: int | None
    """Where operators ran that cannot be told apart."""
    time: str
    share: str


def execution_page(stored: StoredPlan, run: ComparedExecution, view: ViewOptions = DEFAULT) -> str:
    """The page as HTML. Raises `NotFound` if the execution has no such plan version or node."""
    e, shown = stored.execution, stored.version(view.version)
    error = e["error"] or ""
    final = stored.version(None)
    stages_of = stored.breakdown.stages.of_nodes
    verdict = judge(stored)
    nodes = stored.plan.nodes
    judged = () if verdict.code == "even" else [i for i in verdict.nodes if i in nodes]
    drawing = _drawing(stored, shown, view, stages_of, judged)
    breakdown = stored.breakdown

    def at(**changes: Any) -> str:
        return address(e, **view.parameters(**changes))

    return render(
        "execution.html",
        e=e,
        view=view,
        name=execution_name(e),
        heading=query_title(e),
        description=one_line(e["description"]),
        is_sparks_own=is_sparks_own(e["description"].strip()),
        call_site=e["call_site"].strip() if one_line(e["call_site"]) != one_line(e["description"]) else "",
        error=failure(error) if error.strip(" \n.") not in ("", verdict.evidence.get("error")) else None,
        refresh=REFRESH_SECONDS if e["state"] == "running" and view.refreshes else None,
        figures=_figures(stored),
        verdict=verdict,
        advice=[each.text for each in stored.not_followed],
        judged=[(i, f"{nodes[i].name} ({i})") for i in judged],
        opens_at=_opens_at(drawing, judged),
        stages=timeline(stored, run.stage, stages_of),
        selected_stage=view.stage,
        marked=sum(box.in_stage for box in drawing.boxes) if drawing else 0,
        versions=[{**each, "after": moment(stored, each["planned_at"])} for each in stored.versions],
        changes=_changes(stored, shown),
        last_plan=_LAST_PLAN.get(e["state"], "final"),
        version=shown,
        operators=operators_of(shown),
        drawing=drawing,
        map=plan_map(drawing) if drawing else None,
        map_width=MAP_WIDTH,
        selected=_panel(stored, shown, view.node, stages_of),
        charged=_charged(breakdown, view.node, Labels(stored)) if shown is final and view.node is not None else [],
        findings=_grouped(stored),
        none_found="" if stored.all_findings else none_found(stored),
        final_nodes=nodes,
        decisions=[(number, line) for number, line in lines(stored)],
        decided_here=_decided(stored, shown, view),
        shuffles=_largest_first(run.shuffle, "bytes_written"),
        broadcasts=_largest_first(run.broadcast, "size_bytes"),
        joins=_joins(run.joins, breakdown),
        ended=ENDED,
        skewed=skewed_nodes(stored.findings),
        waits=_waits(stored, breakdown),
        started=[_part(stored, each) for each in stored.nested],
        parts=[*_parts(stored, view)] if shown is final else [],
        own_reads=own_reads_text(stored),
        engine=engine_text(stored),
        changed=changed_text(stored.plan),
        files=files_text(stored.plan),
        waited=breakdown.wall_ms > 0,
        smaller=max((each for each in ZOOMS if each < view.zoom), default=None),
        larger=min((each for each in ZOOMS if each > view.zoom), default=None) if view.zoom != FIT else None,
        path=address(e).partition("?")[0],
        kept={"started_at": started_at(e), **_given(view.parameters(node=None, search=""))},
        download=address(e, **view.parameters(node=None, refreshes=True), download="svg"),
        download_page=address(e, download="html"),
        at=at,
        node_address=lambda node: f"{at(node=node)}#n{node}",
        open_address=lambda node: f"{at(opened=view.opened | {node})}#n{node}",
    )


def drawing_file(stored: StoredPlan, view: ViewOptions = DEFAULT) -> str:
    """The drawing of the page as an SVG file. Raises `NotFound` if there is none."""
    shown = stored.version(view.version)
    drawing = _drawing(stored, shown, view, stored.breakdown.stages.of_nodes, judge(stored).nodes)
    if drawing is None:
        raise NotFound("This execution has no plan that can be drawn.")
    return svg_file(drawing, f"Plan of {execution_name(stored.execution)}: {query_title(stored.execution)}"[:300])


def operator_panels(stored: StoredPlan) -> Iterator[tuple[int, str]]:
    """The panel of each operator of the final plan as HTML, by node, those that cost most first."""
    version, labels = stored.version(None), Labels(stored)
    if version is None:
        return
    nodes = {node["id"]: node for node in version["nodes"] if not node["is_cluster"]}
    costly = [*judge(stored).nodes, *(each.node_id for each in stored.breakdown.items), *nodes]
    in_order = [nodes[each] for each in dict.fromkeys(costly) if each in nodes]
    for panel in panels_of(stored, version, in_order, stored.breakdown.stages.of_nodes):
        text = render(
            "panel.html",
            selected=panel,
            charged=_charged(stored.breakdown, panel.id, labels),
            e=stored.execution,
            version=version,
            at=lambda **changes: address(stored.execution, **DEFAULT.parameters(**changes)),
        )
        yield panel.id, re.sub(r'(id|labelledby)="operator"', rf'\1="operator-{panel.id}"', text)


def _drawing(
    stored: StoredPlan,
    version: Row | None,
    view: ViewOptions,
    stages_of: Mapping[int, Sequence[int]],
    judged: Sequence[int],
) -> Drawing | None:
    """None if there is no plan, or it is too large."""
    if version is None or operators_of(version) > MAX_DRAWN:
        return None
    marked = () if view.stage is None or not version["is_final"] else _nodes_of(view.stage, stages_of)
    return draw(stored, version, view, marked, judged if version["is_final"] else ())


def _opens_at(drawing: Drawing | None, judged: Sequence[int]) -> str | None:
    """The box that is in view at first: what the verdict is about, else the most expensive operator."""
    if drawing is None:
        return None
    costly = max(drawing.boxes, key=lambda box: box.node.share, default=None)
    first = [*judged, *([costly.node.id] if costly is not None and costly.node.share else [])]
    return next((f"n{i}" for i in first if drawing.holds(i)), None)


def _given(parameters: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in parameters.items() if value is not None}


def _nodes_of(stage: int, stages_of: Mapping[int, Sequence[int]]) -> set[int]:
    return {node for node, stages in stages_of.items() if stage in stages}


def operators_of(version: Row | None) -> int:
    """The number of operators in a plan version."""
    return 0 if version is None else sum(1 for node in version["nodes"] if not node["is_cluster"])


def _figures(stored: StoredPlan) -> list[tuple[str, str]]:
    """Total costs as labels and texts, without those that were not measured or are 0."""
    files = [
        row["total"] for row in stored.metrics if row["name"] == FILES_SIZE and row["node_id"] >= 0 and row["total"]
    ]
    e = {**stored.execution, "files_bytes": sum(files), "elapsed_ms": None}
    if e["state"] == "running" and stored.breakdown.wall_ms:
        e["elapsed_ms"] = stored.breakdown.wall_ms
    elif e["state"] == "running" and e["updated_at"] is not None:
        e["elapsed_ms"] = round((e["updated_at"] - e["started_at"]).total_seconds() * 1000)
    figures = (
        ("Duration", "duration_ms", duration_text),
        ("Elapsed", "elapsed_ms", duration_text),
        ("Total task time", "task_time_ms", duration_text),
        ("Tasks", "tasks", number_text),
        ("Files read", "files_bytes", bytes_text),
        ("Read by tasks", "input_bytes", bytes_text),
        ("Shuffled", "shuffle_write_bytes", bytes_text),
        ("Broadcast", "broadcast_bytes", bytes_text),
        ("Spilled to disk", "disk_spilled_bytes", bytes_text),
        ("Written", "output_bytes", bytes_text),
    )
    return [(label, show(e[name])) for label, name, show in figures if e[name]]


def _waits(stored: StoredPlan, breakdown: CostBreakdown) -> list[Wait]:
    """What the execution waited for, the longest first; before its end, what its tasks were at."""
    labels, waits = Labels(stored), []
    whole = breakdown.wall_ms or breakdown.task_time_ms
    for its, item in stored.command_items[:_MOST_WAITS]:
        ms = item.wall_ms if breakdown.wall_ms else item.task_time_ms
        if ms < _LEAST_WAIT * whole:
            continue
        if ms and its is not stored:
            text = f"execution {its.execution['execution_id']}: {Labels(its).item(item)}"
            waits.append(Wait(text, None, None, duration_text(ms), percent_text(ms / whole)))
        elif ms:
            node = item.node_id if item.kind == "operator" else None
            text = labels.item(item) if node is None else f"{labels.name(node)} ({node})"
            waits.append(Wait(text, node, item.stage_id, duration_text(ms), percent_text(ms / whole)))
    return waits


def _part(stored: StoredPlan, each: StoredPlan) -> Row:
    """An execution that it started: `address`, `heading`, `time`, and the `share` of its wall time spent waiting."""
    e, whole = each.execution, stored.breakdown.wall_ms
    return {
        "address": address(e),
        "heading": f"{e['execution_id']}: {query_title(e)}",
        "time": duration_text(e["duration_ms"]) if e["duration_ms"] is not None else "",
        "share": percent_text(stored.waited.get(e["execution_id"], 0) / whole) if whole else "",
    }


def _parts(stored: StoredPlan, view: ViewOptions) -> Iterator[Row]:
    """What `_part` has of the executions whose plans are drawn, each with `id`, `drawing` and `node_address`."""
    for each in stored.drawn:
        version = each.version(None)
        if version is None or operators_of(version) > MAX_DRAWN:
            continue
        whole = stored.whole_ms(each) if stored.breakdown.wall_ms else None
        shown = ViewOptions(opens_all=view.opens_all, zoom=view.zoom)

        def of_node(node: int, e: Row = each.execution) -> str:
            return f"{address(e, node=node)}#n{node}"

        yield {
            **_part(stored, each),
            "id": each.execution["execution_id"],
            "drawing": draw(each, version, shown, whole_ms=whole),
            "node_address": of_node,
        }


def _charged(breakdown: CostBreakdown, node: int, labels: Labels) -> list[tuple[str, str]]:
    """What an operator cost, and a join with what only it needed, as labels and texts."""
    item = breakdown.operators().get(node)
    found = [("Cost", _amounts(item.wall_ms, item.task_time_ms, breakdown))] if item else []
    join = next((join for join in breakdown.joins if join.node_id == node), None)
    its = () if join is None else join.shared
    if join is not None and (join.wall_ms is not None or its):
        wall, tasks = (
            between(known, most, is_partial=join.is_partial)
            for known, most in ((join.wall_ms, join.most_wall_ms), (join.task_time_ms, join.most_task_time_ms))
        )
        if breakdown.wall_ms and join.most_wall_ms:
            share = percent_text(join.most_wall_ms / breakdown.wall_ms)
            wall += f" of wall time, {'at most ' if its else ''}{share}"
        texts = [wall] * (breakdown.wall_ms > 0) + ([f"{tasks} of task time"] if tasks else [])
        found.append(("With its sorts, shuffles, broadcasts", "; ".join(filter(None, texts))))
    for shared in its or (each for each in breakdown.items if item is None and join is None and node in each.operators):
        what = "The join itself" if join else "Cost"
        found.append(
            (what, f"part of {_amounts(shared.wall_ms, shared.task_time_ms, breakdown)} ({labels.place(shared)})")
        )
    return found


def _amounts(wall_ms: int, task_ms: int, breakdown: CostBreakdown) -> str:
    """``2.1 s of wall time, 23 %; 4.1 s of task time``, as far as they are known."""
    texts = (
        [f"{duration_text(wall_ms)} of wall time, {percent_text(wall_ms / breakdown.wall_ms)}"]
        if breakdown.wall_ms
        else []
    )
    return "; ".join([*texts, f"{duration_text(task_ms)} of task time"])


def _grouped(stored: StoredPlan) -> list[FindingGroup]:
    """Findings by kind and advice."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in stored.all_findings:
        text = at_stake(row, stored.execution["duration_ms"] or stored.breakdown.wall_ms)
        groups[row["severity"], row["finding"], row["advice"]].append({**row, "at_stake": text})
    return [FindingGroup(*key, rows) for key, rows in groups.items()]


def _decided(stored: StoredPlan, version: Row | None, view: ViewOptions) -> list[str]:
    if version is None or view.version is None:
        return []
    return [line for _, line in lines(stored, version["version"])]


def _changes(stored: StoredPlan, shown: Row | None) -> list[tuple[str, str]]:
    """Between which plans AQE made the one that is shown, as addresses and words."""
    numbers = [each["version"] for each in stored.versions]
    if shown is None or len(numbers) < 2:
        return []
    first, last, number = numbers[0], numbers[-1], shown["version"]
    if number == first:
        return [(compare_plans(stored.execution, first, last), "up to the last plan")]
    before = numbers[numbers.index(number) - 1]
    steps = [(before, f"since plan {before}"), (first, "since the first plan")]
    return [(compare_plans(stored.execution, each, number), words) for each, words in dict(steps).items()]


def _joins(rows: Iterable[Row], breakdown: CostBreakdown) -> list[Row]:
    """Those that can have cost most first, each with `wall_time`, a text."""
    costs = {join.node_id: (place, join) for place, join in enumerate(breakdown.joins)} if breakdown.wall_ms else {}
    found = []
    for row in _largest_first(rows, "output_rows"):
        _, join = costs.get(row["node_id"], (0, None))
        text = between(join.wall_ms, join.most_wall_ms, is_partial=join.is_partial) if join else ""
        found.append({**row, "wall_time": text})
    return sorted(found, key=lambda row: costs[row["node_id"]][0] if row["node_id"] in costs else len(costs))


def _largest_first(rows: Iterable[Row], measure: str) -> list[Row]:
    return sorted(rows, key=lambda row: -1 if row[measure] is None else row[measure], reverse=True)


def _panel(
    stored: StoredPlan, version: Row | None, node: int | None, stages_of: Mapping[int, Sequence[int]]
) -> OperatorPanel | None:
    if node is None or version is None:
        return None
    its = [each for each in version["nodes"] if each["id"] == node]
    if its:
        return next(panels_of(stored, version, its, stages_of))
    raise NotFound(f"Plan {version['version']} has no node {node}.")
