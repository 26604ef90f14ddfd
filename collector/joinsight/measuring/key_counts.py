"""Counts the most frequent keys of a join's or shuffle's inputs, and how much of the join's output each makes.

The question runs in a clone of the user's session, whose settings stay as they are. All keys of small sides are
counted; of large ones those of a sample, so that the question costs a fraction of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from joinsight.base.errors import JoinsightError
from joinsight.measuring import logical
from joinsight.measuring.key_values import KeyValues

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

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
    sides = [_keys_of(session, side, columns, part) for side, part in zip(found.sides, fractions, strict=True)]
    return _tops(context, found, columns, sides, sizes, fractions, join_type, made)


def _tops(
    context: Any,
    found: logical.Found,
    columns: Sequence[str],
    sides: Sequence[DataFrame],
    sizes: Sequence[int | None],
    fractions: Sequence[float | None],
    join_type: str | None,
    made: int | None,
) -> KeyCounts:
    """The most frequent keys of each side and of the output, of whole sides or of samples."""
    from pyspark.sql import functions as f

    names_of_sides = [side.name for side in found.sides]
    sums = [f.sum(side).alias(side) for side in names_of_sides]
    counts = _tagged(found, columns, sides).groupBy(*columns).agg(*sums).observe(_TOTALS, *sums)
    measures = list(names_of_sides)
    if join_type is not None:
        scales = [1.0 if part is None else 1 / part for part in fractions]
        counts = counts.withColumn(OUTPUT, _output(_never_equal(found, columns), join_type, scales))
        measures.append(OUTPUT)
    values = KeyValues(counts, columns)
    wholes = [float(size or 1) * (part or 1.0) for size, part in zip(sizes, fractions, strict=True)]
    wholes.append(float(max(1, made or 0, *(size or 0 for size in sizes))))
    shares = [f.col(measure) / f.lit(whole) for measure, whole in zip(measures, wholes, strict=False)]
    if found.has_condition:  # no share of the output: keys whose pairs are mostly dropped must not displace others
        shares[-1] = f.least(shares[-1], f.lit(1 / LISTED))
    order = [f.desc(f.greatest(*shares) if len(shares) > 1 else shares[0]), f.desc(measures[-1])]
    largest: Any = counts.orderBy(*order).limit(LISTED).select(*values.columns(), *measures)
    collected = _described(context, largest.collect)
    totals = largest._jdf.queryExecution().observedMetrics().get(_TOTALS)
    rows, factors = {}, {}
    for i, (side, size, part) in enumerate(zip(names_of_sides, sizes, fractions, strict=True)):
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
        {side: sum(its[side] > 0 for _, its in by_key) for side in names_of_sides},
        tuple(side for side, part in zip(names_of_sides, fractions, strict=True) if part is not None),
    )


def _never_equal(found: logical.Found, columns: Sequence[str]) -> SparkColumn:
    """Whether a key has a NULL that equals no other."""
    from pyspark.sql import functions as f

    is_never = f.lit(False)
    for column, null_safe in zip(columns, found.null_safe, strict=True):
        if not null_safe:
            is_never = is_never | f.col(column).isNull()
    return is_never


def _tagged(found: logical.Found, columns: Sequence[str], sides: Sequence[DataFrame]) -> DataFrame:
    """The keys of all sides in one table, each row with a 1 in its side's column."""
    from pyspark.sql import functions as f

    parts = [
        frame.select(*columns, *(f.lit(int(other is side)).cast("long").alias(other.name) for other in found.sides))
        for side, frame in zip(found.sides, sides, strict=True)
    ]
    return parts[0] if len(parts) == 1 else parts[0].union(parts[1])


def _output(never_equal: SparkColumn, join_type: str, scales: Sequence[float]) -> SparkColumn:
    """The rows of a join's output that a key makes, if keys are all that it compares."""
    from pyspark.sql import functions as f

    zero = f.lit(0.0)  # products may exceed a long's range; decimals take far longer
    left, right = (
        f.ceil(f.col(side) * f.lit(scale)).cast("double") for side, scale in zip(("left", "right"), scales, strict=True)
    )
    pairs = f.when(never_equal, zero).otherwise(left * right)
    for side, scale in zip(("left", "right"), scales, strict=True):
        if scale != 1:  # a product of two or three rows of samples says nothing
            pairs = f.when(f.col(side) < _LEAST_SAMPLED, zero).otherwise(pairs)
    if join_type == "LeftSemi":
        return f.when(pairs > zero, left).otherwise(zero)
    if join_type == "LeftAnti":
        return f.when(pairs > zero, zero).otherwise(left)
    if join_type == "ExistenceJoin":
        return left
    unmatched = zero
    if join_type in ("LeftOuter", "FullOuter", "LeftSingle"):
        unmatched = unmatched + left
    if join_type in ("RightOuter", "FullOuter"):
        unmatched = unmatched + right
    return f.when(pairs > zero, pairs).otherwise(unmatched)


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


def _keys_of(session: Any, side: logical.Side, columns: Sequence[str], part: float | None) -> DataFrame:
    """The key columns of a side's rows, or of a random part of them, under these names."""
    from pyspark.sql import DataFrame

    jvm = session._jvm
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    nothing, none = logical.scala_list(jvm, []), jvm.scala.Option.empty()
    named = [
        expressions.Alias(key, column, expressions.NamedExpression.newExprId(), nothing, none, nothing)
        for key, column in zip(side.keys, columns, strict=True)
    ]
    rows = side.plan
    rows.setAnalyzed()  # an optimized plan has what the analyzer would refuse
    if part is not None:
        rows = logical.sampled(session, rows, part, _SEED)
    plan = jvm.org.apache.spark.sql.catalyst.plans.logical.Project(logical.scala_list(jvm, named), rows)
    return DataFrame(logical.dataset(session, plan), session)


def _described(context: Any, run: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """Run a query under this feature's name, which Spark's UI shows."""
    name = "spark.job.description"
    before = context.getLocalProperty(name)
    context.setLocalProperty(name, _DESCRIPTION)
    try:
        return run()
    finally:
        context.setLocalProperty(name, before)
