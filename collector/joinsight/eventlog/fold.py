"""Items of a log, in order, to documents: what a piece could not decide is decided here.

One `Fold` an application attempt. Its state is bounded by what runs at the same time, not by the length of the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar, cast

import msgspec

import joinsight
from joinsight.decode import decode_document
from joinsight.document import STAGE_TOTALS, Application, Document, Execution, Job, Listener, Metric, Stage
from joinsight.errors import DocumentError
from joinsight.eventlog import events, plans, settings
from joinsight.eventlog.cutting import cut
from joinsight.eventlog.executions import Executions, Running
from joinsight.eventlog.piece import Gap, Item
from joinsight.eventlog.redaction import MAX_CALL_SITE, REDACT_LITERALS, Redaction
from joinsight.eventlog.stages import StageAttempt
from joinsight.eventlog.tasks import TaskBlock
from joinsight.incomplete import Reason, reason

_D = TypeVar("_D", Application, Execution)
_NAMESPACE = uuid.UUID("6f1c2d0e-2f0b-5d3c-9a53-7d6f0c1f9e11")


class Fold:
    """Feed it items with `add`; take documents of executions that are over from it, and the rest from `finish`."""

    def __init__(self, application_id: str = "", attempt_id: str = "") -> None:
        """The ids are those of the log's name; what the log itself says comes before them."""
        self._application = events.ApplicationStart(id=application_id or None, attempt_id=attempt_id or None)
        self._spark_version = ""
        self._settings: dict[str, str] = {}
        self._configuration: dict[str, str] = {}
        self._redaction = Redaction({})
        self._started = False
        self._ended_at: int | None = None
        self._now = 0
        self._sequence = 0
        self._over: dict[int, Running] = {}
        self._executions = Executions(lambda e: self._over.update({e.id: e}))
        self.refused: list[tuple[int, str]] = []
        """Executions whose document breaks the schema, with the reason: the log holds what no Spark writes."""
        self.withheld: str | None = None
        """Why this log gives no documents."""

    def add(self, items: Iterable[tuple[int, Item]], lines_before: int = 0) -> Iterator[Document]:
        """Documents of the executions that the items end. `lines_before` are those of the pieces before."""
        for number, of_line in groupby(items, key=itemgetter(0)):
            self._sequence = lines_before + number
            for _, item in of_line:
                self._apply(item)
            if self._over:  # after all items of the line: documents of an execution differ in their number
                over = [self._document(e) for e in self._over.values()]
                self._over.clear()
                yield from (document for document in over if document is not None)

    def finish(self, lines: int, is_open: bool, why: Reason | None = None) -> Iterator[Document]:
        """Documents of what is left at the log's end, after so many lines, and of the application.

        `is_open`: the log is not complete, its application may still run. `why` not all of it could be read.
        """
        self._sequence = lines + 1
        for e in [*self._executions.changed(), *self._executions.live.values()]:
            if e.values is None:
                e.values = self._executions.values(e)
            if e.ended_at is None or any(job.ended_at is None for job in e.jobs.values()):
                e.gaps[why or reason("log_ends")] = None
            document = self._document(e, is_open)
            if document is not None:
                yield document
        application = self._checked(self._application_document()) if self._started else None
        if application is not None:  # else only its executions, if there are any, say that it was
            yield application

    def _apply(self, item: Item) -> None:
        executions = self._executions
        if isinstance(item, TaskBlock):
            executions.tasks(item)
            self._now = max(self._now, item.finished_at)
        elif isinstance(item, events.ExecutionStart):
            executions.start(item)
            self._now = max(self._now, item.time)
        elif isinstance(item, events.AdaptiveUpdate):
            executions.adaptive_update(item, self._now)
        elif isinstance(item, events.MetricUpdates):
            executions.metric_updates(item, self._now)
        elif isinstance(item, events.DriverUpdates):
            executions.driver_updates(item)
        elif isinstance(item, events.ExecutionEnd):
            executions.end(item)
            self._now = max(self._now, item.time)
        elif isinstance(item, events.JobStart):
            executions.job_start(item)
            self._now = max(self._now, item.time)
        elif isinstance(item, events.JobEnd):
            executions.job_end(item)
            self._now = max(self._now, item.time)
        elif isinstance(item, events.StageSubmitted):
            executions.stage_submitted(item)
            self._now = max(self._now, item.stage.submitted_at or 0)
        elif isinstance(item, events.StageCompleted):
            executions.stage_completed(item)
            self._now = max(self._now, item.stage.completed_at or 0)
        elif isinstance(item, Gap):
            executions.gap(item.reason)
        else:
            self._apply_to_application(item)

    def _apply_to_application(self, item: Item) -> None:
        if isinstance(item, events.LogStart):
            self._spark_version = item.spark_version
            self._executions.stages_see_later_metrics = not item.spark_version.startswith(("2.", "3."))
        elif isinstance(item, events.EnvironmentUpdate):
            self._settings = item.spark
            self._redaction = Redaction(item.spark)
            self._configuration = self._redaction.properties(settings.allowed(item.spark))
            if item.spark.get(REDACT_LITERALS, "").strip().lower() == "true":
                self.withheld = f"its application sets {REDACT_LITERALS}, and literals cannot be taken out of a log yet"
        elif isinstance(item, events.ApplicationStart) and not self._started:
            self._started = True
            if item.id is None:
                item.id, item.attempt_id = self._application.id, self._application.attempt_id
            self._application = item
            self._now = max(self._now, item.time)
        elif isinstance(item, events.ApplicationEnd):
            self._ended_at = item.time

    # Documents

    def _head(self) -> dict[str, Any]:
        application_id = self._application.id or "unknown"
        attempt_id = self._application.attempt_id or ""
        name = self._application.name or self._settings.get("spark.app.name", "")
        text = self._redaction.text
        return {
            "schema_version": 1,
            "origin": "event_log",
            "listener": _listener(application_id, attempt_id, self._spark_version or "unknown"),
            "sequence": max(1, self._sequence),
            "application_id": application_id,
            "attempt_id": attempt_id,
            "application_name": text(name),
            "job_name": text(self._settings.get(f"{settings.PREFIX}jobName", name)),
        }

    def _application_document(self) -> Application:
        return Application(
            **self._head(),
            state="running" if self._ended_at is None else "ended",
            started_at_ms=self._application.time,
            ended_at_ms=self._ended_at,
            user=self._redaction.text(self._application.user),
            master=self._redaction.text(self._settings.get("spark.master", "")),
            tags=self._tags(),
            configuration=self._configuration,
        )

    def _tags(self) -> dict[str, str]:
        return self._redaction.properties(settings.tags(self._settings))

    def _document(self, e: Running, is_open: bool = False) -> Execution | None:
        if e.ended_at is not None:
            state = "succeeded" if e.error is None else "failed"
        else:
            state = "running" if is_open else "lost"
        redaction = self._redaction.of_session(e.modified)
        text = redaction.text
        nodes, trees = plans.table(e.plans, text)
        batch = e.streaming_batch_id
        reasons = _incomplete(e)
        document = Execution(
            **self._head(),
            execution_id=e.id,
            root_execution_id=e.root_id,
            state=state,  # type: ignore[arg-type]
            started_at_ms=e.started_at,
            ended_at_ms=e.ended_at,
            description=cut(text(e.description)),
            call_site=cut(text(e.call_site), MAX_CALL_SITE),
            error=None if e.error is None else cut(text(e.error)),
            job_group=None if e.job_group is None else cut(text(e.job_group)),
            job_tags=[text(tag) for tag in e.job_tags],
            streaming_query_id=None if e.streaming_query_id is None else cut(text(e.streaming_query_id)),
            streaming_batch_id=int(batch) if batch is not None and batch.isdecimal() else None,
            tags=self._tags(),
            configuration=settings.of_session(self._configuration, redaction.properties(settings.allowed(e.modified))),
            nodes=nodes,
            plans=trees,
            plans_dropped=e.plans_dropped,
            announced=[Metric(metric.name, metric.id, metric.type) for metric in e.announced_alone],
            accumulators=[measured.accumulator() for measured in e.values or ()],
            jobs=[Job(j.id, j.submitted_at, j.stages, j.state, j.ended_at) for j in e.jobs.values()],  # type: ignore[arg-type]
            stages=[_stage(attempt, e.ended_at is not None, redaction) for attempt in e.attempts.values()],
            incomplete=[why.text for why in reasons],
            incomplete_codes=list(dict.fromkeys(why.code for why in reasons)),
        )
        return self._checked(document)

    def _checked(self, document: _D) -> _D | None:
        """The document as it would have come over the wire; None, and a note, if it breaks the schema."""
        if self.withheld is not None:
            return None
        try:
            return cast(_D, decode_document(msgspec.json.encode(document)))
        except (DocumentError, UnicodeEncodeError, OverflowError) as error:
            self.refused.append((getattr(document, "execution_id", -1), str(error)))
            return None


