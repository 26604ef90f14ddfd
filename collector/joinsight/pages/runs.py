"""The runs of a query, and what changed from each to the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from joinsight.analysis.comparison import changed_settings, settings_of
from joinsight.present.values import short_key
from joinsight.tables import Row

_SETTINGS = 3
"""Changed settings of a run that are named."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run, and what is different from the run before it."""

    row: Row
    plan: str
    """A letter for each plan, in the order of their first runs; empty without a plan."""
    plan_changed: str = ""
    settings_changed: str = ""
    spark_changed: str = ""

    @property
    def changes(self) -> list[str]:
        """In words."""
        return [each for each in (self.plan_changed, self.settings_changed, self.spark_changed) if each]


def runs_of(rows: Sequence[Row]) -> list[ListedRun]:
    """Runs with what changed between them, the oldest first."""
    letters: dict[str, str] = {}
    runs: list[ListedRun] = []
    before: Row | None = None
    for row in rows:
        fingerprint = row["plan_fingerprint"] or ""
        if fingerprint and fingerprint not in letters:
            letters[fingerprint] = _letter(len(letters))
        plan = letters.get(fingerprint, "")
        runs.append(ListedRun(row, plan) if before is None else ListedRun(row, plan, *_changes(before, row, letters)))
        before = row
    return runs


def _letter(number: int) -> str:
    """A to Z, then A1 to Z1 and so on."""
    return chr(ord("A") + number % 26) + (str(number // 26) if number >= 26 else "")


def _changes(before: Row, row: Row, letters: Mapping[str, str]) -> tuple[str, str, str]:
    a, b = before["plan_fingerprint"], row["plan_fingerprint"]
    plan = f"plan {letters[a]} → {letters[b]} ({short_key(b)})" if a and b and a != b else ""
    settings = changed_settings(_settings(before), _settings(row))
    named = [f"{key}: {_value(x)} → {_value(y)}" for key, (x, y) in list(settings.items())[:_SETTINGS]]
    more = [f"{len(settings) - _SETTINGS} more settings"] if len(settings) > _SETTINGS else []
    x, y = before["spark_version"], row["spark_version"]
    return plan, "; ".join([*named, *more]), f"Spark {x} → {y}" if x and y and x != y else ""


def _settings(row: Row) -> dict[str, str]:
    return settings_of({"configuration": row["application_configuration"]}, row)


def _value(setting: str | None) -> str:
    return "(default)" if setting is None else setting[:80]
