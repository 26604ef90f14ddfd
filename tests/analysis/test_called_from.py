"""Where an execution was called from, read from Spark's call sites."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.documents import execution
from tests.growth import check_cpu_time

from joinsight.analysis.called_from import called_from
from joinsight.analysis.rows import execution_rows

FROM_PYTHON = (
    "org.apache.spark.sql.classic.Dataset.count(Dataset.scala:1580)\n"
    "java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke0(Native Method)\n"
    "java.base/jdk.internal.reflect.NativeMethodAccessorImpl.invoke(NativeMethodAccessorImpl.java:77)"
)
FROM_SCALA = (
    "org.apache.spark.sql.Dataset.collect(Dataset.scala:3585)\n"
    "com.example.Sales$.$anonfun$main$1(Sales.scala:12)\ncom.example.Sales$.main(Sales.scala:30)"
)
LINES = "count at /jobs/sales.py:42\nmain at /jobs/sales.py:60"


@pytest.mark.parametrize(
    ("description", "call_site", "expected"),
    [
        ("count at /jobs/my sales/sales.py:42", LINES, "sales.py:42"),
        ("collect at C:\\jobs\\sales.py:42", "", "sales.py:42"),
        ("count at sales.py:42", "", "sales.py:42"),
        ("Sales by region", LINES, "sales.py:42"),
        ("collect at Sales.scala:12", FROM_SCALA, "Sales.scala:12"),
        ("Sales by region", FROM_SCALA, "Sales.scala:12"),
        ("count at <console>:25", "", "<console>:25"),
        ("collect at <stdin>:1", "", "<stdin>:1"),
        ("count at /tmp/ipykernel_4242/316612.py:3", "", "<cell>:3"),
        ("count at <ipython-input-7-ab12cd>:3", "", "<cell>:3"),
        ("count at NativeMethodAccessorImpl.java:0", FROM_PYTHON, None),
        ("count at DirectMethodHandleAccessor.java:103", FROM_PYTHON, None),
        ("$anonfun$withThreadLocalCaptured$2 at CompletableFuture.java:1768", "", None),
        ("run at ThreadPoolExecutor.java:1136", "", None),
        ("Sales by region", FROM_PYTHON, None),
        ("count at <unknown>:0", "", None),
        ("load at 10:30", "", None),
        ("", "", None),
    ],
)
def test_the_line_of_the_user(description: str, call_site: str, expected: str | None) -> None:
    """The base name of the file, and the line; a description of the job leaves it to the long call site."""
    assert called_from(description, call_site) == expected


def test_an_executions_row_has_its_line() -> None:
    """In a column, and among the words by which it is searched."""
    row = execution_rows(execution(description="count at /jobs/sales.py:42")).execution
    assert row.called_from == "sales.py:42"
    assert {"sales", "py", "42"} <= set(row.words or ())


@pytest.mark.parametrize("piece", ["a at ", "a at .b:", "/", "(", "(a.b:1", "ipykernel_1/", "<ipython-input-", ":1"])
def test_hostile_call_sites(piece: str) -> None:
    """Texts of any kind take time in proportion to their length."""

    def prepare(size: int) -> Callable[[], object]:
        text = piece * (size // len(piece))
        return lambda: called_from(text, text + "\n" + text)

    check_cpu_time(prepare, 60_000)
