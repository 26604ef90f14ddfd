"""Counts the most frequent keys of a join's or shuffle's inputs, and how much of the join's output each makes.

The question runs in a clone of the user's session, whose settings stay as they are. All keys of small sides are
counted; of large ones those of a sample, so that the question costs a fraction of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joinsight.base.errors import JoinsightError
from joinsight.measuring import logical
from joinsight.measuring.key_values import KeyValues

MOST = 10
"""Keys that are named of each side, and of a join's output."""
LISTED = 1000
"""Keys that are collected: those with the largest share of a side or of the output, so none of 0.1 % is missed."""
_DESCRIPTION = "joinsight: the hottest keys"
_PARTITIONS = 200
"""The most, where the user's session has more."""
_ROWS_A_PARTITION = 50_000
_COUNTED_A_PARTITION = 250_000
_MOST_WHOLE = 500_000
"""Rows of a side, up to which all are counted; of a larger one, a sample is."""
SAMPLE = 100_000
"""Rows of a sample: the share of a key is off by 0.3 points at most, in 95 of 100 cases."""
_LEAST_SAMPLED = 20
"""Rows of a sample that a key must have for its share of a join's output to be estimated."""
_SEED = 1
OUTPUT = "output"
"""The name of a count: rows of the join's output."""
_TOTALS = "totals"


@dataclass(frozen=True)
class KeyCounts:
    """How many rows of each side and of the output keys have, and all rows of each side."""

    by_key: Sequence[tuple[tuple[Any, ...], Mapping[str, int]]]
    """Keys, each once, with their rows: those with the largest shares."""
    rows: Mapping[str, int]
    keys: Mapping[str, int]
    """Keys of `by_key` that each side has."""
    sampled: Sequence[str]
    """Sides whose counts are estimates, from a sample."""


