"""Compares results of queries in whatever order their rows are: by the number of rows, a hash, and sums of floats.

Floating-point numbers of equal results may differ in their last digits, as a sum depends on the order of its parts. So
they are not part of the hash: each column has weighted sums instead, where a row's weight follows from its other
values, and these may differ by a billionth.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_TOLERANCE = 1e-9
_FLOATS = ("double", "float")


@dataclass(frozen=True)
class Result:
    """What is equal for equal results."""

    rows: int
    hash: int
    """The sum of the rows' hashes, which know of floats only whether they are NULL, NaN or infinite."""
    floats: Mapping[str, float | None]
    """Sums by name: ``f0_sum``, ``f0_square`` and ``f0_size`` (of absolute values) of each floating-point number of a
    row, ``f0f1_product`` and ``f0f1_size`` of neighbours."""

    def equals(self, other: Result) -> bool:
        """Whether the results are the same."""
        if (self.rows, self.hash, self.floats.keys()) != (other.rows, other.hash, other.floats.keys()):
            return False
        return all(_is_close(self.floats, other.floats, name) for name in self.floats)

    def difference(self, other: Result) -> str:
        """What another result has instead, in words."""
        if (self.rows, self.hash) == (other.rows, other.hash):
            return f"other floating-point numbers in {self.rows:,} rows"
        return f"{self} instead of {other}"

    def __str__(self) -> str:
        return f"{self.rows:,} rows (hash {self.hash % 2**32:08x})"


def _is_close(one: Mapping[str, float | None], other: Mapping[str, float | None], name: str) -> bool:
    first, second = one[name] or 0.0, other[name] or 0.0
    size = max(one.get(f"{name.rpartition('_')[0]}_size") or 0.0, 1e-300)
    return first == second or abs(first - second) <= _TOLERANCE * size


def result_of(frame: DataFrame) -> Result:
    """Compute the result of a DataFrame. Raises Spark's error, also if a column cannot be hashed."""
    from pyspark.sql import functions as f

    frame = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    hashed: list[SparkColumn] = []
    floats: list[_Float] = []
    for each in json.loads(frame._jdf.schema().json())["fields"]:
        exact, its = _parts(f.col(each["name"]), each["type"])
        hashed += [exact, exact.isNull()]
        if not isinstance(each["type"], str):  # hashes of arrays skip NULLs
            hashed.append(exact.cast("string"))
        floats += its
    row_hash = f.xxhash64(*hashed) if hashed else f.lit(0).cast("long")
    values = [column for number, each in enumerate(floats) for column in each.named(number)]
    rows = frame.select(row_hash.alias("row_hash"), *values)
    weight = f.lit(0.5) + f.pmod(f.col("row_hash"), f.lit(1009)) / f.lit(1009.0)
    sums = [f.count(f.lit(1)).alias("rows"), f.sum(f.col("row_hash").cast("decimal(38,0)")).alias("hash")]
    for number in range(len(floats)):
        value, size = f.col(f"f{number}"), f.col(f"f{number}_size")
        sums += [
            f.sum(value * weight).alias(f"f{number}_sum"),
            f.sum(size * weight).alias(f"f{number}_size"),
            f.sum(value * value / (f.lit(1.0) + size) * weight).alias(f"f{number}_square"),
        ]
    for number in range(1, len(floats)):  # sums alone are equal if values of two columns are paired in another way
        pair = f"f{number - 1}f{number}"
        product, size = f.lit(1.0), f.lit(1.0)
        for name in (f"f{number - 1}", f"f{number}"):
            product = product * f.sin(f.lit(3.0) * f.log1p(f.abs(f.col(name)))) * f.signum(f.col(name))
            size = size * f.col(f"{name}_size") / (f.lit(1.0) + f.col(f"{name}_size"))
        sums += [f.sum(product * weight).alias(f"{pair}_product"), f.sum(size * weight).alias(f"{pair}_size")]
    (found,) = rows.agg(*sums).collect()
    values_by_name = found.asDict()
    return Result(
        int(values_by_name.pop("rows")),
        int(values_by_name.pop("hash") or 0),
        {name: None if value is None else float(value) for name, value in values_by_name.items()},
    )


