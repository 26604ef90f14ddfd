"""Measures the queries of a block of code in this process, without a collector or a database.

A listener of its own watches the running Spark from the start to the end of the block. It keeps its documents in the
driver's JVM, and hands them over at the end; here they become the same rows, texts and drawings as in a collector.
"""

from __future__ import annotations

import io
import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from joinsight.analysis.parts import MOST_PARTS
from joinsight.analysis.rows import Rows, execution_rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.base.errors import JoinsightError
from joinsight.contract.accepted_advice import SETTING, AcceptedAdvice, of_setting
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.driver.attach import JoinsightWarning, call_with_context, classic_context, listener_jar
from joinsight.findings import FindingsEngine
from joinsight.gate.golden import Section, plan_of, section
from joinsight.gate.simplified import PlanLine
from joinsight.measuring.advice import Advice, try_execution
from joinsight.measuring.keys import HotKeys, candidates, hot_keys, hottest
from joinsight.pages.notebook import notebook
from joinsight.present.values import query_title
from joinsight.tables import (
    AqeDecisionRow,
    BroadcastRow,
    ExecutionRow,
    FindingRow,
    JoinRow,
    PlanNodeRow,
    SegmentRow,
    ShuffleRow,
    StageRow,
    as_columns,
)
from joinsight.terminal.console import text_console
from joinsight.terminal.execution import print_execution
from joinsight.timing.cost import CostBreakdown
from joinsight.verdict import Verdict, judge

_Self = TypeVar("_Self", bound="Measured")
_MEASUREMENT = "io.joinsight.Measurement"
_TIMEOUT_S = 60
_FINDINGS = FindingsEngine()


class MeasuredFinding(FindingRow, frozen=True, kw_only=True):
    """A finding, which can be tried where it was measured."""

    plans: Any = None

    def try_(self, budget_s: float = 600) -> Advice:
        """Try what it proposes, on the full data, as `joinsight.try_advice` does. Raises `JoinsightError`, also if the
        plan of its execution is not kept: it had not ended, or more than 100 executions followed."""
        return try_execution(Measured, active_context(), self.plans, self.execution_id, self.operator_key, budget_s)


@dataclass(frozen=True)
class MeasuredExecution:
    """One SQL execution: the rows that a collector would store. Their units and meanings: docs/data-dictionary.md."""

    rows: Rows
    plans: Any = field(default=None, compare=False, repr=False)
    """The logical plans of the measurement, in the JVM; None: there are none."""
    advice: Sequence[AcceptedAdvice] = field(default=(), compare=False, repr=False)
    """What its application has accepted, and compares with its plans."""
    parts: Sequence[MeasuredExecution] = field(default=(), compare=False, repr=False)
    """The executions that it started, as a `MERGE` does, in their order; of many the longest."""

    def keys(self, node_id: int | None = None) -> HotKeys:
        """The most frequent keys of a join or shuffle, read again in the query's session: docs/keys.md.

        `node_id` is one of `joins` or `shuffles`; the default is the most skewed one. Raises `JoinsightError` if that
        has no keys, or if its rows cannot be found in the session's plan.
        """
        return hot_keys(self.rows, self.plans, node_id)

    def try_(self, budget_s: float = 600) -> Advice:
        """Try what is proposed for it, on the full data, as `joinsight.try_advice` does. Raises `JoinsightError`, also
        if its plan is not kept: it had not ended, or more than 100 executions followed."""
        return try_execution(Measured, active_context(), self.plans, self.row.execution_id, None, budget_s)

    @property
    def row(self) -> ExecutionRow:
        """Times, totals, state, error, title and keys."""
        return self.rows.execution

    @property
    def title(self) -> str:
        """What a person calls the query."""
        return query_title(self._stored.execution)

    @property
    def duration_ms(self) -> int | None:
        """Wall time, milliseconds; None if it has not ended."""
        return self.row.duration_ms

    @property
    def nodes(self) -> Sequence[PlanNodeRow]:
        """The operators of the final plan."""
        return self.rows.plan_node

    @property
    def joins(self) -> Sequence[JoinRow]:
        return self.rows.joins

    @property
    def shuffles(self) -> Sequence[ShuffleRow]:
        return self.rows.shuffle

    @property
    def broadcasts(self) -> Sequence[BroadcastRow]:
        return self.rows.broadcast

    @property
    def decisions(self) -> Sequence[AqeDecisionRow]:
        """What AQE changed, in the order of time."""
        return self.rows.aqe_decision

    @property
    def stages(self) -> Sequence[StageRow]:
        return self.rows.stage

    @property
    def segments(self) -> Sequence[SegmentRow]:
        """The critical path: its lengths sum to `duration_ms`."""
        return self.rows.segment

    @property
    def cost(self) -> CostBreakdown:
        """Wall time and task time by operator, and of each join with what it made necessary: docs/cost.md."""
        return self._stored.breakdown

    @property
    def verdict(self) -> Verdict:
        """Where the time went, why, and what to do first: docs/verdict.md."""
        return judge(self._stored)

    @property
    def findings(self) -> Sequence[MeasuredFinding]:
        """The worst first; `try_` of each tries its advice."""
        return [MeasuredFinding(**as_columns(row), plans=self.plans) for row in self.rows.finding]

    @cached_property
    def plan(self) -> Sequence[PlanLine]:
        """The final plan without what changes from run to run: docs/pytest.md."""
        return plan_of(self.nodes, self.rows.plan_edge, self.joins, self.decisions)

    @property
    def section(self) -> Section:
        """The plan as a golden file has it."""
        return section(self.title, self.row.configuration, self.plan)

    @cached_property
    def _stored(self) -> StoredPlan:
        return replace(stored_plan(self.rows), advice=self.advice, nested=[each._stored for each in self.parts])

    def __str__(self) -> str:
        """What `joinsight plan` prints."""
        text = io.StringIO()
        print_execution(text_console(text), self._stored)
        return text.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        return f"<execution {self.row.execution_id}: {self.title}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return notebook([self._stored])


