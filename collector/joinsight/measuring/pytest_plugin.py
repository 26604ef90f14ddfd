"""The pytest plugin: a fixture ``joinsight`` that measures the queries of a test, checks budgets and golden plans.

pytest imports this module in every project where Joinsight is installed, so it imports only what that needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from joinsight.measuring.checking import Checked


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("joinsight", "queries of Spark: budgets and golden plans")
    group.addoption("--joinsight-update", action="store_true", help="write golden plans instead of comparing with them")
    group.addoption("--joinsight-record", metavar="FILE", help="write what was measured to FILE, for joinsight gate")


def pytest_configure(config: pytest.Config) -> None:
    record = config.getoption("joinsight_record")
    if record and not hasattr(config, "workerinput"):
        Path(record).unlink(missing_ok=True)


class Joinsight:
    """The fixture."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self._request, self._folder = request, folder

    def measure(self, what: Any) -> Checked:
        """As `joinsight.measure`, for a session or a function; what it gives can also be checked."""
        from joinsight.measuring.checking import Test, checked

        request = self._request
        record = request.config.getoption("joinsight_record")
        test = Test(
            node_id=request.node.nodeid,
            name=request.node.name,
            plans=request.path.parent / "plans" / request.path.stem,
            page=self._folder / "joinsight.html",
            updates=request.config.getoption("joinsight_update"),
            record=Path(request.config.invocation_params.dir, record) if record else None,
        )
        return checked(test, what)


@pytest.fixture
def joinsight(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Joinsight]:
    """Measures the queries of a test, and checks budgets and golden plans: https://joinsight.github.io/joinsight/pytest/."""
    yield Joinsight(request, tmp_path)
