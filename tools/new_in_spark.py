"""Names what a version of Spark has that another lacks: ``python -m tools.new_in_spark OLD NEW``, both like 4.1.4.

Operators, metrics, events, settings, types and hints of joins, partitionings, broadcast modes, origins of shuffles, and
rules of AQE, as the jars have them. Each is marked that Joinsight knows by name: run it for a new version, and see what
is left. PySpark is installed where it is not there yet.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests import reported_settings
from tests.installed import pyspark_folder
from tests.spark.known import KNOWN, SETTINGS

ROOT = Path(__file__).parents[1]
INVENTORY = Path(__file__).with_name("Inventory.java")
_CREATES_METRIC = re.compile(rb"create(?:Size|Timing|NanoTiming|Average)?Metric")
_STRING = re.compile(r"\bldc\w* .*// String (.*)")
_CALL = re.compile(r"\binvoke\w+ .*// (?:Interface)?Method (\S+)")


def inventory(spark: Path) -> dict[str, set[str]]:
    """The names of what the Spark in a folder has, by kind."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(
            ["javac", "-nowarn", "-proc:none", "-d", classes, str(INVENTORY)], check=True, capture_output=True
        )
        path = f"{classes}{os.pathsep}{spark / 'jars' / '*'}"
        done = subprocess.run(["java", "-cp", path, "Inventory"], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        kind, _, name = line.partition("\t")
        if kind == "rule":
            if ".adaptive." in name:
                found["rule of AQE"].add(name.rpartition(".")[2])
        else:
            found[kind].add(name if kind == "setting" else re.split(r"[.$]", name)[-1])
    found["metric"] = {name for jar in (spark / "jars").glob("spark-sql_*.jar") for name in _metrics(jar)}
    return dict(found)


def _metrics(jar: Path) -> Iterator[str]:
    """The names that operators give to their metrics: the last text that is loaded before the metric is created."""
    with zipfile.ZipFile(jar) as archive:
        classes = [n for n in archive.namelist() if n.endswith(".class") and _CREATES_METRIC.search(archive.read(n))]
    command = ["javap", "-c", "-p", "-cp", str(jar), *(name.removesuffix(".class") for name in classes)]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = None
    for line in code.splitlines():
        if string := _STRING.search(line):
            text = string[1]
        elif call := _CALL.search(line):
            if "SQLMetrics$.create" not in call[1]:
                text = None
            elif "$default$" not in call[1] and text is not None:
                yield text


def new(old: Mapping[str, set[str]], newer: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """What only the newer one has, by kind."""
    only = {kind: sorted(names - old.get(kind, set())) for kind, names in sorted(newer.items())}
    return {kind: names for kind, names in only.items() if names}


def is_known(kind: str, name: str) -> bool:
    """Whether a table, the listener or the collector has the name."""
    if kind == "setting":
        return reported_settings.allowed({name: ""}) != {} or any(name in keys for keys in SETTINGS.values())
    if name in KNOWN.get(kind, ()):
        return True
    own = r"[\"' .]" if kind == "event" else "[\"']"
    pattern = re.compile(f"{own}{re.escape(name.removesuffix('Exec'))}[\"' ;.(]")
    return any(pattern.search(text) for text in _sources())


def _sources() -> Iterator[str]:
    for pattern in ("collector/joinsight/**/*.py", "listener/src/**/*.java"):
        for path in ROOT.glob(pattern):
            yield path.read_text()


def main() -> None:
    """Print what is new, and what is gone."""
    parser = argparse.ArgumentParser(description="Names what a version of Spark has that another lacks.")
    parser.add_argument("old", help="a version of PySpark: 4.1.4")
    parser.add_argument("new", help="another")
    arguments = parser.parse_args()
    old, newer = (inventory(pyspark_folder(version)) for version in (arguments.old, arguments.new))
    for title, names in (
        (f"New in {arguments.new}", new(old, newer)),
        (f"Gone since {arguments.old}", new(newer, old)),
    ):
        print(title)
        for kind, its_names in names.items():
            print(f"  {kind}")
            for name in its_names:
                print(f"    {name}{'  (known)' if is_known(kind, name) else ''}")


if __name__ == "__main__":
    main()
