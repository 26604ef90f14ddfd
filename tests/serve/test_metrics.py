"""The metrics: their values for recorded executions, the limit of series, and that each of them is used.

``python -m tests.serve.test_metrics`` writes the golden page.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import pytest
from msgspec import structs
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, text
from tests.documents import planned
from tests.findings.recorded import SMALL, UNLIMITED, Earlier, recordings
from tests.serve.real import get, until

from joinsight import __version__
from joinsight.analysis.rows import Rows, execution_rows
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution
from joinsight.demo.runner import collector
from joinsight.findings import FindingsEngine
from joinsight.serve.admission import Admission
from joinsight.serve.background import background_tasks
from joinsight.serve.metrics import DEFAULT_JOB_NAMES, Metrics
from joinsight.serve.metrics_table import JOB_NAME, METRICS, OTHER, TOKEN
from joinsight.serve.refusals import Refusals
from joinsight.store.activity import Activity
from joinsight.store.mark_lost import declare_lost
from joinsight.store.writer import Writer
from joinsight.tables import EXECUTION_KEY

GOLDEN = Path(__file__).parent / "metrics.golden"
CORPUS = Path(__file__).parents[1] / "corpus"
MAX_SERIES = 4_990
"""Maximum series of a collector with the default number of job names, as in docs/metrics.md."""
SPILLING = """
    SortMergeJoin | [k#1], [k#2], Inner | spill size=700
      Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900
"""


def recorded() -> list[Rows]:
    """The metrics of real executions with findings, and of one that spills and is incomplete."""
    executions = list(recordings().values())
    for file in sorted(CORPUS.glob("spark-*.ndjson")):
        documents = map(decode_document, file.read_bytes().splitlines())
        executions += [document for document in documents if isinstance(document, Execution)]
    executions.append(planned(SPILLING, incomplete=["a reason"]))
    found = []
    findings = FindingsEngine(SMALL, UNLIMITED)
    for execution in executions:
        rows = execution_rows(execution)
        found.append(replace(rows, finding=findings.rows(rows, Earlier(*[100] * 5))))
    return found


def filled() -> Metrics:
    """Metrics of which each has seen something, the same at each call."""
    metrics = Metrics()
    metrics.show_admission(admission := Admission())
    admission.waiting.held, admission.bytes.held = 2, 1_000
    metrics.show_refusals(refusals := Refusals())
    refusals.add("127.0.0.1", "401")
    for rows in recorded():
        metrics.finished(rows)
    metrics.own("sales", "shop", "")
    metrics.count("joinsight_requests_total", 1, "200")
    metrics.count("joinsight_token_requests_total", 1, "nightly")
    metrics.count("joinsight_received_bytes_total", 5_000)
    metrics.observe("joinsight_batch_documents", 3)
    metrics.observe("joinsight_decode_seconds", 0.004)
    metrics.observe("joinsight_write_seconds", 0.02)
    metrics.count("joinsight_documents_total", 3, "stored")
    metrics.count("joinsight_refused_documents_total", 1, "schema")
    metrics.set("joinsight_last_write_timestamp_seconds", 1_800_000_000)
    metrics.set_regressions({("plan_changed", "join"): 1})
    metrics.set_alarms({"duration_ms": 2})
    metrics.set_forecasts({"join_spill": 1})
    metrics.count("joinsight_notifications_total", 1, "delivered")
    metrics.set_misdated(1)
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    metrics.set_activity(Activity(3, start, 2, {("running", "missing"): 4, ("ended", "missing"): 0}, 7))
    return metrics


def page(metrics: Metrics) -> str:
    """What we declare, without what the client adds on its own, and without the version."""
    lines = metrics.page().decode().replace(f'"{__version__}"', '"0"').splitlines(keepends=True)
    return "".join(line for line in lines if "joinsight_" in line)


def series(metrics: Metrics) -> int:
    """How many lines Prometheus keeps."""
    return sum(not line.startswith("#") for line in metrics.page().decode().splitlines())


def test_the_page_is_as_it_was() -> None:
    """Names, types, helps, labels and buckets are an interface; the numbers are those of the recorded executions."""
    assert page(filled()) == GOLDEN.read_text()


def test_all_that_is_declared_is_observed() -> None:
    families = {family.name: family for family in text_string_to_metric_families(page(filled()))}
    assert set(families) == {metric.name.removesuffix("_total") for metric in METRICS}
    for metric in METRICS:
        family = families[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(metric.label_names), metric.name
        assert any(sample.value for sample in family.samples), metric.name


LOST = """
    SortMergeJoin | [k#1], [k#2], Inner | number of output rows=5
      Exchange | hashpartitioning(k#1, 8), [plan_id=1] | shuffle bytes written=900
      BroadcastExchange | IdentityBroadcastMode, [plan_id=2] | data size=10
"""


def test_operators_are_counted_of_what_succeeded_or_failed(empty: Engine) -> None:
    """As docs/metrics.md says: not those of executions that run, were lost or come from a log: the tables do."""
    metrics = Metrics()
    writer = Writer(empty)
    documents = [
        planned(LOST, execution_id=number, sequence=number + 1, state=state, application_id=state, origin=origin)
        for number, (state, origin) in enumerate(
            [*product(("succeeded", "failed", "running"), ("live",)), ("succeeded", "event_log")]
        )
    ]
    for rows in writer.write(documents).finished:
        metrics.finished(rows)
    with empty.begin() as connection:
        connection.execute(text("UPDATE delivery SET last_heard_at = now() - interval '1 hour'"))
        assert declare_lost(connection, timedelta(minutes=5)) == 1
    metrics.count("joinsight_executions_total", 1, "lost")
    counted = page(metrics)
    with empty.connect() as connection:
        for table, metric in (
            ("shuffle", "joinsight_shuffles_total"),
            ("broadcast", "joinsight_broadcasts_total"),
            ("joins", "joinsight_joins_total"),
            ("execution", "joinsight_executions_total"),
        ):
            of = f"SELECT count(*) FROM {table} AS t JOIN execution AS e USING ({', '.join(EXECUTION_KEY)}) WHERE "
            held = connection.scalar(text(of + "true"))
            ended = connection.scalar(text(of + "e.state IN ('succeeded', 'failed') AND e.origin = 'live'"))
            lines = re.findall(rf"^{metric}(?:{{.*}})? (.+)$", counted, re.MULTILINE)
            lost = 1 if table == "execution" else 0
            assert (held, ended, sum(map(float, lines))) == (4, 2, 2 + lost), table


def test_labels_have_known_values() -> None:
    """All but the two whose number is bounded otherwise, the version and owners. What is new to us is `other`."""
    for metric in METRICS:
        for label in metric.labels:
            assert label.values or label in (JOB_NAME, TOKEN) or metric.name.endswith("_info")
    metrics = Metrics()
    metrics.count("joinsight_joins_total", 1, "SortMergeJoin", "AJoinOfSpark9")
    assert 'joinsight_joins_total{join_type="other",strategy="SortMergeJoin"} 1.0' in page(metrics)


def test_known_series_are_there_from_the_start() -> None:
    """They start with 0, so that `increase()` sees the first event."""
    fresh = page(Metrics())
    for line in (
        'joinsight_broadcasts_total{outcome="failed"} 0.0',
        'joinsight_findings_total{finding="skewed-shuffle",severity="critical"} 0.0',
        'joinsight_requests_total{status="503"} 0.0',
        "joinsight_shuffle_skew_ratio_count 0.0",
    ):
        assert f"{line}\n" in fresh
    assert "joinsight_running_executions" not in fresh


def test_series_are_bounded() -> None:
    """10,000 executions of as many applications and jobs, with all kinds of findings, make no more than is promised."""
    metrics = filled()
    some = [rows for rows in recorded() if rows.finding or rows.joins]
    for number in range(10_000):
        rows = some[number // DEFAULT_JOB_NAMES % len(some)]
        job = f"job {number}" if number < 9_000 else f"job {number % DEFAULT_JOB_NAMES}"
        changed = structs.replace(
            rows.execution,
            job_name=job,
            application_id=f"app-{number}",
            execution_id=number,
            tags={"team": f"team {number}", "user": "u" * 500},
        )
        metrics.finished(replace(rows, execution=changed))
    text = page(metrics)
    assert series(metrics) <= MAX_SERIES
    names = {line.split('job_name="')[1].split('"')[0] for line in text.splitlines() if 'job_name="' in line}
    assert len(names) == DEFAULT_JOB_NAMES + 1
    assert OTHER in names
    assert "app-" not in text


def test_the_most_series_that_there_can_be() -> None:
    """Each combination of labels at once."""
    metrics = filled()
    for metric in METRICS:
        if JOB_NAME in metric.labels:
            for job in range(DEFAULT_JOB_NAMES + 1):
                for finding in metric.labels[1].values if len(metric.labels) > 1 else [""]:
                    name = str(job) if job < DEFAULT_JOB_NAMES else OTHER
                    metrics.count(metric.name, 1, *((name, finding) if finding else (name,)))
    assert series(metrics) <= MAX_SERIES


def test_a_job_has_the_owner_of_its_last_execution() -> None:
    """One series for each job with tags, none for others."""
    metrics = Metrics()
    rows = execution_rows(planned(SPILLING, job_name="sales"))
    metrics.finished(rows)
    assert "joinsight_job_info{" not in page(metrics)
    for tags in ({"team": "shop"}, {"team": "shop", "user": "ann", "other": "x"}):
        metrics.finished(replace(rows, execution=structs.replace(rows.execution, tags=tags)))
    lines = [line for line in page(metrics).splitlines() if line.startswith("joinsight_job_info{")]
    assert lines == ['joinsight_job_info{job_name="sales",team="shop",user="ann"} 1.0']


@pytest.mark.parametrize("job_names", [0, 1])
def test_jobs_without_a_place_are_other(job_names: int) -> None:
    """First come, first served; their sum stays whole, and a name is cut."""
    metrics = Metrics(job_names)
    rows = execution_rows(planned(SPILLING, job_name="x" * 5_000))
    for job in ("x" * 5_000, "second", "third", "x" * 4_000, ""):
        metrics.finished(replace(rows, execution=structs.replace(rows.execution, job_name=job)))
    own = f'joinsight_job_executions_total{{job_name="{"x" * 100}",state="succeeded"}} 2.0\n'
    other = f'joinsight_job_executions_total{{job_name="other",state="succeeded"}} {3 if job_names else 5}.0\n'
    assert (own in page(metrics), other in page(metrics)) == (job_names == 1, True)


def test_event_logs_are_not_counted() -> None:
    """Neither event logs nor their findings are counted."""
    metrics = filled()
    before = page(metrics)
    for rows in recorded():
        metrics.finished(replace(rows, execution=structs.replace(rows.execution, origin="event_log")))
    assert page(metrics) == before


def test_what_the_database_does_not_say_is_not_shown() -> None:
    """Numbers that the database does not provide are hidden; if it is down, only that is shown."""
    metrics = filled()
    metrics.set_activity(None)
    metrics.set_regressions(None)
    metrics.set_alarms(None)
    metrics.set_forecasts(None)
    text = page(metrics)
    assert "joinsight_database_up 0.0\n" in text
    of_store = ("running_executions", "running_oldest_start", "undelivered", "reporting", "regressions")
    for name in (*of_store, "certain", "forecasts"):
        assert f"joinsight_{name}" not in text


def test_background_tasks_show_what_the_store_knows(engine: Engine) -> None:
    """`joinsight serve` and the demo export all documented metrics."""
    expected = {metric.name for metric in METRICS if metric.of_store and "oldest_start" not in metric.name}
    with collector(engine, 0, []) as (url, server), background_tasks(engine, server.collector.metrics):

        def missing() -> set[str]:
            page = get(f"{url}/metrics").text
            return {name for name in expected if f"\n{name}" not in page}

        until(lambda: not missing(), "all are there")


if __name__ == "__main__":
    GOLDEN.write_text(page(filled()))
