"""Compares verdicts and findings of recorded cases with their labels."""

from __future__ import annotations

import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from bench.verdicts.record import HEALTHY
from joinsight.analysis.rows import execution_rows
from joinsight.cli import cli
from joinsight.contract.decode import decode_document
from joinsight.contract.document import Application, Execution
from joinsight.store import URL_VARIABLE
from joinsight.store.database import open_database
from joinsight.store.writer import Writer

LEAST = 0.2
"""The share of the wall time from which on a planted problem must have a finding."""
LITTLE = 0.1
"""A finding on a healthy query is wrong if less than this share is at stake."""
FACTOR = 1.5
COLUMNS = (
    "code",
    "cases",
    "mechanism",
    "operator",
    "its wall time within 1.5",
    "finding",
    "its stake within 1.5",
    "repair saves half of it",
)


@dataclass(frozen=True)
class Case:
    """A label, and what Joinsight says."""

    label: Mapping[str, Any]
    keys: frozenset[str]
    """By which a verdict may name an operator of the label: node ids and operator keys."""
    duration_ms: int
    verdict: Mapping[str, Any] | None
    findings: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        return f"{self.label['scenario']}-{self.label['size']}"

    @property
    def code(self) -> str:
        """The best one."""
        return str(self.label["codes"][0])

    @property
    def said(self) -> str:
        return str(self.verdict["code"]) if self.verdict else "nothing"

    @property
    def is_code_right(self) -> bool:
        return self.said in self.label["codes"]

    @property
    def is_operator_right(self) -> bool | None:
        """None if the problem is no operator's."""
        if not self.keys:
            return None
        named = (*self.verdict["operators"], *self.verdict["nodes"]) if self.verdict else ()
        return bool(self.keys & set(map(str, named)))

    @property
    def share(self) -> float | None:
        """What repairing it saves, of the wall time."""
        share: float | None = self.label.get("planted_share")
        return share

    @property
    def stake_ms(self) -> float | None:
        """The most that a finding says is at stake."""
        return max((each["wall_ms"] for each in self.findings if each["wall_ms"] is not None), default=None)

    @property
    def saved_ms(self) -> float:
        """What repairing it saves; 0 if that is nothing, or unknown."""
        return max(0.0, float(self.label.get("saved_ms", 0)))

    def is_true(self, stake_ms: float | None) -> bool:
        """Whether a stake is what repairing saves, about."""
        return bool(stake_ms and self.saved_ms / FACTOR <= stake_ms <= self.saved_ms * FACTOR)


def read_cases(folder: Path, cases: Sequence[tuple[str, str]]) -> Iterator[Case]:
    """Store the cases in a database, and ask the commands."""
    paths = [(folder / "-".join(case)).with_suffix(".json") for case in cases]
    labels = [json.loads(path.read_text()) for path in paths if path.exists()]
    with tempfile.TemporaryDirectory() as data, open_database(folder=Path(data), create=True) as engine:
        writer = Writer(engine)
        url = engine.url.render_as_string(hide_password=False)
        for label in labels:
            lines = (folder / f"{label['scenario']}-{label['size']}.ndjson").read_bytes().splitlines()
            documents = [decode_document(line) for line in lines]
            writer.write([each for each in documents if isinstance(each, Application | Execution)])
            (execution,) = (
                each for each in documents if isinstance(each, Execution) and each.execution_id == label["execution_id"]
            )
            rows = execution_rows(execution)
            keys = [
                (str(row.node_id), row.operator_key)
                for row in rows.plan_node
                for each in label["operators"]
                if row.name.startswith(each["node"]) and each["contains"] in (row.simple or "")
            ]
            reference = f"{label['application_id']}/{label['execution_id']}"
            verdict = _ask(url, "verdict", reference)
            findings = _ask(url, "findings", "--execution", reference, "--each", "--limit", "1000")
            yield Case(
                label,
                frozenset(key for pair in keys for key in pair if key),
                label["wall_ms"],
                verdict[0] if verdict else None,
                findings,
            )


def _ask(url: str, *command: str) -> list[dict[str, Any]]:
    """The lines that a command prints; none if it fails."""
    done = CliRunner().invoke(cli, [*command, "--json"], env={URL_VARIABLE: url})
    if done.exit_code:
        print(f"{' '.join(command)}: {done.stderr.strip() or done.exception}", file=sys.stderr)
        return []
    return [json.loads(line) for line in done.stdout.splitlines()]


def report(cases: Sequence[Case]) -> Iterator[str]:
    """The tables, as Markdown."""
    planted = [case for case in cases if case.code != HEALTHY]
    healthy = [case for case in cases if case.code == HEALTHY]
    by_code: dict[str, list[Case]] = defaultdict(list)
    for case in planted:
        by_code[case.code].append(case)
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for code, its in [*sorted(by_code.items()), ("all", planted)]:
        costly = [case for case in its if (case.share or 0) >= LEAST]
        found = [case for case in costly if case.findings]
        shares = (
            _share([case.is_code_right for case in its]),
            _share([case.is_operator_right for case in its if case.is_operator_right is not None]),
            _share([case.is_true(case.verdict["wall_ms"]) for case in costly if case.verdict and case.is_code_right]),
            _share([bool(case.findings) for case in costly]),
            _share([case.is_true(case.stake_ms) for case in found]),
            _share([case.saved_ms >= (case.stake_ms or 0) / 2 for case in found]),
        )
        yield f"| {code} | {len(its)} | {' | '.join(shares)} |"
    if healthy:
        on_healthy = [(case, each) for case in healthy for each in case.findings]
        wrong = [each for case, each in on_healthy if (each["wall_ms"] or 0) < LITTLE * case.duration_ms]
        yield ""
        queries = sum(bool(case.findings) for case in healthy)
        yield (
            f"{len(healthy)} healthy queries: {len(on_healthy)} findings on {queries} of them,"
            f" {len(wrong)} of these for less than {LITTLE:.0%} of the wall time"
        )


def _share(each: Sequence[bool]) -> str:
    return f"{sum(each)} of {len(each)}" if each else ""


def mistakes(cases: Sequence[Case]) -> Iterator[str]:
    """A line for each case that is not as its label says."""
    for case in cases:
        if case.code == HEALTHY:
            for each in case.findings:
                yield f"{case.name}: {each['finding']}, {each['wall_ms']} ms of {case.duration_ms}: {each['title']}"
            continue
        problems = []
        if not case.is_code_right:
            problems.append(f"says {case.said}, is {' or '.join(case.label['codes'])}")
        if case.is_operator_right is False:
            problems.append(f"operators {(case.verdict or {}).get('operators')} instead of {sorted(case.keys)}")
        if (case.share or 0) >= LEAST and not case.findings:
            problems.append(f"no finding for {case.share:.0%}")
        if problems:
            yield f"{case.name}: {'; '.join(problems)}"


def score(folder: Path, cases: Sequence[tuple[str, str]]) -> None:
    """Print the tables, and keep what is reported."""
    scored = []
    with (folder / "said.jsonl").open("w") as file:
        for case in read_cases(folder, cases):
            scored.append(case)
            said = {"case": case.name, "verdict": case.verdict, "findings": case.findings, "label": case.label}
            file.write(json.dumps(said, default=str) + "\n")
    print("\n".join(mistakes(scored)), end="\n\n")
    print("\n".join(report(scored)))
