"""Record small event logs of every Spark version, with the results of Spark's own replay.

``python -m tests.eventlog.record [VERSION...]``: PySpark of each version is installed once. The logs go to
recorded/VERSION/, packed by Spark's own codec, each version's by another one; the replay's answer to
recorded/VERSION/replay.json.gz.
"""

from __future__ import annotations

import argparse
import getpass
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import cycle
from pathlib import Path

from tests.installed import pyspark_folder
from tests.versions import SUPPORTED

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDED = HERE / "recorded"
# Compression, and whether the log is rolling; gz: a plain log, packed by us
_IN_TURN = cycle((("lz4", False), ("gz", False), ("zstd", True), ("snappy", True), ("lzf", False), ("zstd", True)))
FORMS = dict(zip(SUPPORTED, _IN_TURN, strict=False))


def main() -> None:
    parser = argparse.ArgumentParser(description="Record event logs and Spark's replay of them.")
    parser.add_argument("versions", nargs="*", default=list(FORMS))
    arguments = parser.parse_args()
    for version in arguments.versions:
        record(version)


def record(version: str) -> None:
    """One version: workload, replay, files."""
    spark = pyspark_folder(version).parent
    environment = {**os.environ, "PYTHONPATH": f"{spark}{os.pathsep}{ROOT}", "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_HOME", None)
    codec, rolling = FORMS[version]
    target = RECORDED / version
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        shutil.copy(HERE / "workload.py", folder)
        run = [sys.executable, str(folder / "workload.py"), "--logs", str(folder / "logs")]
        subprocess.run(run, env=environment, check=True, cwd=folder)
        (written,) = (path for path in (folder / "logs").iterdir() if not path.name.startswith("."))
        log = folder / written.name
        log.write_bytes(b"".join(impersonal(line, folder) for line in written.read_bytes().splitlines()))
        if rolling:
            packed = target / f"eventlog_v2_{log.name}" / f"events_1_{log.name}.{codec}"
            packed.parent.mkdir()
            packed.with_name(f"appstatus_{log.name}").touch()
        else:
            packed = target / f"{log.name}.{codec}"
        replay = [sys.executable, str(HERE / "replay.py"), str(log), "--out", str(folder / "replay.json")]
        if codec == "gz":
            packed.write_bytes(gzip.compress(log.read_bytes(), mtime=0))
        else:
            replay += ["--pack", f"{codec}={packed}"]
        subprocess.run(replay, env=environment, check=True, cwd=folder)
        (replayed,) = json.loads((folder / "replay.json").read_text())
        executions = replayed["said"]["executions"]
        answer = {name: replayed[name] for name in ("said", "plan_versions")}
        (target / "replay.json.gz").write_bytes(gzip.compress(json.dumps(answer).encode(), mtime=0))
    assert executions, "the replay found nothing"
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    print(f"{version}: {len(executions)} executions, {size / 1024:.0f} KB")


def impersonal(line: bytes, folder: Path) -> bytes:
    """The line without data about the machine."""
    if line.startswith(b'{"Event":"SparkListenerEnvironmentUpdate"'):
        event = json.loads(line)
        kept = {key: value for key, value in event["Spark Properties"].items() if "ath" not in key and "ava" not in key}
        for name, section in event.items():
            if isinstance(section, (dict, list)):
                event[name] = kept if name == "Spark Properties" else type(section)()
        line = json.dumps(event, separators=(",", ":")).encode()
    line = line.replace(str(folder).encode(), b"/data").replace(getpass.getuser().encode() + b'"', b'someone"')
    return line + b"\n"


if __name__ == "__main__":
    main()
