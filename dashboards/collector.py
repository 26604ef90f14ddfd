"""Collector: does it take what comes, how fast, and what did live executions cost, as Prometheus knows it."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as board

from dashboards.page import Variable, page
from dashboards.parts import PROMETHEUS, Drawn, Panel, dashboard, number, promql, series
from dashboards.style import BAD, GROUPS, WARNING

OURS = '{job=~"$scrape", instance=~"$instance"}'
REFUSED, QUERIES = 'outcome="refused"', 'subject="query"'


def collector() -> dashboard.Dashboard:
    """The only one that asks Prometheus. It has no job of Spark's: names of jobs would be too many labels."""
    return page(
        "collector",
        "Joinsight: Collector",
        "Does the collector take what comes, how fast, and what did live executions cost?"
        " What was backfilled does not count.",
        [_prometheus(), _label("scrape", "Scrape job", "job"), _label("instance", "Collector", "instance")],
        [
            ("Is anything wrong?", _numbers()),
            ("What comes in", [_documents(), _requests(), _senders()]),
            ("Writing", [_write_time(), _waiting(), _held()]),
            ("What live executions cost", [_executions(), _durations(), _shuffled(), _broadcasts(), _joins(), _skew()]),
        ],
        time="now-6h",
        refresh="1m",
    )


def _prometheus() -> Variable:
    return (
        dashboard.DatasourceVariable("prometheus")
        .label("Prometheus")
        .description("The data source that scrapes the collectors")
        .type("prometheus")
    )


def _label(name: str, label: str, of: str) -> Variable:
    return (
        dashboard.QueryVariable(name)
        .label(label)
        .description(f"The label {of} of the collectors' metrics")
        .datasource(PROMETHEUS)
        .query({"qryType": 1, "query": f"label_values(joinsight_documents_total, {of})", "refId": name})
        .refresh(board.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".+")
        .current(board.VariableOption(True, "All", "$__all"))
    )


def _with(selector: str) -> str:
    return OURS.replace("}", f", {selector}}}")


def _rate(metric: str, *by: str, selector: str = "") -> str:
    labels = _with(selector) if selector else OURS
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouped} (rate({metric}{labels}[$__rate_interval]))"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, {_rate(metric + '_bucket', 'le')})"


def _numbers() -> list[Panel]:
    return [
        number(
            "Collectors",
            "Collectors that answer Prometheus now. Fewer than you run: look at their logs, and at /readyz.",
            promql(f"sum(up{OURS})", instant=True),
            span=4,
        ),
        number(
            "Last write",
            "How long ago a batch was last written. While jobs run it is seconds. Longer than the quietest hour of the"
            " night: nothing comes, or nothing can be written.",
            promql(f"time() - max(joinsight_last_write_timestamp_seconds{OURS})", instant=True),
            "s",
            levels={3600: WARNING, 86400: BAD},
            span=4,
        ),
        number(
            "Refused",
            "Documents of the time range that will never be taken. The collector's log names the first of each batch,"
            " `joinsight doctor` the reason; usually a listener that is newer than the collector.",
            promql(f"sum(increase(joinsight_documents_total{_with(REFUSED)}[$__range]))", instant=True),
            levels={0.5: BAD},
            span=4,
        ),
        number(
            "Waiting",
            "Requests that are written or wait for it now, in all collectors. Many for long: PostgreSQL is slow.",
            promql(f"sum(joinsight_requests_waiting{OURS})", instant=True),
            levels={50: WARNING, 200: BAD},
            span=4,
        ),
        number(
            "In no month",
            "Executions whose start no clock can rightly show, so that they are in the default partition. A driver's"
            " clock is wrong; configuration.md says how to get rid of them.",
            promql(f"max(joinsight_default_partition_executions{OURS})", instant=True),
            levels={1: WARNING},
            span=4,
        ),
        number(
            "Regressed queries",
            "Queries that became slower in the last seven days, as the collector counts them every five minutes. The"
            " dashboard History and regressions says which and why.",
            promql(f"sum(max by (kind) (joinsight_regressions{_with(QUERIES)}))", instant=True),
            levels={1: WARNING},
            span=4,
        ),
    ]


def _documents() -> Panel:
    return series(
        "Documents",
        "Documents a second by outcome. Stale ones are repeated or overtaken and do no harm, unless most are: then"
        " answers do not reach the listeners. Refused ones are lost.",
        [promql(_rate("joinsight_documents_total", "outcome"), "{{outcome}}")],
        "docs/s",
        Drawn(bars=False, named=tuple(GROUPS["documents"])),
        span=8,
    )


