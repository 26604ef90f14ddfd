"""The versions of Spark that are supported: the one place that lists them.

pip enforces some of it from pyproject.toml: the bound of the extra `spark`, and the newest version for developers.
`tests/test_docs.py` compares both.
"""

from __future__ import annotations

import os
from datetime import date

import pytest

SUPPORTED = ("3.4.4", "3.5.9", "4.0.5", "4.1.4", "4.2.1", "4.3.0")
"""The latest patch of each minor version, oldest first: versions of PySpark, installed at first use."""
NEWEST = SUPPORTED[-1]
SCALA_2_12 = [version for version in SUPPORTED if version.startswith("3.")][-1]
"""The newest that PySpark packs with Scala 2.12 (from 4.0 on, with 2.13)."""
DAY = "JOINSIGHT_TEST_DAY"
"""The variable with the day of a run, as `2026-11-25`: all processes of a run take the same versions."""


def of_the_day(day: date) -> tuple[str, ...]:
    """On what CI compares all numbers with Spark's own: the oldest, the newest, and one between, by turns."""
    between = SUPPORTED[1:-1]
    return SUPPORTED[0], between[day.toordinal() % len(between)], NEWEST


TODAY = of_the_day(date.fromisoformat(os.environ.get(DAY) or date.today().isoformat()))
ENDS = (SUPPORTED[0], NEWEST)
"""On what CI runs other tests of each version; the rest of them run at night."""
OLDER_AT_NIGHT = (*(pytest.param(each, marks=pytest.mark.nightly) for each in SUPPORTED[:-1]), NEWEST)
"""Parameters of a long test whose versions differ little: the newest in the normal run."""
BOTH_SCALA = (NEWEST, pytest.param(SCALA_2_12, marks=pytest.mark.nightly))
"""Parameters of a test: the newest in the normal run, Scala 2.12 at night."""