def count(
    java_session: Any,
    found: logical.Found,
    join_type: str | None,
    sizes: Sequence[int | None],
    rows_read: int | None,
    made: int | None,
) -> KeyCounts:
    """Count the most frequent keys of an operator, in a clone of this session.

    `sizes` are the rows of each side, `rows_read` all that are read for them, and `made` those of the join's output;
    None if that is not known.
    """
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        raise JoinsightError("This SparkSession has been stopped.")
    fractions = [SAMPLE / size if size is not None and size > _MOST_WHOLE else None for size in sizes]
    is_simple = None not in sizes and not any(side.shuffles for side in found.sides)
    if is_simple:
        counted = sum(round((size or 0) * (part or 1)) for size, part in zip(sizes, fractions, strict=True))
        partitions = 1 + counted // _COUNTED_A_PARTITION
    else:
        partitions = _PARTITIONS if rows_read is None else min(_PARTITIONS, 1 + rows_read // _ROWS_A_PARTITION)
    session = _clone(context, java_session, partitions, is_adaptive=not is_simple)
    columns = [f"key{i}" for i in range(len(found.sides[0].keys))]
    names = [side.name for side in found.sides]
    sides = [_keys_of(session, side, columns, names, part) for side, part in zip(found.sides, fractions, strict=True)]
    return _tops(context, session, found, columns, sides, sizes, fractions, join_type, made)


def _tops(
    context: Any,
    session: Any,
    found: logical.Found,
    columns: Sequence[str],
    sides: Sequence[Any],
    sizes: Sequence[int | None],
    fractions: Sequence[float | None],
    join_type: str | None,
    made: int | None,
) -> KeyCounts:
    """The most frequent keys of each side and of the output, of whole sides or of samples.

    Built of SQL's texts, because each function of a column is a call to the JVM, which waits for a processor.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as f

    names = [side.name for side in found.sides]
    tagged = sides[0] if len(sides) == 1 else sides[0].union(sides[1])
    grouped = DataFrame(tagged, session).groupBy(*columns)
    counts = grouped.agg(*(f.expr(f"count(`{side}`) AS `{side}`") for side in names))
    counts = counts.observe(_TOTALS, *(f.expr(f"sum(`{side}`) AS `{side}`") for side in names))
    wholes = [float(size or 1) * (part or 1.0) for size, part in zip(sizes, fractions, strict=True)]
    shares = [f"`{side}` / {whole!r}D" for side, whole in zip(names, wholes, strict=True)]
    output = None
    if join_type is not None:
        scales = [1.0 if part is None else 1 / part for part in fractions]
        output = _output(_never_equal(found, columns), join_type, scales)
        whole = float(max(1, made or 0, *(size or 0 for size in sizes)))
        share = f"({output}) / {whole!r}D"
        # No share of the output: keys whose pairs are mostly dropped must not displace others
        shares.append(f"least({share}, {1 / LISTED!r}D)" if found.has_condition else share)
    order = [f"greatest({', '.join(shares)})" if len(shares) > 1 else shares[0], output or f"`{names[-1]}`"]
    values = KeyValues(counts, columns)
    measures = [*names, *([] if output is None else [OUTPUT])]
    shown = [*values.texts(), *(f"`{side}`" for side in names), *([] if output is None else [f"{output} AS {OUTPUT}"])]
    largest: Any = counts.orderBy(*(f.expr(each).desc() for each in order)).limit(LISTED).selectExpr(*shown)
    collected = _described(context, largest.collect)
    totals = largest._jdf.queryExecution().observedMetrics().get(_TOTALS)
    rows, factors = {}, {}
    for i, (side, size, part) in enumerate(zip(names, sizes, fractions, strict=True)):
        read_rows = 0 if totals.isEmpty() or totals.get().isNullAt(i) else int(totals.get().getLong(i))
        # What went into a join was measured; below a partial aggregation, only what was read
        is_known = join_type is not None and part is not None and size is not None
        rows[side] = int(size or 0) if is_known else round(read_rows / (part or 1))
        factors[side] = rows[side] / max(1, read_rows)
    by_key = [
        (values.of(row), {measure: round(int(row[measure]) * factors.get(measure, 1)) for measure in measures})
        for row in collected
    ]
    return KeyCounts(
        by_key,
        rows,
        {side: sum(its[side] > 0 for _, its in by_key) for side in names},
        tuple(side for side, part in zip(names, fractions, strict=True) if part is not None),
    )


def _never_equal(found: logical.Found, columns: Sequence[str]) -> str:
    """Whether a key has a NULL that equals no other."""
    nulls = [f"{name} IS NULL" for name, null_safe in zip(columns, found.null_safe, strict=True) if not null_safe]
    return " OR ".join(nulls) or "false"


def _output(never_equal: str, join_type: str, scales: Sequence[float]) -> str:
    """The rows of a join's output that a key makes, if keys are all that it compares.

    A double: products may exceed a long's range, and decimals take far longer.
    """
    left, right = (f"{scale!r}D * `{side}`" for side, scale in zip(("left", "right"), scales, strict=True))
    # A product of two or three rows of samples says nothing
    few = [
        f"`{side}` < {1 if scale == 1 else _LEAST_SAMPLED}"
        for side, scale in zip(("left", "right"), scales, strict=True)
    ]
    is_unmatched = " OR ".join([*few, never_equal])
    unmatched = "0D"
    if join_type in ("LeftOuter", "FullOuter", "LeftSingle", "LeftAnti"):
        unmatched = left
    if join_type in ("RightOuter", "FullOuter"):
        unmatched = f"{unmatched} + {right}"
    matched = {"LeftSemi": left, "LeftAnti": "0D", "ExistenceJoin": left}.get(join_type, f"{left} * {right}")
    return f"if({is_unmatched}, {left if join_type == 'ExistenceJoin' else unmatched}, {matched})"


def _clone(context: Any, java_session: Any, partitions: int, *, is_adaptive: bool) -> Any:
    """A session of its own settings, with the user's at this moment, and with `partitions` at most for its shuffles.

    AQE is left out where only the count itself shuffles: planning its stages would take longer than they do.
    """
    from pyspark.sql import SparkSession

    session = SparkSession(context, java_session.cloneSession())
    settings: Any = session.conf
    settings.set("spark.sql.adaptive.enabled", str(is_adaptive).lower())
    settings.set("spark.sql.adaptive.coalescePartitions.enabled", "true")
    settings.set("spark.sql.exchange.reuse", "true")
    for name in ("spark.sql.shuffle.partitions", "spark.sql.adaptive.coalescePartitions.initialPartitionNum"):
        if int(settings.get(name, None) or _PARTITIONS) > partitions:
            settings.set(name, str(partitions))
    return session


def _keys_of(session: Any, side: logical.Side, columns: Sequence[str], sides: Sequence[str], part: float | None) -> Any:
    """The JVM's Dataset of the key columns of a side's rows, or of a random part of them, under these names.

    It has a column of each side, too: 1 in its own, NULL in the other's.
    """
    jvm = session._jvm
    expressions = "org.apache.spark.sql.catalyst.expressions"
    alias, next_id = (
        logical.java_class(jvm, f"{expressions}.Alias"),
        logical.java_class(jvm, f"{expressions}.NamedExpression"),
    )
    nothing, none = logical.scala_list(jvm, []), jvm.scala.Option.empty()
    named = [
        alias(key, column, next_id.newExprId(), nothing, none, nothing)
        for key, column in zip(side.keys, columns, strict=True)
    ]
    rows = side.plan
    rows.setAnalyzed()  # an optimized plan has what the analyzer would refuse
    if part is not None:
        rows = logical.sampled(session, rows, part, _SEED)
    project = logical.java_class(jvm, "org.apache.spark.sql.catalyst.plans.logical.Project")
    keys = logical.dataset(session, project(logical.scala_list(jvm, named), rows))
    tags = [f"{'1' if each == side.name else 'NULL'} AS `{each}`" for each in sides]
    return keys.selectExpr(logical.scala_list(jvm, [*columns, *tags]))


def _described(context: Any, run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Run a query under this feature's name, which Spark's UI shows."""
    name = "spark.job.description"
    before = context.getLocalProperty(name)
    context.setLocalProperty(name, _DESCRIPTION)
    try:
        return run()
    finally:
        context.setLocalProperty(name, before)
