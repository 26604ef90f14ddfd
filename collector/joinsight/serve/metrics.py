"""What the collector tells Prometheus, as `metrics_table` declares it: of live executions that succeeded or failed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
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
from joinsight.rows import Row, Rows
from joinsight.serve.metrics_table import METRICS, OTHER, REGRESSION_KINDS, REGRESSION_SUBJECTS, Label, Metric
from joinsight.serve.places import Places
from joinsight.store.going_on import GoingOn

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter, which nobody reads

DEFAULT_JOB_NAMES = 100
_NAME_CHARACTERS = 100
_KINDS = {"counter": Counter, "gauge": Gauge}
_GOING_ON = (
    "joinsight_running_executions",
    "joinsight_running_oldest_start_timestamp_seconds",
    "joinsight_reporting_applications",
    "joinsight_undelivered_documents",
    "joinsight_dropped_events",
)
_BY_NAME = {metric.name: metric for metric in METRICS}


class Metrics:
    """All metrics of one collector, in a registry of their own; of as many jobs by name as `job_names` says."""

    def __init__(self, job_names: int = DEFAULT_JOB_NAMES) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._own = {metric.name: _made(metric, registry) for metric in METRICS if not metric.of_store}
        self._of_store: dict[str, dict[tuple[str, ...], float]] = {}
        registry.register(_OfStore(self._of_store))
        self._jobs: set[str] = set()
        self._lock = threading.Lock()
        self._job_names = job_names
        self.set("joinsight_build_info", 1, __version__)

    # What all parts of the collector count

    def count(self, name: str, amount: float | None = 1, *labels: str) -> None:
        """Add to a counter; nothing for None.

        What announces itself with another type than Spark's may be negative: a counter must not go back.
        """
        if amount is not None:
            self._child(name, labels).inc(max(0, amount))

    def observe(self, name: str, value: float | None, *labels: str) -> None:
        """Add a value to a histogram; nothing for None."""
        if value is not None:
            self._child(name, labels).observe(max(0, value))

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge of the collector's own."""
        self._child(name, labels).set(value)

    def show(self, places: Places) -> None:
        """Show what requests hold whenever the page is asked for."""
        self._child("joinsight_requests_waiting").set_function(lambda: places.waiting)
        self._child("joinsight_requests_held_bytes").set_function(lambda: places.bytes)

    def written(self) -> None:
        """A batch is in the database."""
        self._child("joinsight_last_write_timestamp_seconds").set_to_current_time()

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)

    def _child(self, name: str, labels: tuple[str, ...] = ()) -> Any:
        if not labels:
            return self._own[name]
        values = map(_value, _BY_NAME[name].labels, labels)
        return self._own[name].labels(*values)

    # What the database knows

    def count_regressions(self, found: Mapping[tuple[str, str], int] | None) -> None:
        """Show how many regressions there are of each kind and subject, 0 too; nothing at all for None."""
        pairs = product(REGRESSION_KINDS, REGRESSION_SUBJECTS)
        self._show("joinsight_regressions", None if found is None else {pair: found.get(pair, 0) for pair in pairs})

    def count_going_on(self, found: GoingOn | None) -> None:
        """Show what runs and what did not arrive; nothing of it for None: the database did not answer."""
        self._show("joinsight_database_up", {(): 0 if found is None else 1})
        shown: dict[str, Mapping[Any, float]] = {}
        if found is not None:
            shown["joinsight_running_executions"] = {(): found.executions}
            shown["joinsight_reporting_applications"] = {(): found.applications}
            shown["joinsight_undelivered_documents"] = found.undelivered
            shown["joinsight_dropped_events"] = {(): found.dropped_events}
            if found.oldest_start is not None:
                shown["joinsight_running_oldest_start_timestamp_seconds"] = {(): found.oldest_start.timestamp()}
        for name in _GOING_ON:
            self._show(name, shown.get(name))

    def count_misplaced(self, executions: int) -> None:
        """Show how many executions are in the default partition."""
        self._show("joinsight_default_partition_executions", {(): executions})

    def _show(self, name: str, values: Mapping[Any, float] | None) -> None:
        if values is None:
            self._of_store.pop(name, None)
        else:
            self._of_store[name] = dict(values)

    # Executions

    def finished(self, rows: Rows) -> None:
        """Count an execution that succeeded or failed, of whose rows `finding` may be missing."""
        execution = rows["execution"][0]
        if execution["origin"] != "live":
            return
        findings = rows.get("finding", [])
        self._execution(execution)
        for row in rows["shuffle"]:
            self._shuffle(row)
        for row in rows["broadcast"]:
            self._broadcast(row)
        for row in rows["joins"]:
            self._join(row)
        for row in rows["aqe_decision"]:
            self.count("joinsight_aqe_decisions_total", 1, row["kind"])
        for row in findings:
            self.count("joinsight_findings_total", 1, row["finding"], row["severity"])
        self._job(self._job_name(execution["job_name"]), rows, findings)

    def _execution(self, row: Row) -> None:
        self.count("joinsight_executions_total", 1, row["state"])
        self.observe("joinsight_execution_seconds", _seconds(row["duration_ms"]))
        self.count("joinsight_execution_task_seconds_total", _seconds(row["task_time_ms"]))
        self.count("joinsight_execution_input_bytes_total", row["input_bytes"])
        self.count("joinsight_execution_spilled_bytes_total", row["disk_spilled_bytes"])
        self.count("joinsight_incomplete_executions_total", 1 if row["incomplete"] else 0)

    def _shuffle(self, row: Row) -> None:
        self.count("joinsight_shuffles_total")
        self.count("joinsight_shuffle_written_bytes_total", row["bytes_written"])
        self.count("joinsight_shuffle_written_records_total", row["rows_written"])
        self.count("joinsight_shuffle_write_seconds_total", _seconds(row["write_time_ns"], 1e9))
        for source in ("local", "remote"):
            self.count("joinsight_shuffle_read_bytes_total", row[f"{source}_bytes_read"], source)
        self.observe("joinsight_shuffle_size_bytes", row["bytes_written"])
        self.observe("joinsight_shuffle_fetch_wait_seconds", _seconds(row["fetch_wait_ms"]))
        self.observe("joinsight_shuffle_skew_ratio", row.get("skew_ratio"))
        self.observe("joinsight_shuffle_partitions", row["partitions"])

    def _broadcast(self, row: Row) -> None:
        self.count("joinsight_broadcasts_total", 1, row["outcome"])
        self.observe("joinsight_broadcast_size_bytes", row["size_bytes"])
        for phase in ("collect", "build", "broadcast"):
            self.observe("joinsight_broadcast_seconds", _seconds(row[f"{phase}_ms"]), phase)

    def _join(self, row: Row) -> None:
        self.count("joinsight_joins_total", 1, row["strategy"], row["join_type"] or OTHER)
        self.count("joinsight_join_output_rows_total", row["output_rows"], row["strategy"])
        self.count("joinsight_join_spilled_bytes_total", row["spill_bytes"])

    # Jobs

    def _job(self, job: str, rows: Rows, findings: list[Row]) -> None:
        execution = rows["execution"][0]
        self.count("joinsight_job_executions_total", 1, job, execution["state"])
        self.count("joinsight_job_execution_seconds_total", _seconds(execution["duration_ms"]), job)
        self.count("joinsight_job_task_seconds_total", _seconds(execution["task_time_ms"]), job)
        self.count("joinsight_job_spilled_bytes_total", execution["disk_spilled_bytes"], job)
        self.count("joinsight_job_shuffle_written_bytes_total", execution["shuffle_write_bytes"], job)
        self.count("joinsight_job_broadcast_bytes_total", execution["broadcast_bytes"], job)
        for row in findings:
            self.count("joinsight_job_findings_total", 1, job, row["finding"])

    def _job_name(self, name: str) -> str:
        """The name as a label: its own if it has a place, or gets one of those that are left."""
        name = name[:_NAME_CHARACTERS] or OTHER
        with self._lock:
            if name not in self._jobs:
                if len(self._jobs) >= self._job_names:
                    return OTHER
                self._jobs.add(name)
            return name


class _OfStore(Collector):
    """Gauges whose values come from the database: those that are not known are not shown."""

    def __init__(self, values: Mapping[str, Mapping[tuple[str, ...], float]]) -> None:
        self._values = values

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """For the registry."""
        for metric in METRICS:
            values = self._values.get(metric.name)
            if values is not None:
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.label_names)
                for labels, value in values.items():
                    family.add_metric(labels, value)
                yield family


def _made(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    """The metric in the registry, with all series that are known beforehand."""
    made: Counter | Gauge | Histogram
    if metric.kind == "histogram":
        made = Histogram(metric.name, metric.help, metric.label_names, registry=registry, buckets=metric.buckets)
    else:
        made = _KINDS[metric.kind](metric.name, metric.help, metric.label_names, registry=registry)
    for values in metric.known():
        made.labels(*values)
    return made


def _value(label: Label, value: str) -> str:
    """A value that is not known beforehand where all should be (a new join type, say) is `OTHER`."""
    return value if not label.values or value in label.values else OTHER


def _seconds(amount: float | None, a_second: float = 1000) -> float | None:
    return None if amount is None else amount / a_second