@dataclass(frozen=True)
class _Float:
    """A floating-point number of a row, or the sum of those in an array, and the sum of their absolute values."""

    value: SparkColumn
    size: SparkColumn

    def named(self, number: int) -> tuple[SparkColumn, SparkColumn]:
        return self.value.alias(f"f{number}"), self.size.alias(f"f{number}_size")


def _parts(value: SparkColumn, kind: Any) -> tuple[SparkColumn, list[_Float]]:
    """What must be equal of a value whose type is this JSON, and its floating-point numbers."""
    from pyspark.sql import functions as f

    if kind == "variant":
        return value.cast("string"), []
    if kind in _FLOATS:
        number = value.cast("double")
        is_finite = ~f.isnan(number) & (f.abs(number) != f.lit(math.inf))
        finite = f.coalesce(f.when(is_finite, number), f.lit(0.0))
        exact = f.when(is_finite, f.lit("")).otherwise(number.cast("string"))  # also NULL, NaN, Infinity
        return exact, [_Float(finite, f.abs(finite))]
    if isinstance(kind, str):
        return value, []
    if kind["type"] == "struct" and kind["fields"]:
        fields = [(each["name"], *_parts(value.getField(each["name"]), each["type"])) for each in kind["fields"]]
        exact = f.when(value.isNotNull(), f.struct(*(column.alias(name) for name, column, _ in fields)))
        return exact, [each for _, _, its in fields for each in its]
    if kind["type"] == "map":
        pair = [{"name": "key", "type": kind["keyType"]}, {"name": "value", "type": kind["valueType"]}]
        entries = f.array_sort(f.map_entries(value), _by_key)
        return _parts(entries, {"type": "array", "elementType": {"type": "struct", "fields": pair}})
    if kind["type"] == "array":
        its_kind = kind["elementType"]
        exact = f.transform(value, lambda each: _parts(each, its_kind)[0])
        return exact, [_summed(value, its_kind, number) for number in range(_floats_in(its_kind))]
    return value, []


def _by_key(one: SparkColumn, other: SparkColumn) -> SparkColumn:
    from pyspark.sql import functions as f

    first, second = one.getField("key"), other.getField("key")
    return f.when(first < second, f.lit(-1)).when(first > second, f.lit(1)).otherwise(f.lit(0))


def _floats_in(kind: Any) -> int:
    """How many floating-point numbers `_parts` makes of a type."""
    if isinstance(kind, str):
        return int(kind in _FLOATS)
    if kind["type"] == "struct":
        return sum(_floats_in(each["type"]) for each in kind["fields"])
    return sum(_floats_in(kind[name]) for name in ("keyType", "valueType", "elementType") if name in kind)


def _summed(array: SparkColumn, kind: Any, number: int) -> _Float:
    """The sum of one of the numbers that each element has, weighted by its place."""
    from pyspark.sql import functions as f

    def weighted(what: str) -> SparkColumn:
        def of(each: SparkColumn, place: SparkColumn) -> SparkColumn:
            weight = f.lit(0.5) + f.pmod(place * f.lit(619), f.lit(1009)) / f.lit(1009.0)
            column: SparkColumn = getattr(_parts(each, kind)[1][number], what) * weight
            return f.coalesce(column, f.lit(0.0))

        summed = f.aggregate(f.transform(array, of), f.lit(0.0), lambda total, each: total + each)
        return f.coalesce(summed, f.lit(0.0))

    return _Float(weighted("value"), weighted("size"))


def same(one: Any, other: Any) -> bool:
    """Whether two results of functions are equal: of DataFrames those of `result_of`, else the values."""
    if isinstance(one, Result) and isinstance(other, Result):
        return one.equals(other)
    return bool(one == other)
