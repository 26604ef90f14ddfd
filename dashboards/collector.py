"""Collector: ingestion, latency, and the cost of live executions, from Prometheus."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as board

from dashboards.limits import LIMITS
from dashboards.limits import in_words as limit
from dashboards.page import Variable, page
from dashboards.parts import PROMETHEUS, Drawn, Panel, dashboard, number, promql, series
from dashboards.style import BAD, GROUPS, WARNING

OURS = '{job=~"$scrape", instance=~"$instance"}'
REFUSED = 'outcome="refused"'
FIRING = '{job=~"$scrape", alertname=~"Joinsight.+", alertstate="firing"}'
GONE = 'application!="running", fate!="refused"'


def collector() -> dashboard.Dashboard:
    """The only dashboard on Prometheus, whose jobs are scrape jobs: it has no variable for Spark's jobs."""
    return page(
        "collector",
        "Joinsight: Collector",
        "Does the collector keep up, how fast is it, and what did live executions cost?"
        " Backfilled executions do not count.",
        [PROMETHEUS_VARIABLE, _label("scrape", "Scrape job", "job"), _label("instance", "Collector", "instance")],
        [
            ("Is anything wrong?", _numbers()),
            ("What comes in", [DOCUMENTS, REFUSALS, REQUESTS, SENDERS]),
            ("Working it off", [WORK_TIME, WAITING, HELD]),
            (
                "What live executions cost",
                [EXECUTIONS, RUNNING, DURATIONS, BYTES, BROADCASTS, JOINS, DECISIONS, SKEW, TASKS],
            ),
            ("By job", [_jobs(), FINDINGS]),
        ],
        time="now-6h",
        refresh="1m",
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


def _of(metric: str, selector: str = "") -> str:
    return metric + (OURS.replace("}", f", {selector}}}") if selector else OURS)


def _rate(metric: str, *by: str) -> str:
    grouped = f" by ({', '.join(by)})" if by else ""
    return f"sum{grouped} (rate({_of(metric)}[$__rate_interval]))"


def _quantile(share: float, metric: str) -> str:
    return f"histogram_quantile({share}, {_rate(metric + '_bucket', 'le')})"


def _numbers() -> list[Panel]:
    database = _of("joinsight_database_up")
    return [
        number(
            "Collectors",
            "Collectors that answer Prometheus now. If there are fewer than you run, check their logs and /readyz.",
            promql(f"sum(up{OURS})", instant=True),
        ),
        number(
            "Collectors without database",
            "Collectors that get no answer from PostgreSQL, probed every 15 seconds. Listeners spool meanwhile,"
            " nothing is lost; restore PostgreSQL.",
            promql(f"count({database} == 0) or sum({database} * 0)", instant=True),
            levels={1: BAD},
        ),
        number(
            "Last write",
            "How long ago a batch was last written. While jobs run it is seconds. Longer than in the quietest hour of"
            " the night: nothing arrives, or nothing can be written. A dash: never since the collector started.",
            promql(f"time() - max({_of('joinsight_last_write_timestamp_seconds')} > 0)", instant=True),
            "s",
            levels={3600: WARNING, 86400: BAD},
        ),
        number(
            "Refused",
            "Documents of the time range that were permanently rejected; Refused by reason says why. The collector's"
            " log names the first of each batch.",
            promql(f"sum(increase({_of('joinsight_documents_total', REFUSED)}[$__range]))", instant=True),
            levels={0.5: BAD},
        ),
        number(
            "Not delivered",
            "Documents of the last day that are missing or were dropped, of applications that have ended or are silent."
            " `joinsight doctor` says which, and what to do; `joinsight ship` delivers spool folders.",
            promql(f"sum(max by (application, fate) ({_of('joinsight_undelivered_documents', GONE)}))", instant=True),
            levels={1: WARNING},
        ),
        number(
            "Alerts",
            "Alerts of dashboards/prometheus that fire now. `joinsight docs runbook` has a section for each."
            " Always 0 where Prometheus does not have these rules.",
            promql(f"count(ALERTS{FIRING}) or vector(0)", instant=True),
            levels={1: WARNING},
        ),
    ]


def _jobs() -> Panel:
    most = f"topk(10, {_rate('joinsight_job_task_seconds_total', 'job_name')})"
    return series(
        "Task time of jobs",
        "Seconds of task time per second, of the ten jobs with the most: how many cores they keep busy. Jobs"
        " beyond those that have a name here are other. Overview has all of them, by when their executions started.",
        promql(most, "{{job_name}}"),
        "short",
        Drawn(bars=False),
    )


PROMETHEUS_VARIABLE = (
    dashboard.DatasourceVariable("prometheus")
    .label("Prometheus")
    .description("The data source that scrapes the collectors")
    .type("prometheus")
)

DOCUMENTS = series(
    "Documents",
    "Documents per second by outcome. Stale ones are duplicates or outdated and harmless, unless most are: then"
    " responses do not reach the listeners. Refused ones are lost.",
    promql(_rate("joinsight_documents_total", "outcome"), "{{outcome}}"),
    "docs/s",
    Drawn(bars=False, named=tuple(GROUPS["documents"])),
    span=6,
)

REFUSALS = series(
    "Refused by reason",
    "Refused documents per second. version: a listener newer than the collector; json, schema: not our listener,"
    " or a proxy that truncates; size: set a lower limit for plans; fault: please report it.",
    promql(_rate("joinsight_refused_documents_total", "reason"), "{{reason}}"),
    "docs/s",
    Drawn(bars=False),
    span=6,
)

REQUESTS = series(
    "Requests",
    "Requests per second by response status. 400: some lines were refused. 401: a token is missing or wrong."
    " 403: host name or web site not allowed. 413: too large. 415: not sent as a batch."
    " 429 and 503: overload or no database; listeners retry.",
    promql(_rate("joinsight_requests_total", "status"), "{{status}}"),
    "reqps",
    Drawn(bars=False, named=tuple(GROUPS["statuses"])),
    span=6,
)

SENDERS = series(
    "Requests by token",
    "Who sends how much: a line for each token's name. If a line ends, that team stopped running jobs, or cannot"
    " reach the collector. Empty if the collector has no tokens.",
    promql(_rate("joinsight_token_requests_total", "token"), "{{token}}"),
    "reqps",
    Drawn(bars=False),
    span=6,
)

WORK_TIME = series(
    "Time for a batch",
    "95th percentile of the time to decode a request, and to write it. If writing takes over a second for long,"
    " check PostgreSQL's disks, its checkpoints, and its other users.",
    [
        promql(_quantile(0.95, "joinsight_decode_seconds"), "read and check"),
        promql(_quantile(0.95, "joinsight_write_seconds"), "write", "B"),
    ],
    "s",
    Drawn(bars=False, stacked=False, named=("write",)),
    span=8,
)

WAITING = series(
    "Requests waiting",
    "Requests being written or waiting, by collector. A line that rises and does not fall means that more"
    " arrives than PostgreSQL can take: listeners spool meanwhile, nothing is lost.",
    promql(f"sum by (instance) (joinsight_requests_waiting{OURS})", "{{instance}}"),
    "short",
    Drawn(bars=False, stacked=False),
    span=8,
)

HELD = series(
    "Bytes of requests held",
    "Bytes of requests in a collector's memory. It answers 429 rather than take more than its limit.",
    promql(f"sum by (instance) (joinsight_requests_held_bytes{OURS})", "{{instance}}"),
    "bytes",
    Drawn(bars=False, stacked=False),
    span=8,
)

EXECUTIONS = series(
    "Executions that ended",
    "SQL executions per second by state, as their last document comes. The Overview has them by when they started.",
    promql(_rate("joinsight_executions_total", "state"), "{{state}}"),
    "ops",
    Drawn(bars=False, named=("succeeded", "failed", "cancelled", "lost")),
    span=6,
)

DURATIONS = series(
    "Duration of executions",
    "Median and 95th percentile over all executions that ended. It says whether the cluster as a whole is slow; for"
    " one query see History and regressions.",
    [
        promql(_quantile(0.5, "joinsight_execution_seconds"), "median"),
        promql(_quantile(0.95, "joinsight_execution_seconds"), "p95", "B"),
    ],
    "s",
    Drawn(bars=False, stacked=False, named=("median", "p95")),
    span=6,
)

RUNNING = series(
    "Executions that run",
    "SQL executions currently running, as reported by listeners. It falls by itself some minutes after drivers were"
    " lost. A line that only rises is a driver that hangs: Overview and Query show its executions.",
    promql(f"max({_of('joinsight_running_executions')})", "running"),
    "short",
    Drawn(bars=False, named=("running",)),
    span=6,
)

BYTES = series(
    "Bytes",
    "Bytes per second of finished executions: shuffled, spilled to disk, read by tasks. Spilling means too little"
    " memory; the dashboard Joins and AQE says where.",
    [
        promql(_rate("joinsight_shuffle_written_bytes_total"), "shuffle written"),
        promql(_rate("joinsight_execution_spilled_bytes_total"), "spilled to disk", "B"),
        promql(_rate("joinsight_execution_input_bytes_total"), "read by tasks", "C"),
    ],
    "Bps",
    Drawn(bars=False, stacked=False, named=("shuffle written", "spilled to disk", "read by tasks")),
    span=6,
)

BROADCASTS = series(
    "Broadcasts by outcome",
    "Broadcasts per second by outcome. Red ones were not ready before their execution failed: the dashboard"
    " Broadcasts has the errors.",
    promql(_rate("joinsight_broadcasts_total", "outcome"), "{{outcome}}"),
    "ops",
    Drawn(bars=False, named=("succeeded", "failed", "unknown")),
    span=6,
)

JOINS = series(
    "Joins by strategy",
    "Joins per second by strategy. A change for all jobs at once means a new setting or version of Spark.",
    promql(_rate("joinsight_joins_total", "strategy"), "{{strategy}}"),
    "ops",
    Drawn(bars=False, named=tuple(GROUPS["strategies"])),
    span=6,
)

DECISIONS = series(
    "Decisions of AQE",
    "Changes by adaptive execution to running plans, per second, by kind: aqe.md explains each. None at all: it"
    " is off, or has nothing to do.",
    promql(_rate("joinsight_aqe_decisions_total", "kind"), "{{kind}}"),
    "ops",
    Drawn(bars=False, named=tuple(GROUPS["decisions"])),
    span=6,
)

SKEW = series(
    "Skew of shuffles",
    "Median and 95th percentile of the largest task's rows over the median task's. The dashboard Shuffles names the"
    f" skewed ones. The dashed line, at {limit('skew_ratio')}, is where this page calls it skewed.",
    [
        promql(_quantile(0.5, "joinsight_shuffle_skew_ratio"), "median"),
        promql(_quantile(0.95, "joinsight_shuffle_skew_ratio"), "p95", "B"),
    ],
    "x",
    Drawn(bars=False, stacked=False, named=("median", "p95"), limit=LIMITS.skew_ratio),
    span=6,
)

TASKS = series(
    "Task time by kind of work",
    "Seconds of task time per second: how many cores each kind keeps busy. Shared is what cannot be told apart:"
    " where tasks are sampled, most of it goes to the other kinds.",
    promql(_rate("joinsight_task_seconds_total", "kind"), "{{kind}}"),
    "short",
    Drawn(bars=False, named=(*GROUPS["operators"], *GROUPS["kinds"])),
    span=24,
)

FINDINGS = series(
    "Findings",
    "Findings in finished executions, per second, by kind: findings.md explains each. For a new kind see Overview,"
    " which names the executions.",
    promql(f"{_rate('joinsight_findings_total', 'finding')} > 0", "{{finding}}"),
    "ops",
    Drawn(bars=False),
)