@lru_cache(8)
def _listener(application_id: str, attempt_id: str, spark_version: str) -> Listener:
    """The same for each reading of the same log by the same version of this program."""
    version = joinsight.__version__
    return Listener(str(uuid.uuid5(_NAMESPACE, f"{application_id}\n{attempt_id}\n{version}")), version, spark_version)


def _stage(attempt: StageAttempt, execution_ended: bool, redaction: Redaction) -> Stage:
    if attempt.submitted_at is None:
        state = "skipped" if execution_ended else "pending"
    elif attempt.completed:
        state = "succeeded" if attempt.failure is None else "failed"
    else:
        state = "running"
    numbers: dict[str, Any] = {name: max(0, total) for name, total in zip(STAGE_TOTALS, attempt.totals, strict=True)}
    numbers |= attempt.spreads()
    return Stage(
        id=attempt.stage,
        attempt=attempt.attempt,
        name=redaction.text(attempt.name),
        tasks=attempt.tasks,
        state=state,  # type: ignore[arg-type]
        succeeded_tasks=attempt.succeeded,
        failed_tasks=attempt.failed,
        killed_tasks=attempt.killed,
        submitted_at_ms=attempt.submitted_at,
        completed_at_ms=attempt.completed_at,
        failure=None if attempt.failure is None else cut(redaction.text(attempt.failure)),
        **numbers,
    )


def _incomplete(e: Running) -> list[Reason]:
    reasons = [] if e.start_seen else [reason("start_not_seen")]
    for a in e.attempts.values():
        if a.completed and a.failure is None and a.succeeded < a.tasks:
            missing = a.tasks - a.succeeded
            reasons.append(reason("task_ends_not_seen", missing=missing, tasks=a.tasks, stage=a.stage))
    reasons += e.gaps
    if e.plans_dropped > 0:
        reasons.append(reason("plans_dropped", plans=e.plans_dropped))
    return reasons