class Measured:
    """The executions that started while it was open, in their order; a context manager.

    `value` is what a measured function returned.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._handle: Any = None
        self._executions: tuple[MeasuredExecution, ...] | None = None
        self._lines: Sequence[bytes] = ()
        self._problem: str | None = None
        self.value: Any = None

    def __enter__(self: _Self) -> _Self:
        if self._handle is not None or self._executions is not None:
            raise JoinsightError("This measurement has been used already; call joinsight.measure again.")
        from py4j.protocol import Py4JJavaError

        try:
            self._handle = call_with_context(self._context, listener_jar(), _MEASUREMENT, "start", {})
        except Py4JJavaError as error:
            raise JoinsightError(f"Nothing can be measured: {error.java_exception.getMessage()}") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        handle, self._handle = self._handle, None
        self._problem = "it was interrupted"  # unless what follows completes
        try:
            lines, more = _stop(handle)
            documents = [(line, decode_document(line)) for line in lines]
            executions = (each for _, each in documents if isinstance(each, Execution))
            more_of_each = {"plans": handle.plans(), "advice": of_setting(self._context.getConf().get(SETTING))}
            self._executions = _with_parts([replace(measured_execution(each), **more_of_each) for each in executions])
            self._lines = [line for line, each in documents if isinstance(each, Execution)]
            self._problem = None
        except Exception as failure:  # the block's own result or error matters more; reading the executions raises it
            self._problem = str(failure) or repr(failure)
            more = [f"Nothing was measured: {self._problem}"]
        for each in more:
            warnings.warn(each, JoinsightWarning, stacklevel=2)

    @property
    def executions(self) -> Sequence[MeasuredExecution]:
        """The executions. Raises `JoinsightError` while the block still runs, and if nothing could be measured."""
        if self._problem is not None:
            raise JoinsightError(f"Nothing was measured: {self._problem}")
        if self._executions is None:
            raise JoinsightError("The measurement has not ended: read it after the `with` block.")
        return self._executions

    def keys(self, node_id: int | None = None) -> HotKeys:
        """The most frequent keys of a join or shuffle, as `MeasuredExecution.keys`: by default of the most skewed one.

        A `node_id` is one of the longest execution that has a join or shuffle with this id. Raises `JoinsightError`
        like `executions`, and if no execution has keys.
        """
        found = [(score, each, node) for each in self.executions for score, node in candidates(each.rows)]
        if node_id is not None:
            its = [each for each in self.executions if node_id in _with_keys(each)] or self.executions
            if not its:
                raise JoinsightError("No queries ran.")
            return max(its, key=lambda each: each.duration_ms or 0).keys(node_id)
        problem = JoinsightError("No execution has a join or shuffle with keys.")
        ranked = sorted(found, key=lambda one: one[0], reverse=True)
        return hottest((partial(each.keys, node) for _, each, node in ranked), problem)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the executions to a file, which `joinsight gate` compares with another. Raises like `documents`."""
        Path(path).write_bytes(self.documents())

    def documents(self, job_name: str | None = None) -> bytes:
        """The execution documents, a line each, as the listener makes them; with another name of the job.

        Raises `JoinsightError` like `executions`."""
        if not self.executions:
            return b""
        if job_name is None:
            return b"".join(line + b"\n" for line in self._lines)
        named = ({**msgspec.json.decode(line), "job_name": job_name} for line in self._lines)
        return b"".join(msgspec.json.encode(each) + b"\n" for each in named)

    def __str__(self) -> str:
        """What `joinsight plan` prints for each execution; why there is none, if nothing could be measured."""
        if self._problem is not None:
            return f"Nothing was measured: {self._problem}"
        return "\n\n".join(map(str, self._shown)) or "No queries ran."

    def __repr__(self) -> str:
        if self._problem is not None:
            return f"<measurement that failed: {self._problem}>"
        if self._executions is None:
            return "<measurement that has not ended>"
        return f"<measurement of {len(self._executions)} executions>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if self._executions is None else str(self))

    def _repr_html_(self) -> str | None:
        if self._problem is not None:
            return None  # a notebook then shows the text
        return notebook([each._stored for each in self._shown])

    @property
    def _shown(self) -> Sequence[MeasuredExecution]:
        """Without those that are shown as a part of what started them."""
        parts = {each.row.execution_id for root in self.executions for each in root.parts}
        return [each for each in self.executions if each.row.execution_id not in parts]


