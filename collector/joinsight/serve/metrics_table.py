"""Every metric that the collector exports, in one table: the source of the registry and of docs/metrics.md.

Labels never contain ids or texts. The values of a label are known in advance and exist from the start, so that
``increase()`` sees the first failure too; or it is `JOB_NAME`, whose number is limited; or `TOKEN`, whose values the
operator chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from joinsight.contract.document import ENDED
from joinsight.findings import HEURISTICS, SEVERITIES
from joinsight.plan.decisions import KINDS
from joinsight.plan.operators import JOIN_STRATEGIES, JOIN_TYPES
from joinsight.serve.refusals import REFUSED
from joinsight.tables import FORECAST_KINDS, MEASURES
from joinsight.timing.cost_kinds import WITH_TASKS

_BYTES = tuple(2.0**power for power in range(16, 43, 2))  # 64 KiB to 4 TiB, powers of 4
_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)
_TASK_SECONDS = (*_SECONDS, 36_000.0)
_WRITE_SECONDS = (0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_RATIOS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_PARTITIONS = (1.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0)
_DOCUMENTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Label:
    """A label; without `values`, its values are not known in advance."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric. The name of a counter ends in ``_total``, as on the page."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    unit: str
    """The unit of its values: a base unit, or the items that are counted."""
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram; the last one, infinity, is not among them."""
    of_store: bool = False
    """A gauge that is computed from the database, in the background: the same at each of its collectors, and absent
    while unknown."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of its labels."""
        return tuple(label.name for label in self.labels)

    def known(self) -> list[tuple[str, ...]]:
        """All combinations of values that its labels can have; empty if they are not known in advance."""
        return list(product(*(label.values for label in self.labels))) if self.labels else []


OTHER = "other"
"""The label value for everything without a value of its own."""
JOB_NAME = Label("job_name")
TOKEN = Label("token")
REGRESSION_KINDS = ("plan_changed", "data_grew", "same_plan")
REGRESSION_SUBJECTS = ("query", "join", "shuffle", "broadcast")
REFUSALS = ("json", "schema", "version", "size", "database", "fault")
_JOIN_TYPES = (*JOIN_TYPES, OTHER)
_AQE_KINDS = tuple(KINDS)
_STATUSES = ("200", "400", "401", "403", "408", "413", "415", "429", "500", "503")
_FINDINGS = Label("finding", tuple(heuristic.id for heuristic in HEURISTICS))
_STRATEGIES = Label("strategy", JOIN_STRATEGIES)
_STATES = Label("state", ENDED)


def _counter(name: str, unit: str, help: str, *labels: Label) -> Metric:
    return Metric(name, "counter", unit, help, labels)


def _histogram(name: str, unit: str, help: str, buckets: tuple[float, ...], *labels: Label) -> Metric:
    return Metric(name, "histogram", unit, help, labels, buckets)


def _gauge(name: str, unit: str, help: str, *labels: Label) -> Metric:
    return Metric(name, "gauge", unit, help, labels)


