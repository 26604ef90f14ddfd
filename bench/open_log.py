"""How long `joinsight open` takes: from the command to its address, and to the page drawn in Chromium.

``python -m bench.open_log LOG...`` opens each log; without one, the recorded log of the newest Spark. The browser runs
already. Next to each time is that of `joinsight --help`, as a measure of the machine in the same minute.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.eventlog.recorded import recorded
from tests.versions import NEWEST

COMMAND = [sys.executable, "-m", "joinsight.cli"]


def opened(log: Path, browser: Browser) -> tuple[float, float]:
    """Seconds until the address is known, and until the page is drawn."""
    started = time.monotonic()
    command = [*COMMAND, "open", "--no-browser", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        known = time.monotonic() - started
        page = browser.new_page()
        page.goto(address)
        page.screenshot()
        drawn = time.monotonic() - started
        page.close()
        process.send_signal(signal.SIGINT)
    return known, drawn


def helped() -> float:
    """Seconds of a command that does nothing."""
    started = time.monotonic()
    subprocess.run([*COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started


def main() -> None:
    """Print the medians of each log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        logs = options.logs or [Path(recorded(NEWEST, Path(folder))[0].path.removeprefix("file:"))]
        for log in logs:
            files = [log] if log.is_file() else [path for path in log.rglob("*") if path.is_file()]
            rounds = [(*opened(log, browser), helped()) for _ in range(options.rounds)]
            known, drawn, nothing = map(statistics.median, zip(*rounds, strict=True))
            size = sum(file.stat().st_size for file in files) / 1e6
            print(f"{log.name}, {size:.1f} MB: address {known:.1f} s, drawn {drawn:.1f} s; --help {nothing:.2f} s")
        browser.close()


if __name__ == "__main__":
    main()
