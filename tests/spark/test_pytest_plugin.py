"""The pytest plugin in somebody's project, `tests/sample_project`, with a real Spark."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.conftest import ROOT
from tests.versions import NEWEST, SUPPORTED

from joinsight.contract.decode import decode_document
from joinsight.contract.document import Execution

PLANS = Path("tests/plans/test_sales")


CELLS = (
    "from pyspark.sql import SparkSession\nimport joinsight\n"
    "spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false').getOrCreate()",
    "%load_ext joinsight",
    "%%joinsight\nspark.range(1000).groupBy('id').count().count()",
    "with joinsight.measure(spark) as measured:\n    spark.range(10).join(spark.range(10), 'id').collect()\nmeasured",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT / "tests/sample_project", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def outcomes(
    project: Path, environment: Mapping[str, str], *options: str, python: str = sys.executable
) -> dict[str, str]:
    """What each test of the project said: nothing if it passed."""
    report = project / "junit.xml"
    command = [python, "-m", "pytest", "-p", "no:cacheprovider", f"--junit-xml={report}", *options]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        failures = [each.text or "" for kind in ("failure", "error") for each in case.iter(kind)]
        found[case.get("name", "")] = "\n".join(re.sub(r"^E {0,7}", "", text, flags=re.MULTILINE) for text in failures)
    return found


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.parametrize("version", SUPPORTED)
def test_budgets_and_golden_plans(
    version: str, spark_environment: Callable[[str], dict[str, str]], project: Path
) -> None:
    """One file of golden plans serves all versions of Spark; what fails says why, with the plan and a page."""
    recorded = project / "recorded.ndjson"
    said = outcomes(
        project, spark_environment(version), f"--joinsight-record={recorded.name}", f"--basetemp={project / 'tmp'}"
    )
    assert list(said) == ["test_report", "test_merged", "test_budgets", "test_new"]
    assert said["test_report"] == ""
    changed = said["test_merged"]
    assert (
        "The join on customer_id has a new hint (merge left).\n"
        "The join on customer_id was broadcast, is now sort-merge.\n"
        "2 more shuffles: by customer_id twice; 1 fewer broadcast.\n" in changed
    )
    assert "\n- BroadcastHashJoin BuildRight Inner (customer_id = customer_id)\n" in changed
    assert "\n+ SortMergeJoin Inner (customer_id = customer_id) hint: merge left\n" in changed
    assert "⋈ SortMergeJoin [customer_id], [customer_id], Inner" in changed
    broken = said["test_budgets"]
    assert "2 of 3 budgets are broken:\n  no cartesian product: there is 1 (join of orders and customers)\n" in broken
    page = re.search(r"Drawn: file://(.*)", broken)
    assert page and "data:image/svg+xml" in Path(page[1]).read_text()
    assert (
        f"There is no golden plan {project / PLANS}/test_new.plan: write it with pytest --joinsight-update"
        in said["test_new"]
    )
    documents = [decode_document(line) for line in recorded.read_bytes().splitlines()]
    jobs = [each.job_name for each in documents if isinstance(each, Execution)]
    assert jobs == [f"tests/test_sales.py::{name}" for name in said]


@pytest.mark.spark
@pytest.mark.matrix
def test_an_installed_wheel_with_processes(
    spark_environment: Callable[[str], dict[str, str]], project: Path, tmp_path: Path
) -> None:
    """In its own environment: two processes write golden plans, which then match, and a notebook shows plans."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv/bin/python")
    install = [
        python,
        "-m",
        "pip",
        "install",
        "-q",
        f"{wheel}[spark]",
        f"pyspark=={NEWEST}",
        "pytest",
        "pytest-xdist",
        "nbconvert",
        "ipykernel",
    ]
    subprocess.run(install, check=True)
    environment = {
        key: value for key, value in spark_environment(NEWEST).items() if key not in ("PYTHONPATH", "SPARK_HOME")
    }
    environment = {**environment, "PATH": os.environ["PATH"], "PYSPARK_PYTHON": python}
    only = ("-k", "not budgets", "-n", "2")
    updated = outcomes(
        project, environment, *only, "--joinsight-update", "--joinsight-record=all.ndjson", python=python
    )
    assert updated == {"test_report": "", "test_merged": "", "test_new": ""}
    assert len((project / "all.ndjson").read_bytes().splitlines()) == 3
    plans = {path.name: path.read_text() for path in (project / PLANS).iterdir()}
    assert set(plans) == {"joined.plan", "test_new.plan", "test_report.plan"}
    assert "SortMergeJoin" in plans["joined.plan"]
    before = (ROOT / "tests/sample_project" / PLANS / "test_report.plan").read_text()
    assert plans["test_report.plan"] == before
    assert set(outcomes(project, environment, *only, python=python).values()) == {""}
    hinted = outcomes(project, {**environment, "HINT": "/*+ MERGE(orders) */"}, "-k", "report", python=python)
    assert "the join on customer_id is broadcast: the join on customer_id is sort-merge\n" in hinted["test_report"]
    notebook = tmp_path / "cells.ipynb"
    nbformat = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    cells: list[dict[str, Any]] = [
        {"id": str(at), "cell_type": "code", "metadata": {}, "source": cell, "outputs": [], "execution_count": None}
        for at, cell in enumerate(CELLS)
    ]
    notebook.write_text(json.dumps({**nbformat, "cells": cells}))
    convert = [python, "-m", "nbconvert", "--execute", "--to", "html", str(notebook)]
    subprocess.run(convert, env=environment, check=True)
    html = notebook.with_suffix(".html").read_text()
    assert html.count("data:image/svg+xml") >= 2, "the drawings of two cells, light and dark"
    assert "Where the time went" in html
