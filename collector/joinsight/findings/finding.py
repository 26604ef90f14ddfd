"""The input and output of a heuristic: the rows of one execution, and findings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from joinsight.analysis.rows import Rows
from joinsight.analysis.stored import StoredPlan, stored_plan
from joinsight.contract.incomplete import APPROXIMATED
from joinsight.findings.batch import CompletedBatch
from joinsight.findings.thresholds import Thresholds
from joinsight.plan.metrics import PlanMetrics
from joinsight.tables import BroadcastRow, ExecutionRow, JoinRow, Row, SegmentRow, ShuffleRow, StageRow
from joinsight.timing.critical_path import STAGE_CAUSES
from joinsight.verdict.cause import Cause
from joinsight.verdict.driver import may_be_contended
from joinsight.verdict.mechanisms import causes
from joinsight.verdict.view import View

WHOLE_EXECUTION = -1
"""`node_id` of a finding that is about no single node."""


class Waited(NamedTuple):
    """How long the execution waited for something."""

    wall_ms: int | None = None
    """None: unknown."""
    wall_is_partial: bool = False
    """Whether it may be more."""


UNKNOWN = Waited()


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem that a person should look at; the fields are the columns of table `finding`."""

    finding: str
    """The heuristic's id; its page is docs/findings.md#id."""
    severity: str
    title: str
    """One sentence, with the numbers."""
    evidence: Mapping[str, float]
    """Numbers by name, in the units of their names."""
    advice: str
    node_id: int = WHOLE_EXECUTION
    operator_key: str | None = None
    impact_ms: int | None = None
    """Time that it cost, if known."""
    impact_bytes: int | None = None
    """Bytes involved, if known."""
    waited: Waited = UNKNOWN
    """How long the execution waited for what the heuristic `waits_for`."""

    def columns(self) -> dict[str, Any]:
        """The columns of table `finding`, without the execution's key."""
        its = {each.name: getattr(self, each.name) for each in fields(self)}
        waited: Waited = its.pop("waited")
        return its | waited._asdict()


class History(Protocol):
    """Facts about earlier runs; queried only where this run gives reason to."""

    errors: tuple[type[Exception], ...]
    """What a query may raise; not the heuristic's fault."""

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> Sequence[int]:
        """Rows of a broadcast in the latest runs of the same job and origin before `run`."""

    def batches(self, run: ExecutionRow) -> Sequence[CompletedBatch]:
        """The latest micro-batches before `run` in the same run of its streaming query, with the same shape."""

    def fills(self, run: ExecutionRow, cache_id: int) -> Sequence[int]:
        """The task times in which executions of its application before `run` filled a cached table."""

    def runs(self, run: ExecutionRow) -> Sequence[Row]:
        """The latest complete runs of the same query, job and origin before `run`, as `StoredPlan` has them."""

    def started(self, run: ExecutionRow) -> Sequence[StoredPlan]:
        """The executions that `run` started, the longest ones, with at least their plans."""


class NoHistory:
    """A history without a store."""

    errors: tuple[type[Exception], ...] = ()

    def broadcast_rows(self, operator_key: str, run: ExecutionRow) -> Sequence[int]:
        """None are known."""
        return ()

    def batches(self, run: ExecutionRow) -> Sequence[CompletedBatch]:
        """None are known."""
        return ()

    def fills(self, run: ExecutionRow, cache_id: int) -> Sequence[int]:
        """None are known."""
        return ()

    def runs(self, run: ExecutionRow) -> Sequence[Row]:
        """None are known."""
        return ()

    def started(self, run: ExecutionRow) -> Sequence[StoredPlan]:
        """None are known."""
        return ()