def _requests() -> Panel:
    return series(
        "Requests",
        "Requests a second by the status they got. 400: some lines were refused. 401: a token is missing or wrong. 413:"
        " too large. 429 and 503: too much at once or no database; listeners try again.",
        [promql(_rate("joinsight_requests_total", "status"), "{{status}}")],
        "reqps",
        Drawn(bars=False, named=tuple(GROUPS["statuses"])),
        span=8,
    )


def _senders() -> Panel:
    return series(
        "Requests by token",
        "Who sends how much: a line for each token's name. A team whose line ends has stopped to run jobs, or lost its"
        " way to the collector. Empty where no tokens are asked for.",
        [promql(_rate("joinsight_token_requests_total", "token"), "{{token}}")],
        "reqps",
        Drawn(bars=False),
        span=8,
    )


def _write_time() -> Panel:
    return series(
        "Time to write a batch",
        "Median and 95th percentile of the time that PostgreSQL took for a batch. Over a second for long: look at its"
        " disks, its checkpoints, and at who else uses it.",
        [
            promql(_quantile(0.5, "joinsight_write_seconds"), "median"),
            promql(_quantile(0.95, "joinsight_write_seconds"), "p95", "B"),
        ],
        "s",
        Drawn(bars=False, stacked=False, named=("median", "p95")),
        span=8,
    )


def _waiting() -> Panel:
    return series(
        "Requests waiting",
        "Requests that are written or wait for it, by collector. A line that rises and does not fall means that more"
        " comes than PostgreSQL takes: listeners spool meanwhile, nothing is lost.",
        [promql(f"sum by (instance) (joinsight_requests_waiting{OURS})", "{{instance}}")],
        "short",
        Drawn(bars=False, stacked=False),
        span=8,
    )


def _held() -> Panel:
    return series(
        "Bytes of requests held",
        "Bytes of requests in a collector's memory. It answers 429 rather than take more than its limit.",
        [promql(f"sum by (instance) (joinsight_requests_held_bytes{OURS})", "{{instance}}")],
        "bytes",
        Drawn(bars=False, stacked=False),
        span=8,
    )


def _executions() -> Panel:
    return series(
        "Executions that ended",
        "SQL executions a second by state, as their last document comes. The Overview has them by when they started.",
        [promql(_rate("joinsight_executions_total", "state"), "{{state}}")],
        "ops",
        Drawn(bars=False, named=("succeeded", "failed", "lost")),
        span=8,
    )


def _durations() -> Panel:
    return series(
        "Duration of executions",
        "Median and 95th percentile over all executions that ended. It says whether the cluster as a whole is slow; for"
        " one query see History and regressions.",
        [
            promql(_quantile(0.5, "joinsight_execution_seconds"), "median"),
            promql(_quantile(0.95, "joinsight_execution_seconds"), "p95", "B"),
        ],
        "s",
        Drawn(bars=False, stacked=False, named=("median", "p95")),
        span=8,
    )


def _shuffled() -> Panel:
    return series(
        "Shuffle written, joins spilled",
        "Bytes a second that shuffles wrote and that joins and their sorts spilled, of executions that ended. Spilling"
        " is memory that is short; the dashboard Joins and AQE says where.",
        [
            promql(_rate("joinsight_shuffle_written_bytes_total"), "shuffle written"),
            promql(_rate("joinsight_join_spilled_bytes_total"), "spilled to disk", "B"),
        ],
        "Bps",
        Drawn(bars=False, stacked=False, named=("shuffle written", "spilled to disk")),
        span=8,
    )


def _broadcasts() -> Panel:
    return series(
        "Broadcasts by outcome",
        "Broadcasts a second by outcome. Red ones did not get ready before their execution failed: the dashboard"
        " Broadcasts has the errors.",
        [promql(_rate("joinsight_broadcasts_total", "outcome"), "{{outcome}}")],
        "ops",
        Drawn(bars=False, named=("succeeded", "failed", "unknown")),
        span=8,
    )


def _joins() -> Panel:
    return series(
        "Joins by strategy",
        "Joins a second by strategy. A change for all jobs at once is a setting or a version of Spark.",
        [promql(_rate("joinsight_joins_total", "strategy"), "{{strategy}}")],
        "ops",
        Drawn(
            bars=False,
            named=tuple(GROUPS["strategies"]),
        ),
        span=8,
    )


def _skew() -> Panel:
    return series(
        "Skew of shuffles",
        "Median and 95th percentile of the largest task's rows over the median task's. The dashboard Shuffles names the"
        " skewed ones.",
        [
            promql(_quantile(0.5, "joinsight_shuffle_skew_ratio"), "median"),
            promql(_quantile(0.95, "joinsight_shuffle_skew_ratio"), "p95", "B"),
        ],
        "x",
        Drawn(bars=False, stacked=False, named=("median", "p95")),
        span=8,
    )
