"""What the pytest plugin measures and checks."""

from __future__ import annotations

import fcntl
import re
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from joinsight.base.errors import JoinsightError
from joinsight.base.files import write_whole
from joinsight.driver.attach import classic_context
from joinsight.gate.golden import difference, from_text, to_text
from joinsight.measuring.budgets import asked_for, broken
from joinsight.measuring.measurement import Measured, active_context

_NOT_OF_A_FILE_NAME = re.compile(r"[^\w.=,+-]+")


@dataclass(frozen=True)
class Test:
    """The test that measures, and what pytest's options say."""

    node_id: str
    name: str
    plans: Path
    """The folder of its golden plans."""
    page: Path
    """The file that shows the plans if it fails."""
    updates: bool
    """Golden plans are written instead of compared with."""
    record: Path | None
    """The file of what was measured, for `joinsight gate`."""

    def golden_file(self, name: str | None) -> Path:
        """``plans/test_sales/test_report.plan`` next to the test's file."""
        return self.plans / f"{_NOT_OF_A_FILE_NAME.sub('-', name or self.name)}.plan"


class Checked(Measured):
    """Measured queries of a test."""

    def __init__(self, context: Any, test: Test) -> None:
        super().__init__(context)
        self._test = test

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self._test.record is not None and (error is None or self._executions is not None):
            with self._test.record.open("ab") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # processes of pytest-xdist write too
                file.write(self.documents(job_name=self._test.node_id))

    def must(self, *budgets: str) -> None:
        """Fail if the queries do not keep these: ``no cartesian product``, ``at most 2 shuffles``; see docs/pytest.md.

        Raises `AssertionError` with all that are broken and the plans, `JoinsightError` for one that is not understood.
        """
        __tracebackhide__ = True
        wrong = broken(budgets, self.executions)
        if wrong:
            of = f"{len(wrong)} of {len(budgets)} budgets are" if len(budgets) > 1 else "The budget is"
            self._fail("\n".join([f"{of} broken:", *(f"  {each}" for each in wrong)]))

    def must_match(self, name: str | None = None) -> None:
        """Fail if the plans are not those of the golden file, which ``--joinsight-update`` writes.

        The file is named after the test, or `name`. Raises `AssertionError` with what changed, in sentences and lines.
        """
        __tracebackhide__ = True
        path, found = self._test.golden_file(name), [each.section for each in asked_for(self.executions) if each.plan]
        if self._test.updates:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = to_text(found).encode()
            if not path.exists() or path.read_bytes() != content:
                write_whole(path, content)
            return
        if not path.exists():
            self._fail(f"There is no golden plan {path}: write it with pytest --joinsight-update, and commit it.")
        try:
            expected = from_text(path.read_text("utf-8"))
        except (JoinsightError, UnicodeDecodeError) as error:
            raise JoinsightError(f"{path} cannot be read: {error}") from None
        changed = difference(expected, found)
        if changed:
            self._fail(
                f"The plans differ from {path}:\n\n{changed}\n\nIf they may, pytest --joinsight-update writes them."
            )

    def _fail(self, message: str) -> None:
        __tracebackhide__ = True
        self._test.page.write_text(f'<!doctype html><meta charset="utf-8">{self._repr_html_()}', "utf-8")
        raise AssertionError(f"{message}\n\n{self}\n\nDrawn: {self._test.page.as_uri()}")


def checked(test: Test, what: Any) -> Checked:
    """Implements the fixture's `measure`."""
    if not callable(what):
        return Checked(classic_context(what), test)
    with Checked(active_context(), test) as measured:
        measured.value = what()
    return measured
