"""How long the page of an execution takes: the answer of a collector, the page drawn in Chromium, the CPU of both.

``python -m bench.pages`` asks for pages of 30, 300 and 1,500 operators by turns. Next to their times is that of
``/healthz``, which reads nothing, as a measure of the machine in the same minute. CPU hardly depends on the load.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import msgspec
from playwright.sync_api import sync_playwright
from tests.documents import request
from tests.pages.plans import large

from bench.backfill import cpu_seconds as with_descendants
from bench.serving import SENT, TOKEN, cpu_seconds, serving

SIZES = (30, 300, 1_500)
READER = "a-reader-of-this-benchmark"


def p95(values: Sequence[float]) -> str:
    """The median and the 95th percentile of seconds, in ms."""
    ordered = sorted(values)
    return f"{statistics.median(values) * 1e3:.0f} / {ordered[int(len(ordered) * 0.95)] * 1e3:.0f}"


def browser_seconds(collector: int) -> float:
    """CPU seconds of the browser: of all that this process started, except the collector."""
    return with_descendants(os.getpid()) - with_descendants(collector) - sum(os.times()[:2])


def main() -> None:
    """Print median and 95th percentile of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        tokens = f"{TOKEN}\nread:bench:{READER}"
        with serving(Path(folder), tokens=tokens) as collector:
            url = f"http://127.0.0.1:{collector.port}"
            documents = [msgspec.structs.replace(large(size), application_id=f"app-{size}") for size in SIZES]
            httpx.post(f"{url}/v1/documents", content=request(*documents), headers=SENT).raise_for_status()
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(http_credentials={"username": "bench", "password": READER})
            client = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {READER}"}, timeout=60)
            answered: dict[int, list[float]] = {size: [] for size in SIZES}
            drawn: dict[int, list[float]] = {size: [] for size in SIZES}
            cpu, drawing, size_of = dict.fromkeys(SIZES, 0.0), dict.fromkeys(SIZES, 0.0), dict.fromkeys(SIZES, 0)
            nothing = []
            for number in range(-1, options.rounds):
                for size, document in zip(SIZES, documents, strict=True):
                    path = f"/executions/app-{size}/{document.execution_id}"
                    before, used = time.monotonic(), cpu_seconds([collector.pid])
                    answer = client.get(path).raise_for_status()
                    took, used = time.monotonic() - before, cpu_seconds([collector.pid]) - used
                    spent, before = browser_seconds(collector.pid), time.monotonic()
                    page.goto(url + path)
                    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                    shown, spent = time.monotonic() - before, browser_seconds(collector.pid) - spent
                    if number >= 0:  # the first round does not count
                        answered[size].append(took)
                        drawn[size].append(shown)
                        cpu[size] += used
                        drawing[size] += spent
                        size_of[size] = len(answer.content)
                before = time.monotonic()
                client.get("/healthz").raise_for_status()
                nothing.append(time.monotonic() - before)
            browser.close()
    print(f"load {os.getloadavg()[0]:.1f}, {options.rounds} rounds; p50 / p95 in ms; /healthz {p95(nothing)}")
    for size in SIZES:
        print(
            f"{size:,} operators: answered {p95(answered[size])}, drawn {p95(drawn[size])},"
            f" CPU {cpu[size] / options.rounds * 1e3:.0f} ms,"
            f" of Chromium {drawing[size] / options.rounds * 1e3:.0f} ms, {size_of[size] / 1e3:.0f} KB"
        )


if __name__ == "__main__":
    main()