def _of_store(name: str, unit: str, help: str, *labels: Label) -> Metric:
    return Metric(name, "gauge", unit, help, labels, of_store=True)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of related metrics."""

    title: str
    about: str
    metrics: tuple[Metric, ...]


GROUPS = (
    Group(
        "Executions",
        "SQL executions, counted when they succeed or fail.",
        (
            _counter(
                "joinsight_executions_total",
                "executions",
                "SQL executions that succeeded, failed or were lost; a lost one that reappears is counted again",
                Label("state", (*ENDED, "lost")),
            ),
            _histogram("joinsight_execution_seconds", "seconds", "Duration of SQL executions", _SECONDS),
            _counter(
                "joinsight_execution_task_seconds_total", "seconds", "Run time of the tasks of SQL executions, summed"
            ),
            _counter(
                "joinsight_task_seconds_total",
                "seconds",
                "Run time of the tasks of SQL executions, summed, by kind of work (docs/cost.md)",
                Label("kind", WITH_TASKS),
            ),
            _counter(
                "joinsight_execution_input_bytes_total", "bytes", "Bytes read from sources by tasks of SQL executions"
            ),
            _counter("joinsight_execution_spilled_bytes_total", "bytes", "Bytes that SQL executions spilled to disk"),
            _counter(
                "joinsight_incomplete_executions_total",
                "executions",
                "SQL executions that succeeded or failed and whose numbers may be partial",
            ),
            _of_store("joinsight_running_executions", "executions", "SQL executions currently running"),
            _of_store(
                "joinsight_running_oldest_start_timestamp_seconds",
                "seconds",
                "When the longest-running current SQL execution started; absent when none is running",
            ),
            _of_store(
                "joinsight_reporting_applications",
                "applications",
                "Applications that have not ended and were in contact in the last 5 minutes",
            ),
        ),
    ),
    Group(
        "Broadcasts",
        "Broadcast exchanges of the final plans of executions that succeeded or failed.",
        (
            _counter(
                "joinsight_broadcasts_total",
                "broadcasts",
                "Broadcasts by outcome; unknown: not measured, because AQE did not need it or an earlier execution"
                " made it",
                Label("outcome", ("succeeded", "failed", "unknown")),
            ),
            _histogram("joinsight_broadcast_size_bytes", "bytes", "Size of broadcast relations in memory", _BYTES),
            _histogram(
                "joinsight_broadcast_seconds",
                "seconds",
                "Driver time of broadcasts by phase",
                _SECONDS,
                Label("phase", ("collect", "build", "broadcast")),
            ),
        ),
    ),
    Group(
        "Shuffles",
        "Measured shuffle exchanges of the final plans of executions that succeeded or failed.",
        (
            _counter("joinsight_shuffles_total", "shuffles", "Shuffles"),
            _counter("joinsight_shuffle_written_bytes_total", "bytes", "Bytes written by shuffles"),
            _counter("joinsight_shuffle_written_records_total", "records", "Records written by shuffles"),
            _counter("joinsight_shuffle_write_seconds_total", "seconds", "Time to write shuffles, summed over tasks"),
            _counter(
                "joinsight_shuffle_read_bytes_total",
                "bytes",
                "Bytes read from shuffles, by source: local (same host) or remote",
                Label("source", ("local", "remote")),
            ),
            _histogram("joinsight_shuffle_size_bytes", "bytes", "Bytes written by one shuffle", _BYTES),
            _histogram(
                "joinsight_shuffle_fetch_wait_seconds",
                "seconds",
                "Time that the tasks reading one shuffle waited for its blocks, summed",
                _TASK_SECONDS,
            ),
            _histogram(
                "joinsight_shuffle_skew_ratio",
                "ratio",
                "Ratio of rows read by the largest task and by the median task",
                _RATIOS,
            ),
            _histogram("joinsight_shuffle_partitions", "partitions", "Partitions of one shuffle", _PARTITIONS),
        ),
    ),
    Group(
        "Joins and AQE",
        "Joins of the final plans of executions that succeeded or failed, and AQE's changes to the plans.",
        (
            _counter(
                "joinsight_joins_total",
                "joins",
                "Joins by strategy and join type",
                _STRATEGIES,
                Label("join_type", _JOIN_TYPES),
            ),
            _counter("joinsight_join_output_rows_total", "rows", "Output rows of joins, by strategy", _STRATEGIES),
            _counter(
                "joinsight_join_spilled_bytes_total",
                "bytes",
                "Bytes that joins and their sorts spilled, by size in memory",
            ),
            _counter(
                "joinsight_aqe_decisions_total",
                "decisions",
                "Changes by AQE to running plans, by kind (joinsight docs aqe)",
                Label("kind", _AQE_KINDS),
            ),
        ),
    ),
    Group(
        "Findings and regressions",
        "Problems that need attention: docs/findings.md and docs/regressions.md.",
        (
            _counter(
                "joinsight_findings_total",
                "findings",
                "Findings in SQL executions that succeeded or failed (joinsight docs findings)",
                _FINDINGS,
                Label("severity", SEVERITIES),
            ),
            _of_store(
                "joinsight_regressions",
                "regressions",
                "Regressions of the last 7 days, by kind and subject, counted every 5 minutes; absent when the database"
                " did not answer",
                Label("kind", REGRESSION_KINDS),
                Label("subject", REGRESSION_SUBJECTS),
            ),
            _of_store(
                "joinsight_certain_regressions",
                "queries",
                "Queries that became slower, or fail or are cancelled more often, for certain, and still do"
                " (docs/regressions.md#certain-regressions)",
                Label("measure", MEASURES),
            ),
            _of_store(
                "joinsight_forecasts",
                "operators",
                "Operators that may reach a limit within 30 days, computed once a day (docs/alerts.md#forecasts)",
                Label("kind", FORECAST_KINDS),
            ),
            _counter(
                "joinsight_notifications_total",
                "messages",
                "Attempts to tell the webhook (docs/alerts.md), by outcome; a failed one is repeated",
                Label("outcome", ("delivered", "failed")),
            ),
        ),
    ),
    Group(
        "By job",
        "The key numbers of each job.",
        (
            _counter(
                "joinsight_job_executions_total",
                "executions",
                "SQL executions that succeeded or failed, by job",
                JOB_NAME,
                _STATES,
            ),
            _counter(
                "joinsight_job_execution_seconds_total", "seconds", "Duration of SQL executions, by job", JOB_NAME
            ),
            _counter(
                "joinsight_job_task_seconds_total", "seconds", "Run time of tasks of SQL executions, by job", JOB_NAME
            ),
            _counter(
                "joinsight_job_shuffle_written_bytes_total", "bytes", "Shuffle bytes written by tasks, by job", JOB_NAME
            ),
            _counter("joinsight_job_broadcast_bytes_total", "bytes", "Bytes of broadcast relations, by job", JOB_NAME),
            _counter("joinsight_job_spilled_bytes_total", "bytes", "Bytes spilled to disk, by job", JOB_NAME),
            _counter("joinsight_job_findings_total", "findings", "Findings, by job", JOB_NAME, _FINDINGS),
            _gauge(
                "joinsight_job_info",
                "1",
                "Always 1; team and user by the tags of the job's last execution, if it has them",
                JOB_NAME,
                Label("team"),
                Label("user"),
            ),
        ),
    ),
    Group(
        "Delivery",
        "Delivery of documents from the drivers.",
        (
            _of_store(
                "joinsight_undelivered_documents",
                "documents",
                "Documents that have not arrived, of listeners in contact in the last 24 h. By application: running,"
                " ended or silent (no contact for 5 minutes). By fate: missing, refused, or dropped in the driver."
                " Missing documents of a running application may still wait in the driver or its spool",
                Label("application", ("running", "ended", "silent")),
                Label("fate", ("missing", "refused", "dropped")),
            ),
            _of_store(
                "joinsight_dropped_events",
                "events",
                "Events that Spark dropped, unseen by its listeners, for listeners in contact in the last 24 h",
            ),
        ),
    ),
    Group(
        "The collector",
        "Requests, from arrival to the database. Documents from event logs count here too.",
        (
            _counter(
                "joinsight_requests_total",
                "requests",
                "Requests to /v1/documents by response status",
                Label("status", _STATUSES),
            ),
            _counter("joinsight_token_requests_total", "requests", "Requests to /v1/documents by token name", TOKEN),
            _counter("joinsight_received_bytes_total", "bytes", "Bytes of requests, as received over the wire"),
            _histogram("joinsight_batch_documents", "documents", "Documents in a decoded request", _DOCUMENTS),
            _histogram(
                "joinsight_decode_seconds",
                "seconds",
                "Time to decompress, parse and validate a request",
                _WRITE_SECONDS,
            ),
            _histogram(
                "joinsight_write_seconds",
                "seconds",
                "Time to write one or several requests to PostgreSQL, including computing rows and findings",
                _WRITE_SECONDS,
            ),
            _counter(
                "joinsight_documents_total",
                "documents",
                "Documents by outcome: stored, stale (duplicate or outdated), refused",
                Label("outcome", ("stored", "stale", "refused")),
            ),
            _counter(
                "joinsight_refused_documents_total",
                "documents",
                "Refused documents by reason: json (invalid JSON), schema (violates the schema), version (another"
                " schema version), size (too large), database (value rejected by PostgreSQL), fault (of the collector)",
                Label("reason", REFUSALS),
            ),
            _gauge(
                "joinsight_last_write_timestamp_seconds",
                "seconds",
                "When a batch was last written; 0: never since startup",
            ),
            _gauge("joinsight_requests_waiting", "requests", "Requests being written or waiting to be written"),
            _gauge("joinsight_requests_held_bytes", "bytes", "Bytes of requests in memory"),
            _gauge(
                "joinsight_refused_clients",
                "clients",
                "Addresses refused in the last hour, by status: 401 the token, 403 the host, 415 the media type",
                Label("status", REFUSED),
            ),
            _of_store(
                "joinsight_database_up", "1 or 0", "Whether the database answers this collector, probed every 15 s"
            ),
            _of_store(
                "joinsight_default_partition_executions",
                "executions",
                "Executions with an impossible start time, which belong to no month's partition",
            ),
            _gauge("joinsight_build_info", "1", "Always 1; the version of the collector", Label("version")),
        ),
    ),
)
METRICS = tuple(metric for group in GROUPS for metric in group.metrics)
