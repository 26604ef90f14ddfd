"""Every metric that the collector tells Prometheus, in one table: the registry and docs/metrics.md are made of it.

Ids and texts never become labels. A label has known values, each of which is there from the start, so that
``increase()`` sees the first failure too; or it is `JOB_NAME`, of which there are only so many; or `TOKEN`, whose
values are the operator's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from joinsight.findings import HEURISTICS, SEVERITIES
from joinsight.plan.operators import JOIN_STRATEGIES

_BYTES = tuple(2.0**power for power in range(16, 43, 2))  # 64 KiB to 4 TiB, powers of 4
_SECONDS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)
_TASK_SECONDS = (*_SECONDS, 36_000.0)
_WRITE_SECONDS = (0.005, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_RATIOS = (1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_PARTITIONS = (1.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0)
_DOCUMENTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Label:
    """A label; without `values`, they are not known beforehand."""

    name: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it is declared. The name of a counter ends in ``_total``, as on the page."""

    name: str
    kind: str
    """counter, gauge or histogram."""
    unit: str
    """What its values count: a base unit, or the things themselves."""
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()
    """Upper bounds of a histogram; the last one, infinity, is not among them."""
    of_store: bool = False
    """A gauge that is counted in the database, in the background: the same at each of its collectors, and absent
    while it is not known."""

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of its labels."""
        return tuple(label.name for label in self.labels)

    def known(self) -> list[tuple[str, ...]]:
        """All combinations of values that its labels can have; empty if they are not known beforehand."""
        return list(product(*(label.values for label in self.labels))) if self.labels else []


OTHER = "other"
"""Value of a label for what has none of its own."""
JOB_NAME = Label("job_name")
TOKEN = Label("token")
REGRESSION_KINDS = ("plan_changed", "data_grew", "same_plan")
REGRESSION_SUBJECTS = ("query", "join", "shuffle", "broadcast")
REFUSALS = ("json", "schema", "version", "size", "database", "fault")
_JOIN_TYPES = (
    *("Inner", "Cross", "LeftOuter", "RightOuter", "FullOuter", "LeftSemi", "LeftAnti", "LeftSingle", "ExistenceJoin"),
    OTHER,
)
_AQE_KINDS = ("join_strategy", "coalesced", "skew_split", "local_read", "empty_relation", "dropped_stage")
_STATUSES = ("200", "400", "401", "403", "408", "413", "415", "429", "500", "503")
_FINDINGS = Label("finding", tuple(heuristic.id for heuristic in HEURISTICS))
_STRATEGIES = Label("strategy", JOIN_STRATEGIES)
_STATES = Label("state", ("succeeded", "failed"))


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
    """Metrics about one thing."""

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
                "SQL executions that succeeded, failed or were lost; a lost one that comes back is counted again",
                Label("state", ("succeeded", "failed", "lost")),
            ),
            _histogram("joinsight_execution_seconds", "seconds", "Duration of SQL executions", _SECONDS),
            _counter(
                "joinsight_execution_task_seconds_total", "seconds", "Run time of the tasks of SQL executions, summed"
            ),
            _counter(
                "joinsight_execution_input_bytes_total", "bytes", "Bytes that tasks of SQL executions read from sources"
            ),
            _counter(
                "joinsight_execution_spilled_bytes_total",
                "bytes",
                "Bytes that SQL executions wrote to disk because memory was short",
            ),
            _counter(
                "joinsight_incomplete_executions_total",
                "executions",
                "SQL executions that succeeded or failed and of whose numbers a part may be missing",
            ),
            _of_store("joinsight_running_executions", "executions", "SQL executions that run now"),
            _of_store(
                "joinsight_running_oldest_start_timestamp_seconds",
                "seconds",
                "When the longest of the SQL executions that run now started; absent when none runs",
            ),
            _of_store(
                "joinsight_reporting_applications",
                "applications",
                "Applications that have not ended and were heard of in the last 5 minutes",
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
                "Broadcasts by outcome; unknown: not measured there, because AQE did without it or an earlier execution"
                " had made it",
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
        "Shuffle exchanges of the final plans of executions that succeeded or failed, as far as they were measured.",
        (
            _counter("joinsight_shuffles_total", "shuffles", "Shuffles"),
            _counter("joinsight_shuffle_written_bytes_total", "bytes", "Bytes written by shuffles"),
            _counter("joinsight_shuffle_written_records_total", "records", "Records written by shuffles"),
            _counter(
                "joinsight_shuffle_write_seconds_total", "seconds", "Time that tasks took to write shuffles, summed"
            ),
            _counter(
                "joinsight_shuffle_read_bytes_total",
                "bytes",
                "Bytes read from shuffles, by where they were: local (same host) or remote",
                Label("source", ("local", "remote")),
            ),
            _histogram("joinsight_shuffle_size_bytes", "bytes", "Bytes that one shuffle wrote", _BYTES),
            _histogram(
                "joinsight_shuffle_fetch_wait_seconds",
                "seconds",
                "Time that the tasks which read one shuffle waited for its blocks, summed",
                _TASK_SECONDS,
            ),
            _histogram(
                "joinsight_shuffle_skew_ratio",
                "ratio",
                "Rows that the largest task read over rows that the median task read",
                _RATIOS,
            ),
            _histogram("joinsight_shuffle_partitions", "partitions", "Partitions that one shuffle made", _PARTITIONS),
        ),
    ),
    Group(
        "Joins and AQE",
        "Joins of the final plans of executions that succeeded or failed, and what AQE changed on the way there.",
        (
            _counter(
                "joinsight_joins_total",
                "joins",
                "Joins by strategy and join type",
                _STRATEGIES,
                Label("join_type", _JOIN_TYPES),
            ),
            _counter("joinsight_join_output_rows_total", "rows", "Rows out of joins, by strategy", _STRATEGIES),
            _counter(
                "joinsight_join_spilled_bytes_total",
                "bytes",
                "Bytes that joins and their sorts spilled, as they were in memory",
            ),
            _counter(
                "joinsight_aqe_decisions_total",
                "decisions",
                "What AQE changed in plans while they ran, by kind (docs/aqe.md)",
                Label("kind", _AQE_KINDS),
            ),
        ),
    ),
    Group(
        "Findings and regressions",
        "What is worth attention: docs/findings.md and docs/regressions.md.",
        (
            _counter(
                "joinsight_findings_total",
                "findings",
                "Findings in SQL executions that succeeded or failed (docs/findings.md)",
                _FINDINGS,
                Label("severity", SEVERITIES),
            ),
            _of_store(
                "joinsight_regressions",
                "regressions",
                "What became worse in the last 7 days, by kind and subject, as counted every 5 minutes; absent when the"
                " database did not answer",
                Label("kind", REGRESSION_KINDS),
                Label("subject", REGRESSION_SUBJECTS),
            ),
        ),
    ),
    Group(
        "By job",
        "The few numbers that a team wants of its own jobs.",
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
                "joinsight_job_shuffle_written_bytes_total",
                "bytes",
                "Bytes that tasks wrote for shuffles, by job",
                JOB_NAME,
            ),
            _counter("joinsight_job_broadcast_bytes_total", "bytes", "Bytes of broadcast relations, by job", JOB_NAME),
            _counter(
                "joinsight_job_spilled_bytes_total",
                "bytes",
                "Bytes written to disk because memory was short, by job",
                JOB_NAME,
            ),
            _counter("joinsight_job_findings_total", "findings", "Findings, by job", JOB_NAME, _FINDINGS),
        ),
    ),
    Group(
        "Delivery",
        "What became of the documents on their way from the drivers.",
        (
            _of_store(
                "joinsight_undelivered_documents",
                "documents",
                "Documents of listeners heard of in the last 24 h that are not here: by whether the application runs,"
                " has ended or is silent (not heard of for 5 minutes), and by fate: missing, refused, dropped in the"
                " driver; what is missing of a running one may still wait in the driver or its spool",
                Label("application", ("running", "ended", "silent")),
                Label("fate", ("missing", "refused", "dropped")),
            ),
            _of_store(
                "joinsight_dropped_events",
                "events",
                "Events that Spark dropped before listeners heard of in the last 24 h saw them",
            ),
        ),
    ),
    Group(
        "The collector",
        "Requests on their way into the database. Documents of event logs count here too.",
        (
            _counter(
                "joinsight_requests_total",
                "requests",
                "Requests to /v1/documents by the status they got",
                Label("status", _STATUSES),
            ),
            _counter(
                "joinsight_token_requests_total",
                "requests",
                "Requests to /v1/documents by the name of their token",
                TOKEN,
            ),
            _counter("joinsight_received_bytes_total", "bytes", "Bytes of requests, as they came over the wire"),
            _histogram("joinsight_batch_documents", "documents", "Documents in a request that was read", _DOCUMENTS),
            _histogram(
                "joinsight_decode_seconds", "seconds", "Time to unpack, read and check a request", _WRITE_SECONDS
            ),
            _histogram(
                "joinsight_write_seconds",
                "seconds",
                "Time to write a batch to PostgreSQL, with the making of its rows and findings",
                _WRITE_SECONDS,
            ),
            _counter(
                "joinsight_documents_total",
                "documents",
                "Documents by outcome: stored, stale (repeated or overtaken), refused",
                Label("outcome", ("stored", "stale", "refused")),
            ),
            _counter(
                "joinsight_refused_documents_total",
                "documents",
                "Documents that were refused, by reason: json (not readable), schema (breaks it), version (of another"
                " schema), size (too large), database (PostgreSQL takes no such value), fault (of the collector)",
                Label("reason", REFUSALS),
            ),
            _gauge(
                "joinsight_last_write_timestamp_seconds",
                "seconds",
                "When a batch was last written; 0: not since the start",
            ),
            _gauge("joinsight_requests_waiting", "requests", "Requests that are written or wait for it"),
            _gauge("joinsight_requests_held_bytes", "bytes", "Bytes of requests that are in memory"),
            _of_store(
                "joinsight_database_up", "1 or 0", "Whether the database answers this collector, as asked every 15 s"
            ),
            _of_store(
                "joinsight_default_partition_executions",
                "executions",
                "Executions whose start no clock can rightly show, so that they are in no month's partition",
            ),
            _gauge("joinsight_build_info", "1", "Always 1; the version of the collector", Label("version")),
        ),
    ),
)
METRICS = tuple(metric for group in GROUPS for metric in group.metrics)
