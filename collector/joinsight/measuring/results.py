"""Compares results of queries in whatever order their rows are: by the number of rows, a hash, and sums of floats.

Floating-point numbers of equal results may differ in their last digits, as a sum depends on the order of its parts. So
they are not part of the hash: each column has weighted sums instead, where a row's weight follows from its other
values, and these may differ by a billionth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOLERANCE = 1e-9
_FLOATS = ("double", "float")


@dataclass(frozen=True)
class Result:
    """What is equal for equal results."""

    rows: int
    hash: int
    """The sum, over all columns without floats, of the rows' hashes."""
    floats: Mapping[str, float | None]
    """Sums of columns of floats by name: ``sum``, ``size`` (of absolute values), ``nulls``, ``nans``, ``infinite``."""

    def equals(self, other: Result) -> bool:
        """Whether the results are the same."""
        if (self.rows, self.hash, self.floats.keys()) != (other.rows, other.hash, other.floats.keys()):
            return False
        return all(_is_close(self.floats, other.floats, name) for name in self.floats)

    def __str__(self) -> str:
        return f"{self.rows:,} rows (hash {self.hash % 2**32:08x})"


def _is_close(one: Mapping[str, float | None], other: Mapping[str, float | None], name: str) -> bool:
    first, second = one[name] or 0.0, other[name] or 0.0
    size = max(one.get(f"{name.rpartition('_')[0]}_size") or 0.0, 1e-300)
    return first == second or abs(first - second) <= _TOLERANCE * size


def result_of(frame: DataFrame) -> Result:
    """Compute the result of a DataFrame. Raises Spark's error, also if a column cannot be hashed, such as a map."""
    from pyspark.sql import functions as f

    frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    floats = [name for name, kind in frame.dtypes if kind in _FLOATS]
    hashed = []
    for name, kind in frame.dtypes:
        if kind in _FLOATS:
            continue
        # Nested floats cannot be taken apart: their text has fewer digits
        column = f.col(name)
        if any(each in kind for each in _FLOATS):
            column = f.regexp_replace(column.cast("string"), r"(\.\d{9})\d+", "$1")
        hashed += [column, f.col(name).isNull()]
    row_hash = f.xxhash64(*hashed) if hashed else f.lit(0).cast("long")
    rows = frame.withColumn("row_hash", row_hash)
    weight = f.lit(0.5) + f.pmod(f.col("row_hash"), f.lit(1009)) / f.lit(1009.0)
    sums = [f.count(f.lit(1)).alias("rows"), f.sum(f.col("row_hash").cast("decimal(38,0)")).alias("hash")]
    for name in floats:
        value = f.col(name).cast("double")
        is_finite = ~f.isnan(value) & (f.abs(value) != f.lit(math.inf))
        finite = f.when(is_finite, value)
        sums += [
            f.sum(finite * weight).alias(f"{name}_sum"),
            f.sum(f.abs(finite) * weight).alias(f"{name}_size"),
            f.sum(finite * finite / (f.lit(1.0) + f.abs(finite)) * weight).alias(f"{name}_square"),
            f.sum(f.col(name).isNull().cast("double")).alias(f"{name}_nulls"),
            f.sum(f.isnan(value).cast("double")).alias(f"{name}_nans"),
            f.sum((value == f.lit(math.inf)).cast("int") * 2 + (value == f.lit(-math.inf)).cast("int"))
            .cast("double")
            .alias(f"{name}_infinite"),
        ]
    (found,) = rows.agg(*sums).collect()
    values = found.asDict()
    return Result(
        int(values.pop("rows")),
        int(values.pop("hash") or 0),
        {name: None if value is None else float(value) for name, value in values.items()},
    )


def same(one: Any, other: Any) -> bool:
    """Whether two results of functions are equal: of DataFrames those of `result_of`, else the values."""
    if isinstance(one, Result) and isinstance(other, Result):
        return one.equals(other)
    return bool(one == other)
