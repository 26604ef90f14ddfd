"""The metrics of a collector, as `metrics_table` declares them; executions count when they succeed or fail, live."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from joinsight import __version__
from joinsight.analysis.rows import Rows
from joinsight.serve.admission import Admission
from joinsight.serve.metrics_table import JOB_NAME, METRICS, OTHER, REGRESSION_KINDS, REGRESSION_SUBJECTS, Label, Metric
from joinsight.serve.refusals import REFUSED, Refusals
from joinsight.store.activity import Activity
from joinsight.tables import (
    DRIVER_PHASES,
    FORECAST_KINDS,
    MEASURES,
    BroadcastRow,
    ExecutionRow,
    JoinRow,
    ShuffleRow,
    owner,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # would add a series for each counter

DEFAULT_JOB_NAMES = 100
_NAME_CHARACTERS = 100
_KINDS = {"counter": Counter, "gauge": Gauge}
_BY_NAME = {metric.name: metric for metric in METRICS}

Call = tuple[Any, ...]
"""A method of `WriterCounts`, and its arguments."""


class WriterCounts:
    """What a writer counts."""

    def count(self, name: str, amount: float | None = 1, *labels: str) -> None:
        """Add to a counter; None is ignored."""
        raise NotImplementedError

    def observe(self, name: str, value: float | None, *labels: str) -> None:
        """Add a value to a histogram; None is ignored."""
        raise NotImplementedError

    def written(self) -> None:
        """Note that a batch was written now."""
        raise NotImplementedError

    def own(self, job: str, team: str, user: str) -> None:
        """Note whose a job is; the last call counts."""
        raise NotImplementedError

    def finished(self, rows: Rows) -> None:
        """Count an execution that succeeded or failed."""
        execution = rows.execution
        if execution.origin != "live" or execution.is_outer:
            return
        self._execution(execution)
        for cost in rows.cost:
            self.count("joinsight_task_seconds_total", _seconds(cost.task_ms), cost.kind)
        for shuffle in rows.shuffle:
            self._shuffle(shuffle)
        for broadcast in rows.broadcast:
            self._broadcast(broadcast)
        for join in rows.joins:
            self._join(join)
        for decision in rows.aqe_decision:
            self.count("joinsight_aqe_decisions_total", 1, decision.kind)
        for finding in rows.finding:
            self.count("joinsight_findings_total", 1, finding.finding, finding.severity)
        self._job(execution.job_name, rows)

    def _execution(self, row: ExecutionRow) -> None:
        self.count("joinsight_executions_total", 1, row.state)
        self.observe("joinsight_execution_seconds", _seconds(row.duration_ms))
        self.count("joinsight_execution_task_seconds_total", _seconds(row.task_time_ms))
        self.count("joinsight_execution_input_bytes_total", row.input_bytes)
        self.count("joinsight_execution_spilled_bytes_total", row.disk_spilled_bytes)
        self.count("joinsight_incomplete_executions_total", 1 if row.incomplete else 0)

    def _shuffle(self, row: ShuffleRow) -> None:
        self.count("joinsight_shuffles_total")
        self.count("joinsight_shuffle_written_bytes_total", row.bytes_written)
        self.count("joinsight_shuffle_written_records_total", row.rows_written)
        self.count("joinsight_shuffle_write_seconds_total", _seconds(row.write_time_ns, 1e9))
        self.count("joinsight_shuffle_read_bytes_total", row.local_bytes_read, "local")
        self.count("joinsight_shuffle_read_bytes_total", row.remote_bytes_read, "remote")
        self.observe("joinsight_shuffle_size_bytes", row.bytes_written)
        self.observe("joinsight_shuffle_fetch_wait_seconds", _seconds(row.fetch_wait_ms))
        self.observe("joinsight_shuffle_skew_ratio", row.skew_ratio)
        self.observe("joinsight_shuffle_partitions", row.partitions)

    def _broadcast(self, row: BroadcastRow) -> None:
        self.count("joinsight_broadcasts_total", 1, row.outcome)
        self.observe("joinsight_broadcast_size_bytes", row.size_bytes)
        for column in DRIVER_PHASES:
            self.observe("joinsight_broadcast_seconds", _seconds(getattr(row, column)), column.removesuffix("_ms"))

    def _join(self, row: JoinRow) -> None:
        self.count("joinsight_joins_total", 1, row.strategy, row.join_type or OTHER)
        self.count("joinsight_join_output_rows_total", row.output_rows, row.strategy)
        self.count("joinsight_join_spilled_bytes_total", row.spill_bytes)

    # Jobs

    def _job(self, job: str, rows: Rows) -> None:
        execution = rows.execution
        self.count("joinsight_job_executions_total", 1, job, execution.state)
        if execution.root_execution_id == execution.execution_id or execution.streaming_query_id:  # no `is_part`
            self.count("joinsight_job_execution_seconds_total", _seconds(execution.duration_ms), job)
        self.count("joinsight_job_task_seconds_total", _seconds(execution.task_time_ms), job)
        self.count("joinsight_job_spilled_bytes_total", execution.disk_spilled_bytes, job)
        self.count("joinsight_job_shuffle_written_bytes_total", execution.shuffle_write_bytes, job)
        self.count("joinsight_job_broadcast_bytes_total", execution.broadcast_bytes, job)
        for row in rows.finding:
            self.count("joinsight_job_findings_total", 1, job, row.finding)
        its = owner(execution.tags)
        if any(its.values()):
            self.own(job, its["team"] or "", its["user"] or "")


class Recorder(WriterCounts):
    """Keeps the calls, for the `Metrics` of another process; safe to use from several threads."""

    def __init__(self) -> None:
        self._calls: deque[Call] = deque()

    def count(self, name: str, amount: float | None = 1, *labels: str) -> None:
        """Keep the call, unless it changes nothing."""
        if amount is not None:
            self._calls.append(("count", name, amount, *labels))

    def observe(self, name: str, value: float | None, *labels: str) -> None:
        """Keep the call, unless it changes nothing."""
        if value is not None:
            self._calls.append(("observe", name, value, *labels))

    def written(self) -> None:
        """Keep the call."""
        self._calls.append(("written",))

    def own(self, job: str, team: str, user: str) -> None:
        """Keep the call."""
        self._calls.append(("own", job, team, user))

    def take(self) -> list[Call]:
        """The calls since the last time."""
        return [self._calls.popleft() for _ in range(len(self._calls))]


class Metrics(WriterCounts):
    """All metrics of one collector, in its own registry; at most `job_names` jobs have their own series."""

    def __init__(self, job_names: int = DEFAULT_JOB_NAMES) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._own = {metric.name: _register(metric, registry) for metric in METRICS if not metric.of_store}
        self._of_store: dict[str, dict[tuple[str, ...], float]] = {}
        registry.register(_OfStore(self._of_store))
        self._jobs: set[str] = set()
        self._owners: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._job_names = job_names
        self.set("joinsight_build_info", 1, __version__)

    # Metrics of the collector's own

    def count(self, name: str, amount: float | None = 1, *labels: str) -> None:
        """Add to a counter; None is ignored.

        Negative amounts, which metrics of unknown types may have, count as 0: a counter must not decrease.
        """
        if amount is not None:
            self._child(name, labels).inc(max(0, amount))

    def observe(self, name: str, value: float | None, *labels: str) -> None:
        """Add a value to a histogram; None is ignored."""
        if value is not None:
            self._child(name, labels).observe(max(0, value))

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        self._child(name, labels).set(value)

    def show_admission(self, admission: Admission) -> None:
        """Show what requests hold at the time of each scrape."""
        self._child("joinsight_requests_waiting").set_function(lambda: admission.waiting.held)
        self._child("joinsight_requests_held_bytes").set_function(lambda: admission.bytes.held)

    def show_refusals(self, refusals: Refusals) -> None:
        """Show how many clients were refused in the hour before each scrape."""
        for status in REFUSED:
            self._child("joinsight_refused_clients", (status,)).set_function(partial(refusals.count, status))

    def written(self) -> None:
        """Note that a batch was written now."""
        self._child("joinsight_last_write_timestamp_seconds").set_to_current_time()

    def own(self, job: str, team: str, user: str) -> None:
        """Show whose a job is, if it has series of its own."""
        name = self._job_name(job)
        if name == OTHER or self._owners.get(name) == (team, user):
            return
        with self._lock:
            gauge: Any = self._own["joinsight_job_info"]
            if name in self._owners:
                gauge.remove(name, *self._owners[name])
            self._owners[name] = team, user
            gauge.labels(name, team, user).set(1)

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _child(self, name: str, labels: tuple[str, ...] = ()) -> Any:
        if not labels:
            return self._own[name]
        values = map(self._value, _BY_NAME[name].labels, labels)
        return self._own[name].labels(*values)

    def add(self, calls: Iterable[Call]) -> None:
        """Count what a `Recorder` kept."""
        for method, *arguments in calls:
            getattr(self, method)(*arguments)

    # Metrics from the database

    def set_regressions(self, regressions: Mapping[tuple[str, str], int] | None) -> None:
        """Show the number of regressions by kind and subject, with zeros; None (unknown) hides it."""
        pairs = product(REGRESSION_KINDS, REGRESSION_SUBJECTS)
        values = None if regressions is None else {pair: regressions.get(pair, 0) for pair in pairs}
        self._show("joinsight_regressions", values)

    def set_alarms(self, alarms: Mapping[str, int] | None) -> None:
        """Show the number of certain regressions by measure, with zeros; None (unknown) hides it."""
        values = None if alarms is None else {(measure,): alarms.get(measure, 0) for measure in MEASURES}
        self._show("joinsight_certain_regressions", values)

    def set_forecasts(self, forecasts: Mapping[str, int] | None) -> None:
        """Show the number of forecasts by kind, with zeros; None (unknown) hides it."""
        values = None if forecasts is None else {(kind,): forecasts.get(kind, 0) for kind in FORECAST_KINDS}
        self._show("joinsight_forecasts", values)

    def set_activity(self, activity: Activity | None) -> None:
        """Show what is running and what is undelivered; None (the database did not answer) hides it."""
        a = activity
        start = a.oldest_start.timestamp() if a and a.oldest_start else None
        self._show("joinsight_database_up", {(): 1 if a else 0})
        self._show("joinsight_running_executions", {(): a.executions} if a else None)
        self._show("joinsight_running_oldest_start_timestamp_seconds", {(): start} if start is not None else None)
        self._show("joinsight_reporting_applications", {(): a.applications} if a else None)
        self._show("joinsight_undelivered_documents", a.undelivered if a else None)
        self._show("joinsight_dropped_events", {(): a.dropped_events} if a else None)

    def set_misdated(self, executions: int) -> None:
        """Show the number of executions in the default partition."""
        self._show("joinsight_default_partition_executions", {(): executions})

    def _show(self, name: str, values: Mapping[Any, float] | None) -> None:
        if values is None:
            self._of_store.pop(name, None)
        else:
            self._of_store[name] = dict(values)

    def _value(self, label: Label, value: str) -> str:
        """`OTHER` for a value that is not declared (for example a new join type), if the label declares its values."""
        if label is JOB_NAME:
            return self._job_name(value)
        return value if not label.values or value in label.values else OTHER

    def _job_name(self, name: str) -> str:
        """The value of the label: the name if it has a series or can still get one, else `OTHER`."""
        name = name[:_NAME_CHARACTERS] or OTHER
        with self._lock:
            if name not in self._jobs:
                if len(self._jobs) >= self._job_names:
                    return OTHER
                self._jobs.add(name)
            return name


class _OfStore(Collector):
    """Gauges whose values come from the database; unknown ones are hidden."""

    def __init__(self, values: Mapping[str, Mapping[tuple[str, ...], float]]) -> None:
        self._values = values

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The metrics with known values."""
        for metric in METRICS:
            values = self._values.get(metric.name)
            if values is not None:
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.label_names)
                for labels, value in values.items():
                    family.add_metric(labels, value)
                yield family


def _register(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    """Register a metric, with all series whose labels are known beforehand."""
    registered: Counter | Gauge | Histogram
    if metric.kind == "histogram":
        registered = Histogram(metric.name, metric.help, metric.label_names, registry=registry, buckets=metric.buckets)
    else:
        registered = _KINDS[metric.kind](metric.name, metric.help, metric.label_names, registry=registry)
    for values in metric.known():
        registered.labels(*values)
    return registered


def _seconds(amount: float | None, units_per_second: float = 1000) -> float | None:
    return None if amount is None else amount / units_per_second
