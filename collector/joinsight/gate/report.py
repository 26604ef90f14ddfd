"""What changed between two sides: as Markdown for the summary of a pull request, and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from joinsight.base.units import bytes_text, duration_text, ratio_text
from joinsight.gate.golden import changed_lines
from joinsight.gate.pairs import QueryPair
from joinsight.gate.runs import MEASURES, QueryRun

_MARKUP = re.compile(r"[\\`*\[\]|<>~&$]|(?<!\w)_|_(?!\w)|:(?=//)|(?<=www)\.")
# What GitHub makes links of: mentions, issues, commits
_REFERENCE = re.compile(r"[@#](?=\w)|\bGH-(?=\d)|[0-9a-f]{6}(?=[0-9a-f])", re.IGNORECASE)
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LISTED = 50
"""Unchanged, new and gone queries that are listed."""


@dataclass(frozen=True)
class PairResult:
    """A pair with what changed, and whether somebody has accepted that."""

    pair: QueryPair
    changes: Sequence[str]
    is_accepted: bool = False
    doubts: Sequence[str] = ()
    """Why it can't be said whether more changed."""

    @property
    def is_open(self) -> bool:
        """Whether somebody has to look at it."""
        return bool(self.changes) and not self.is_accepted

    @property
    def is_inconclusive(self) -> bool:
        """Whether it can't be said if it changed."""
        return bool(self.doubts) and not self.is_open


def are_inconclusive(verdicts: Sequence[PairResult]) -> bool:
    """Whether it can't be said if a query changed, or none ran on both sides."""
    return any(each.is_inconclusive for each in verdicts) or not any(
        each.pair.base and each.pair.head for each in verdicts
    )


def markdown(verdicts: Sequence[PairResult]) -> str:
    """The report; texts of queries in it are never markup."""
    pairs = [each.pair for each in verdicts]
    open_ones = [each for each in verdicts if each.is_open]
    accepted = [each for each in verdicts if each.changes and each.is_accepted and not each.doubts]
    unclear = [each for each in verdicts if each.is_inconclusive]
    same = [
        each.pair for each in verdicts if not each.changes and not each.doubts and each.pair.base and each.pair.head
    ]
    title = "No query has changed" + (" beyond what was accepted" if accepted else "")
    if open_ones:
        title = f"{_count(len(open_ones), 'query has', 'queries have')} changed"
    elif unclear:
        title = f"Inconclusive: {_count(len(unclear), 'query', 'queries')} cannot be compared"
    elif are_inconclusive(verdicts):
        title = "Inconclusive: no query ran on both sides"
    parts = [f"# {title}", _summary(pairs, len(same), len(accepted))]
    parts += [_change(each) for each in open_ones]
    if open_ones:
        parts.append("If these changes are wanted, `joinsight gate … --accepted FILE --accept` adds them to the file.")
    if unclear:
        parts += ["## Inconclusive", *map(_change, unclear)]
    if accepted:
        parts += ["## Accepted changes", *map(_change, accepted)]
    parts += _listed("New queries", [pair for pair in pairs if pair.base is None])
    parts += _listed("Queries that no longer run", [pair for pair in pairs if pair.head is None])
    parts += _listed("Unchanged queries", same)
    return "\n\n".join(parts) + "\n"


def junit_xml(verdicts: Sequence[PairResult]) -> bytes:
    """A test case for each query of both sides; changes that nobody has accepted are failures, doubts are skipped."""
    both = [each for each in verdicts if each.pair.base and each.pair.head]
    failures = [each for each in both if each.is_open]
    suite = ElementTree.Element("testsuite", name="joinsight gate", tests=str(len(both)), failures=str(len(failures)))
    for each in both:
        case = ElementTree.SubElement(suite, "testcase", classname=_xml(each.pair.job), name=_xml(each.pair.title))
        if each in failures:
            failure = ElementTree.SubElement(case, "failure", message=_xml(each.changes[0]))
            failure.text = _xml("\n".join([*each.changes, "", *_diff(each.pair)]))
        elif each.is_inconclusive:
            ElementTree.SubElement(case, "skipped", message=_xml(each.doubts[0]))
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _summary(pairs: Sequence[QueryPair], same: int, accepted: int) -> str:
    both = sum(1 for pair in pairs if pair.base and pair.head)
    sides = [[run for run in side if run] for side in zip(*((pair.base, pair.head) for pair in pairs), strict=True)]
    versions = [", ".join(sorted({run.spark_version for run in side})) for side in sides]
    spark = versions[0] if versions[0] == versions[1] else " → ".join(versions)
    extra = f", {_count(accepted, 'accepted change', 'accepted changes')}" if accepted else ""
    return f"Spark {_plain(spark)}. {_count(both, 'query', 'queries')} compared, {same} unchanged{extra}."


def _change(verdict: PairResult) -> str:
    pair = verdict.pair
    lines = [
        f"### {_code(pair.title)}",
        "",
        f"in {_code(pair.job)}",
        "",
        *(f"- {_plain(each)}" for each in (*verdict.changes, *verdict.doubts)),
    ]
    lines += ["", "| | before | now | |", "|---|--:|--:|--:|"]
    for name, title in MEASURES.items():
        old, new = (run.numbers[name] if run else None for run in (pair.base, pair.head))
        if old or new:
            lines.append(f"| {title} | {_number(name, old)} | {_number(name, new)} | {_ratio(old, new)} |")
    diff = _diff(pair)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", "\n".join(diff))), default=0))
    lines += ["", "<details><summary>Plans</summary>", "", f"{fence}diff", *diff, fence, "", "</details>"]
    return "\n".join(lines)


def _diff(pair: QueryPair) -> list[str]:
    old, new = (run.section.compared if run else [] for run in (pair.base, pair.head))
    return changed_lines(old, new)


def _listed(title: str, pairs: Sequence[QueryPair]) -> list[str]:
    if not pairs:
        return []
    lines = [f"<details><summary>{title}: {len(pairs)}</summary>", ""]
    lines += [f"- {_code(pair.title)} in {_code(pair.job)}{_failed(pair.run)}" for pair in pairs[:_LISTED]]
    if len(pairs) > _LISTED:
        lines.append(f"- and {len(pairs) - _LISTED} more")
    return ["\n".join([*lines, "", "</details>"])]


def _failed(run: QueryRun) -> str:
    return f", which fails: {_plain(run.error.splitlines()[0])}" if run.error else ""


def _number(name: str, value: int | None) -> str:
    if value is None:
        return "–"
    return duration_text(value) if name.endswith("_ms") else bytes_text(value)


def _ratio(old: int | None, new: int | None) -> str:
    return ratio_text(new / old) if old and new is not None else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _code(text: str) -> str:
    """A code span, in which nothing is markup."""
    text = " ".join(text.split()) or "?"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _plain(text: str) -> str:
    """Text in which nothing is markup, a link or a mention."""
    return _REFERENCE.sub("\\g<0>\u2060", _MARKUP.sub(r"\\\g<0>", " ".join(text.split())))


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
