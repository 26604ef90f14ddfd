"""Advice that a test has accepted, kept in the repository of a job: the file ``joinsight-advice.toml``.

`joinsight.try_advice` writes it, ``joinsight.attach(..., advice=FILE)`` sends it along as a setting of the application,
and commands and pages compare the plans of its queries with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

import msgspec

from joinsight.base.errors import ConfigurationError
from joinsight.base.files import write_whole
from joinsight.base.units import duration_text

SETTING = "spark.joinsight.advice"
_MOST = 64
"""Entries of a file."""
_HEAD = (
    "# Advice that joinsight.try_advice has accepted. joinsight.attach(..., advice=FILE) and\n"
    "# joinsight gate --advice FILE say when a query runs without it. Delete what no longer holds.\n"
)


class AcceptedAdvice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A variant of a query that gave the same result, faster."""

    operator_key: str
    """The operator that it is about, in any run."""
    variant: str
    saved_ms: int
    date: date
    """When it was tried."""
    strategy: str = ""
    """What the join was before: a join that has another one follows it. Empty: it is not about a join's strategy."""
    settings: Mapping[str, str] = {}
    """It is followed where all of these are set. Without strategy and settings: where the operator is another one."""
    low_ms: int | None = None
    high_ms: int | None = None
    query: str = ""
    """The title of the query, for people, as are the fields below."""
    code: str = ""
    reason: str = ""
    note: str = ""
    """Not written by Joinsight."""

    @property
    def text(self) -> str:
        """What it is, and what it saved, for people."""
        within = ""
        if self.low_ms is not None and self.high_ms is not None:
            within = f" ({duration_text(max(0, self.low_ms))} to {duration_text(max(0, self.high_ms))})"
        return f"{self.variant}, which saved {duration_text(self.saved_ms)}{within} on {self.date.isoformat()}"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    advice: list[AcceptedAdvice] = []


def read_file(path: Path) -> Sequence[AcceptedAdvice]:
    """The entries of a file. Raises `ConfigurationError` if it cannot be read, or has more than 64 entries."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File).advice
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _unusable(path, str(error)) from None
    if len(found) > _MOST:
        raise _unusable(path, f"it has {len(found)} entries, of at most {_MOST}")
    return found


def add_to_file(path: Path, new: Iterable[AcceptedAdvice]) -> None:
    """Add entries to a file, which is made if there is none; of the same operator and variant the newer one stays.

    Raises `ConfigurationError` for a file that cannot be read or written, or that would have more than 64 entries.
    """
    known = {(each.operator_key, each.variant): each for each in (read_file(path) if path.exists() else ())}
    for each in new:
        old = known.get((each.operator_key, each.variant))
        known[each.operator_key, each.variant] = msgspec.structs.replace(each, note=old.note if old else "")
    if len(known) > _MOST:
        raise _unusable(path, f"it would have {len(known)} entries, of at most {_MOST}; delete old ones")
    text = _HEAD + "".join(map(_block, known.values()))
    try:
        write_whole(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise _unusable(path, str(error)) from None


def to_setting(entries: Iterable[AcceptedAdvice]) -> str:
    """What plans are compared with, as the value of `SETTING`."""
    kept = (msgspec.structs.replace(each, code="", reason="", query="", note="") for each in entries)
    return msgspec.json.encode(list(kept)).decode()


def of_setting(value: str | None) -> Sequence[AcceptedAdvice]:
    """The entries of a value of `SETTING`; none if it is missing or another program wrote it."""
    try:
        return msgspec.json.decode(value, type=list[AcceptedAdvice])[:_MOST] if value else []
    except msgspec.DecodeError:
        return []


def _block(entry: AcceptedAdvice) -> str:
    fields = msgspec.to_builtins(entry, builtin_types=(date,))
    settings = fields.pop("settings", {})
    lines = ["", "[[advice]]", *(f"{name} = {_value(value)}" for name, value in fields.items())]
    if settings:
        lines += ["[advice.settings]", *(f"{_value(name)} = {_value(value)}" for name, value in settings.items())]
    return "\n".join(lines) + "\n"


def _value(value: str | int | date | None) -> str:
    """A value of TOML, whose strings in quotes are those of JSON, but for DEL."""
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _unusable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError("advice", str(path), problem, "joinsight.try_advice(...).save(FILE) writes such files.")
