"""Record a short event log of each native engine and table format, with the result of Spark's own replay.

``python -m tests.exactness.record_engines [NAME...]``, into recorded/NAME. Comet runs three queries of TPC-H, a format
the statements of its first table.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.eventlog.record import ROOT, impersonal
from tests.exactness import formats_workload, tpch
from tests.exactness.jars import COMET_OPTIONS, jars_of, options
from tests.installed import pyspark_folder

HERE = Path(__file__).resolve().parent
VERSIONS = {"comet": "4.1.4", "delta": "4.1.4", "iceberg": "4.1.4", "hudi": "3.5.9"}
QUERIES = ("3", "13", "16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Record event logs of engines and formats, and Spark's replay of them."
    )
    parser.add_argument("names", nargs="*", default=list(VERSIONS))
    for name in parser.parse_args().names:
        record(name, VERSIONS[name])


def record(name: str, version: str) -> None:
    """One engine or format: workload, replay, files."""
    path = os.pathsep.join(map(str, (pyspark_folder(version).parent, ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_HOME", None)
    jars = os.pathsep.join(map(str, jars_of(name, version)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        conf = {"spark.driver.extraClassPath": jars}
        if name == "comet":
            tpch.generate(folder)
            queries = {number: text for number, text in tpch.read_queries(folder).items() if number in QUERIES}
            (folder / tpch.QUERIES_FILE).write_text(json.dumps(queries))
            conf |= COMET_OPTIONS
        else:
            conf |= formats_workload.format_options(name, str(folder / "lake"))
        workload = ["--workload", "tpch" if name == "comet" else name, "--tables", "1", "--aqe", "on"]
        run = [
            str(HERE / "run.py"),
            *workload,
            "--folder",
            temporary,
            *options(conf),
            "--out",
            str(folder / "out.json"),
        ]
        subprocess.run([sys.executable, *run], env=environment, check=True)
        written = Path(json.loads((folder / "out.json").read_text())["log"])
        log = folder / "log"
        log.write_bytes(b"".join(impersonal(line, folder) for line in written.read_bytes().splitlines()))
        replay = [
            str(ROOT / "tests/eventlog/replay.py"),
            str(log),
            "--jars",
            jars,
            "--out",
            str(folder / "replay.json"),
        ]
        subprocess.run([sys.executable, *replay], env=environment, check=True)
        (replayed,) = json.loads((folder / "replay.json").read_text())
        answer = json.dumps({part: replayed[part] for part in ("said", "plan_versions")})
        target = HERE / "recorded" / name
        target.mkdir(parents=True, exist_ok=True)
        (target / "log.gz").write_bytes(gzip.compress(log.read_bytes(), mtime=0))
        (target / "replay.json.gz").write_bytes(gzip.compress(answer.encode(), mtime=0))
    sizes = [file.stat().st_size // 1024 for file in target.iterdir()]
    print(f"{name}: {len(replayed['said']['executions'])} executions, {sizes} KB")


if __name__ == "__main__":
    main()
