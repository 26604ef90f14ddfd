"""Every PromQL query of the dashboards returns data from a real Prometheus that scrapes a real collector."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine
from tests.dashboards.grafana import ALL, PROMETHEUS, Json, interpolate, targets, variables
from tests.findings import recorded
from tests.serve import real
from tests.serve.real import SECONDS, get, service, until

from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.store.embedded import free_port

pytestmark = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed (CI does so)")
RULES = Path(__file__).parents[2] / "dashboards" / "prometheus"
CORPUS = Path(__file__).parents[1] / "corpus"
TOKEN = "dashboards-test-0123456789"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SCRAPES_SECONDS = 1
RATE_INTERVAL = "5s"
"""Four scrapes at least, as Grafana makes it."""
QUERIES = {f"{page['uid']}/{panel['title']}/{t['refId']}": (page, panel, t) for page, panel, t in targets(PROMETHEUS)}


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[str]:
    """The address of a Prometheus that scrapes a collector."""
    address = f"127.0.0.1:{free_port()}"
    scrapes = dict.fromkeys(("scrape_interval", "scrape_timeout"), f"{SCRAPES_SECONDS}s")
    jobs = [{"job_name": "joinsight", "static_configs": [{"targets": [target]}]}]
    rules = [str(RULES / name) for name in ("rules.yml", "alerts.yml")]
    config = {"global": scrapes, "rule_files": rules, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(["prometheus", *options, f"--web.listen-address={address}"], stderr=log, stdout=log)
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture(scope="module")
def scraped(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has seen a collector take documents, whole and broken ones, and count regressions."""
    url = engine.url.render_as_string(hide_password=False)
    with (
        service(url, environment={TOKEN_VARIABLE: f"team:{TOKEN}"}) as collector,
        prometheus(collector.url.removeprefix("http://"), tmp_path_factory.mktemp("prometheus")) as it,
    ):
        bodies = [recorded.FILE.read_bytes(), *(gzip.compress(file.read_bytes()) for file in sorted(CORPUS.iterdir()))]
        post(collector.url, [*bodies[1:], gzip.compress(b'{"kind": "nonsense"}\n')])
        until(lambda: instant(it, "joinsight_documents_total > 0") != [], "the collector is scraped")
        wait_for_scrapes(it, 3)
        post(collector.url, [*bodies, gzip.compress(b'{"kind": "nonsense"}\n')])
        wait_for_scrapes(it, 4)
        yield it


def wait_for_scrapes(prometheus: str, number: int) -> None:
    """Until the collector was scraped so many times more."""

    def scrapes() -> int:
        return sum(int(each["value"][1]) for each in instant(prometheus, "sum_over_time(up[1h])"))

    before = scrapes()
    until(lambda: scrapes() >= before + number, "the collector is scraped again")


def post(collector: str, bodies: Sequence[bytes]) -> None:
    """Post documents as a listener does."""
    for body in bodies:
        answer = real.post(collector, body, headers=HEADERS)
        assert answer.status_code in (200, 400), answer.text


def instant(url: str, query: str) -> list[Json]:
    """The series of a query now."""
    try:
        answer = get(f"{url}/api/v1/query", params={"query": query}).json()
    except httpx.TransportError:
        return []
    return list(answer["data"]["result"]) if answer["status"] == "success" else []


@pytest.mark.parametrize("name", QUERIES)
def test_each_panel_has_series_with_numbers(name: str, scraped: str) -> None:
    """There are series with numbers, and the name of each is what the panel shows."""
    page, panel, target = QUERIES[name]
    values = dict.fromkeys(variables(page), ALL)
    query = interpolate(target["expr"], page, values)
    query = query.replace("$__rate_interval", RATE_INTERVAL).replace("$__range", "1m")
    assert "$" not in query
    now = time.time()
    asked: dict[str, str | float] = {"query": query, "start": now - 3_000, "end": now, "step": SCRAPES_SECONDS}
    answer = get(f"{scraped}/api/v1/query_range", params=asked).json()
    assert answer["status"] == "success", answer
    found = answer["data"]["result"]
    assert any(value != "NaN" for series in found for _, value in series["values"])
    if panel["type"] == "stat":
        assert target["instant"] and not target["range"] and len(found) == 1
    else:
        assert target["range"] and not target["instant"]
        label = target["legendFormat"].strip("{}")
        assert all(set(series["metric"]) == ({label} if "{" in target["legendFormat"] else set()) for series in found)


def test_variables_have_values(scraped: str) -> None:
    """The collector and its scrape job can be chosen."""
    for page in {page["uid"]: page for page, *_ in QUERIES.values()}.values():
        for each in variables(page).values():
            if each["type"] == "query":
                metric, label = each["query"]["query"].removeprefix("label_values(").rstrip(")").split(", ")
                assert instant(scraped, f"group by ({label}) ({metric})")[0]["metric"][label]
