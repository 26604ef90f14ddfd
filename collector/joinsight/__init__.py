"""Joinsight: what every join and shuffle of a Spark SQL query costs.

``joinsight.attach(SparkSession.builder, url=...)`` attaches the listener, ``joinsight.history(spark, table)`` reads the
stored history, ``with joinsight.measure(spark) as measured:`` measures queries without a collector, and
``joinsight.compare({...})`` compares variants of one, ``joinsight.try_advice(spark, query)`` tries those that its
findings propose; everything else is the command ``joinsight``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from joinsight.driver.attach import JoinsightWarning, attach, listener_jar
from joinsight.spark.history import history

if TYPE_CHECKING:
    from joinsight.measuring.advice import Advice
    from joinsight.measuring.measurement import Measured
    from joinsight.measuring.variants import Variants

__all__ = ["JoinsightWarning", "__version__", "attach", "compare", "history", "listener_jar", "measure", "try_advice"]

__version__ = "0.1.0"


def measure(what: Any) -> Measured:
    """Measure the SQL executions that start in a block, or in a function, without a collector.

    ::

        with joinsight.measure(spark) as measured:
            orders.join(customers, "customer_id").count()
        print(measured)                               # what `joinsight plan` prints; a notebook shows the drawing
        measured.executions[0].joins[0].strategy      # rows of the tables of docs/data-dictionary.md

        joinsight.measure(lambda: orders.count()).executions

    `what` is a SparkSession, of which all queries of its SparkContext are measured, also those of other threads; or a
    function, which is called: `value` is then what it returned. Works beside an attached listener, and nested. Raises
    `JoinsightError` if there is no classic session (Spark Connect has none).
    """
    from joinsight.measuring.measurement import measure

    return measure(what)


def compare(
    variants: Mapping[str, Callable[[], Any]], *, runs: int = 5, check: bool = True, budget_s: float | None = None
) -> Variants:
    """Run variants of a query in turns, and compare their wall time, task time and bytes, each with its scatter.

    ::

        joinsight.compare({
            "as it is": lambda: orders.join(customers, "customer_id"),
            "broadcast": lambda: orders.join(broadcast(customers), "customer_id"),
        })

    A function that returns a DataFrame has it computed whole, and written nowhere; any other has to run its queries
    itself. Each runs once before, which does not count, then `runs` times; with `budget_s`, until each is certainly
    faster or slower than the first, or so many seconds have passed. With `check`, the first results must be
    equal: of DataFrames the number of rows and a hash, in which the order of rows does not matter, and sums of
    floating-point numbers to a billionth; of others the values. Raises `JoinsightError` if they differ, or if no query
    runs.
    """
    from joinsight.measuring.variants import compare

    return compare(variants, runs, check, budget_s)


def try_advice(spark: Any, query: Any, budget_s: float = 600) -> Advice:
    """Try what the findings and the verdict of a query propose, on the full data, in this session; only reads.

    ::

        advice = joinsight.try_advice(spark, orders.join(customers, "customer_id"))
        print(advice)  # what to change, how much it saves, and what was refused and why

    `query` is a DataFrame, or a function that returns one or runs a query (of several, the longest is tried), with the
    session or nothing as argument. Variants (hints, settings, a salted key) and the query as it is run in turns, each
    whole and written nowhere, until a test that may be looked at after every run has decided, for about `budget_s`
    seconds. `accepted` has the variants whose result is the same, that are faster, and that lowered the number which
    the proposal named; `refused` has the others, with the reason. Both are lists of dicts: docs/advice.md.

    The session's settings, plans and caches stay as they are. Raises `JoinsightError` if there is no classic session,
    if the query writes or runs a command, or if the budget is too small for two runs.
    """
    from joinsight.measuring.advice import try_advice
    from joinsight.measuring.measurement import Measured

    return try_advice(Measured, spark, query, budget_s)


def load_ipython_extension(shell: Any) -> None:
    """Add the cell magic ``%%joinsight``; called by ``%load_ext joinsight``."""
    from joinsight.measuring.cell_magic import load

    load(shell)
