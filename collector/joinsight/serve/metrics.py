"""What the collector tells Prometheus. Ids and texts never become labels; only finished live executions are counted."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest

from joinsight.rows import Row, Rows
from joinsight.serve.places import Places

disable_created_metrics()  # type: ignore[no-untyped-call]  # a series more for each counter, which nobody reads

_BYTES = [2.0**power for power in range(16, 43, 2)]  # 64 KiB to 4 TiB, powers of 4
_SECONDS = [0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600]
_RATIOS = [1, 1.5, 2, 3, 5, 10, 20, 50, 100]
REGRESSION_KINDS = ("plan_changed", "data_grew", "same_plan")
REGRESSION_SUBJECTS = ("query", "join", "shuffle", "broadcast")


class Metrics:
    """All metrics of one collector, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.requests = Counter(
            "joinsight_requests", "Requests to /v1/documents by the status they got", ["status"], registry=registry
        )
        self.senders = Counter(
            "joinsight_token_requests",
            "Requests to /v1/documents by the name of their token",
            ["token"],
            registry=registry,
        )
        self.documents = Counter(
            "joinsight_documents",
            "Documents by outcome: stored, stale (repeated or overtaken), refused",
            ["outcome"],
            registry=registry,
        )
        self.write_seconds = Histogram(
            "joinsight_write_seconds",
            "Time to write a batch to PostgreSQL",
            buckets=[0.005, 0.01, 0.03, 0.1, 0.3, 1, 3, 10],
            registry=registry,
        )
        self.last_write = Gauge(
            "joinsight_last_write_timestamp_seconds", "When a batch was last written", registry=registry
        )
        self.executions = Counter(
            "joinsight_executions",
            "SQL executions that ended, by state; one that was lost and comes back is counted again when it ends",
            ["state"],
            registry=registry,
        )
        self.execution_seconds = Histogram(
            "joinsight_execution_seconds", "Duration of SQL executions", buckets=_SECONDS, registry=registry
        )
        self.shuffle_bytes = Counter("joinsight_shuffle_written_bytes", "Bytes written by shuffles", registry=registry)
        self.shuffle_size = Histogram(
            "joinsight_shuffle_size_bytes", "Bytes that one shuffle wrote", buckets=_BYTES, registry=registry
        )
        self.shuffle_skew = Histogram(
            "joinsight_shuffle_skew_ratio",
            "Rows that the largest task read over rows that the median task read",
            buckets=_RATIOS,
            registry=registry,
        )
        self.broadcasts = Counter("joinsight_broadcasts", "Broadcasts by outcome", ["outcome"], registry=registry)
        self.broadcast_size = Histogram(
            "joinsight_broadcast_size_bytes", "Size of broadcast relations", buckets=_BYTES, registry=registry
        )
        self.broadcast_seconds = Histogram(
            "joinsight_broadcast_seconds",
            "Driver time of broadcasts by phase",
            ["phase"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.joins = Counter("joinsight_joins", "Joins by strategy", ["strategy"], registry=registry)
        self.join_spill = Counter(
            "joinsight_join_spilled_bytes", "Bytes that joins and their sorts spilled", registry=registry
        )
        self.misplaced = Gauge(
            "joinsight_default_partition_executions",
            "Executions whose start no clock can rightly show, so that they are in no month's partition",
            registry=registry,
        )
        self.regressions = Gauge(
            "joinsight_regressions",
            "What became worse in the last 7 days, by kind and subject, as counted every 5 minutes; absent when the"
            " database did not answer",
            ["kind", "subject"],
            registry=registry,
        )
        for outcome in ("stored", "stale", "refused"):
            self.documents.labels(outcome)
        for state in ("succeeded", "failed", "lost"):
            self.executions.labels(state)

    def show(self, places: Places) -> None:
        """Show what requests hold whenever the page is asked for."""
        for name, what, value in (
            ("joinsight_requests_waiting", "Requests that are written or wait for it", lambda: places.waiting),
            ("joinsight_requests_held_bytes", "Bytes of requests that are in memory", lambda: places.bytes),
        ):
            Gauge(name, what, registry=self.registry).set_function(value)

    def count_regressions(self, found: Mapping[tuple[str, str], int] | None) -> None:
        """Show how many regressions there are of each kind and subject, 0 too; nothing at all for None."""
        if found is None:
            self.regressions.clear()
            return
        for kind, subject in product(REGRESSION_KINDS, REGRESSION_SUBJECTS):
            self.regressions.labels(kind, subject).set(found.get((kind, subject), 0))

    def page(self) -> bytes:
        """The page that Prometheus scrapes."""
        return generate_latest(self.registry)

    def finished(self, rows: Rows) -> None:
        """Count an execution that ended."""
        execution = rows["execution"][0]
        if execution["origin"] != "live":
            return
        self.executions.labels(execution["state"]).inc()
        if execution["duration_ms"] is not None:
            self.execution_seconds.observe(execution["duration_ms"] / 1000)
        for row in rows["shuffle"]:
            self._shuffle(row)
        for row in rows["broadcast"]:
            self._broadcast(row)
        for row in rows["joins"]:
            self.joins.labels(row["strategy"]).inc()
            self.join_spill.inc(_amount(row["spill_bytes"] or 0))

    def _shuffle(self, row: Row) -> None:
        if row["bytes_written"] is not None:
            self.shuffle_bytes.inc(_amount(row["bytes_written"]))
            self.shuffle_size.observe(_amount(row["bytes_written"]))
        if row.get("skew_ratio") is not None:
            self.shuffle_skew.observe(row["skew_ratio"])

    def _broadcast(self, row: Row) -> None:
        self.broadcasts.labels(row["outcome"]).inc()
        if row["size_bytes"] is not None:
            self.broadcast_size.observe(_amount(row["size_bytes"]))
        for phase in ("collect", "build", "broadcast"):
            if row[f"{phase}_ms"] is not None:
                self.broadcast_seconds.labels(phase).observe(_amount(row[f"{phase}_ms"]) / 1000)


def _amount(number: int) -> int:
    """A metric that announces itself with another type than Spark's may be negative: a counter must not go back."""
    return max(0, number)