@dataclass(frozen=True)
class PlanContext:
    """The rows of one execution, by table, and what several heuristics look up in them."""

    rows: Rows
    limits: Thresholds = field(default_factory=Thresholds)
    history: History = field(default_factory=NoHistory)

    @property
    def execution(self) -> ExecutionRow:
        """Its row."""
        return self.rows.execution

    @property
    def is_running(self) -> bool:
        """Whether it runs: the rows are those of its last report."""
        return self.execution.state == "running"

    @property
    def duration_ms(self) -> int | None:
        """How long it took, or so far; None: unknown."""
        if self.is_running:
            return self.rows.segment[-1].end_ms if self.rows.segment else None
        return self.execution.duration_ms

    @cached_property
    def is_whole(self) -> bool:
        """All that ran was measured, and it ran to its end, or still runs.

        Else sums, numbers of rows and bytes are least values. Of a stage that was tried again, Spark counts the last
        attempt only.
        """
        incomplete, codes = self.execution.incomplete, self.execution.incomplete_codes
        unseen = incomplete and codes != [APPROXIMATED]
        again = any(stage.stage_attempt > 0 for stage in self.rows.stage)
        return self.execution.state in ("succeeded", "running") and not unseen and not again

    @property
    def takes_long(self) -> bool:
        """Whether a finding about time can be made at all."""
        duration = self.duration_ms
        return duration is not None and duration >= self.limits.wall_ms

    def is_worth_it(self, finding: Finding) -> bool:
        """Whether enough wall time is at stake for a finding about time."""
        wall, duration = finding.waited.wall_ms, self.duration_ms
        if wall is None or duration is None:
            return False
        return wall >= self.limits.wall_ms and wall >= self.limits.wall_share * duration

    @cached_property
    def view(self) -> View:
        """The execution as the verdict sees it."""
        view = View(self._stored)
        if not self.takes_long or self.is_running or not may_be_contended(view):
            return view
        return View(replace(self._stored, earlier=self.history.runs(self.execution)))

    @cached_property
    def _stored(self) -> StoredPlan:
        return stored_plan(self.rows)

    @cached_property
    def causes(self) -> Sequence[Cause]:
        """Those of the verdict; of several about one operator that say why, the one that explains most.

        Stages of tiny tasks are one: those that all of them together have, too, are left out.
        """
        found: dict[tuple[int, ...] | str, Cause] = {}
        places = []
        its = list(causes(self.view))
        all_tiny = {i for each in its if each.code == "tiny_tasks" and each.is_together for i in each.nodes}
        for cause in its:
            if cause.code == "tiny_tasks" and not cause.is_together and all_tiny.issuperset(cause.nodes) and all_tiny:
                continue
            if cause.only_says_where:
                places.append(cause)
                continue
            about = cause.nodes[:1] or cause.code
            if about not in found or found[about].wall_ms < cause.wall_ms:
                found[about] = cause
        return [*found.values(), *places]

    @cached_property
    def batches(self) -> Sequence[CompletedBatch]:
        """The micro-batches of its streaming query before it, the latest first."""
        return self.history.batches(self.execution)

    @property
    def plan(self) -> PlanMetrics:
        """The final plan with what was measured at its nodes."""
        return self._stored.plan

    def stages(self, ids: Iterable[int]) -> list[StageRow]:
        """The attempts of these stages that ran."""
        return [row for stage_id in sorted(set(ids)) for row in self._stages.get(stage_id, ())]

    @cached_property
    def _stages(self) -> Mapping[int, Sequence[StageRow]]:
        found: dict[int, list[StageRow]] = defaultdict(list)
        for row in self.rows.stage:
            if row.totals is not None:
                found[row.stage_id].append(row)
        return found

    @cached_property
    def shuffles(self) -> Mapping[int | None, ShuffleRow]:
        """The shuffles by node id."""
        return {row.node_id: row for row in self.rows.shuffle}

    @cached_property
    def joins(self) -> Mapping[int | None, JoinRow]:
        """The joins by node id."""
        return {row.node_id: row for row in self.rows.joins}

    def waited_for_join(self, join: JoinRow) -> Waited:
        """The join, with what only it needed."""
        return Waited(join.cost_wall_ms, join.cost_wall_ms is not None and bool(join.cost_is_partial))

    def waited_for_exchanges(self, exchanges: Iterable[ShuffleRow | BroadcastRow]) -> Waited:
        """Making shuffles or broadcasts, and waiting for their rows."""
        each = [row.cost_wall_ms for row in exchanges]
        known = [ms for ms in each if ms is not None]
        return Waited(sum(known), len(known) < len(each)) if known else UNKNOWN

    def waited_for_stages(self, ids: Iterable[int]) -> Waited:
        """Stages, while their tasks ran."""
        wanted = set(ids)
        return self.waited_in(lambda segment: segment.cause in STAGE_CAUSES and segment.stage_id in wanted)

    def waited_for_tail(self, stage: StageRow) -> Waited:
        """The last tasks of a stage."""
        if stage.tail_at is None and stage.width is None:
            return UNKNOWN
        attempt = (stage.stage_id, stage.stage_attempt)
        return self.waited_in(lambda its: its.cause == "tail" and (its.stage_id, its.stage_attempt) == attempt)

    def waited_in(self, is_one: Callable[[SegmentRow], bool]) -> Waited:
        """Segments of the critical path."""
        if not self.rows.segment:
            return UNKNOWN
        return Waited(sum(segment.end_ms - segment.start_ms for segment in self.rows.segment if is_one(segment)))


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Looks for one kind of finding; an unmeasured value never makes one."""

    id: str
    evaluate: Callable[[PlanContext], Iterator[Finding]]
    waits_for: str = ""
    """What the execution waited for, in the words of docs/findings.md: the wall time of its findings."""
    needs_whole: bool = True
    """Whether a finding could be due to missing measurements, because the execution failed or is incomplete. Otherwise
    the measured values are lower bounds, which are sufficient."""
    is_about_time: bool = True
    """Whether a finding is made only from a share of the wall time on. Others are about what fails, or soon will."""
    is_place: bool = False
    """Whether it only says where the time went, and others why."""
    while_running: bool = False
    """Whether it also looks at executions that run."""
    unless: tuple[str, ...] = ()
    """Where a finding of one of these kinds was made, it says more."""
    while_only_reader: bool = False
    """Whether its findings are of a cached table, and hold only until another execution uses that too."""