def _with_parts(found: Sequence[MeasuredExecution]) -> tuple[MeasuredExecution, ...]:
    """Each with the executions that it started, if it is the outermost."""
    started: dict[int, list[MeasuredExecution]] = defaultdict(list)
    for each in sorted(found, key=lambda one: -(one.duration_ms or 0)):
        its = started[each.row.root_execution_id]
        if each.row.root_execution_id != each.row.execution_id and not each.row.is_outer and len(its) < MOST_PARTS:
            its.append(each)
    parts = {root: sorted(its, key=lambda one: one.row.execution_id) for root, its in started.items()}
    return tuple(replace(each, parts=parts.get(each.row.execution_id, ())) for each in found)


def _with_keys(execution: MeasuredExecution) -> set[int]:
    return {row.node_id for row in execution.joins} | {row.node_id for row in execution.shuffles}


def measure(what: Any) -> Measured:
    """Implements `joinsight.measure`."""
    if not callable(what):
        return Measured(classic_context(what))
    with Measured(active_context()) as measured:
        measured.value = what()
    return measured


def active_context() -> Any:
    """The SparkContext of this process. Raises `JoinsightError` if there is none."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        raise JoinsightError("No classic SparkSession is running in this process.")
    return context


def _stop(handle: Any) -> tuple[Sequence[bytes], list[str]]:
    """End a measurement: its documents, a line each, and warnings."""
    warned = []
    if handle.stop(_TIMEOUT_S * 1000) is False:
        warned.append(
            f"The measurement may be incomplete: Spark's listener bus did not report all events within {_TIMEOUT_S} s."
        )
    lines = b"".join(iter(lambda: bytes(handle.nextPiece()), b"")).splitlines()
    if dropped := handle.dropped():
        memory = "spark.joinsight.memoryLimit"
        warned.append(f"{dropped} executions were not measured, because they did not fit into {memory}.")
    return lines, warned


def measured_execution(document: Execution) -> MeasuredExecution:
    """The rows and findings of a document."""
    rows = execution_rows(document)
    return MeasuredExecution(replace(rows, finding=_FINDINGS.rows(rows)))
