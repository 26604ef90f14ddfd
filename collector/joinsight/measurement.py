"""Measures the queries of a block of code in this process, without a collector or a database.

A listener of its own watches the running Spark from the start to the end of the block. It keeps its documents in the
driver's JVM, and hands them over at the end; here they become the same rows, texts and drawings as in a collector.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Any

from joinsight.attach import JoinsightWarning, call_with_context, classic_context, listener_jar
from joinsight.cli import read
from joinsight.cli.console import text_console
from joinsight.decode import decode_document
from joinsight.document import Execution
from joinsight.errors import JoinsightError
from joinsight.findings import Finder
from joinsight.pages.notebook import notebook
from joinsight.present import query_title
from joinsight.reading import StoredPlan, stored_plan
from joinsight.rows import Rows, execution_rows
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
)

_MEASUREMENT = "io.joinsight.Measurement"
_TIMEOUT_S = 60
_FINDER = Finder()


@dataclass(frozen=True)
class MeasuredExecution:
    """One SQL execution: the rows that a collector would store. Their units and meanings: docs/data-dictionary.md."""

    rows: Rows

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
    def findings(self) -> Sequence[FindingRow]:
        return self.rows.finding

    @cached_property
    def _stored(self) -> StoredPlan:
        return stored_plan(self.rows)

    def __str__(self) -> str:
        """What `joinsight plan` prints."""
        text = io.StringIO()
        read.print_execution(text_console(text), self._stored)
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
        self.value: Any = None

    def __enter__(self) -> Measured:
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
        try:
            lines = bytes(handle.stop(_TIMEOUT_S * 1000)).splitlines()
            dropped = handle.dropped()
        except Exception as failure:
            self._executions = ()
            if kind is None:
                raise
            warnings.warn(f"Nothing was measured: {failure}", JoinsightWarning, stacklevel=2)
            return
        documents = map(decode_document, lines)
        self._executions = tuple(_measured(each) for each in documents if isinstance(each, Execution))
        if dropped:
            more = f"{dropped} executions were not measured, because they did not fit into spark.joinsight.memoryLimit."
            warnings.warn(more, JoinsightWarning, stacklevel=2)

    @property
    def executions(self) -> Sequence[MeasuredExecution]:
        """The executions. Raises `JoinsightError` while the block still runs."""
        if self._executions is None:
            raise JoinsightError("The measurement has not ended: read it after the `with` block.")
        return self._executions

    def __str__(self) -> str:
        """What `joinsight plan` prints for each execution."""
        return "\n\n".join(map(str, self.executions)) or "No queries ran."

    def __repr__(self) -> str:
        if self._executions is None:
            return "<measurement that has not ended>"
        return f"<measurement of {len(self._executions)} executions>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if self._executions is None else str(self))

    def _repr_html_(self) -> str:
        return notebook([each._stored for each in self.executions])


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


def _measured(document: Execution) -> MeasuredExecution:
    rows = execution_rows(document)
    return MeasuredExecution(replace(rows, finding=_FINDER.rows(rows)))
