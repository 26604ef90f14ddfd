"""Brings key values from Spark to Python, whatever their type is.

Python has no dates before the year 1 or after 9999, and PySpark no values of year-month intervals: these come as Spark
writes them, as texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = ("date", "timestamp", "timestamp_ntz")
_YEARS = (2, 9998)
"""Years of which a time is one of Python's in every time zone."""


class KeyValues:
    """The key columns of a DataFrame, as columns that can be collected."""

    def __init__(self, frame: DataFrame, columns: Sequence[str]) -> None:
        self._columns = columns
        types = {each["name"]: each["type"] for each in json.loads(frame._jdf.schema().json())["fields"]}
        self._types = [types[column] for column in columns]
        self._jvm: Any = frame.sparkSession._jvm

    def texts(self) -> list[str]:
        """Two of SQL for each key: its value, and the text of what may be no value of Python's."""
        found = []
        for name, kind in zip(self._columns, self._types, strict=True):
            value, text = name, "CAST(NULL AS STRING)"
            if kind in _TIMES:
                text = f"CAST({name} AS STRING)"
                value = f"if(year({name}) BETWEEN {_YEARS[0]} AND {_YEARS[1]}, {name}, NULL)"
            elif (collected := _collected(kind)) != kind:
                value = f"CAST({name} AS {self._sql(collected)})"
            found += [f"{value} AS {name}", f"{text} AS {_text_name(name)}"]
        return found

    def of(self, row: Any) -> tuple[Any, ...]:
        """The keys of a collected row: values of Python, with a dict for a struct; None for NULL."""
        return tuple(_plain(row[_text_name(name)] if row[name] is None else row[name]) for name in self._columns)

    def _sql(self, kind: Any) -> str:
        return str(self._jvm.org.apache.spark.sql.types.DataType.fromJson(json.dumps(kind)).sql())


def _text_name(column: str) -> str:
    return f"{column}_text"


def _collected(kind: Any) -> Any:
    """A type as JSON, with texts in place of what PySpark may be unable to collect."""
    if isinstance(kind, str):
        is_text = kind in _TIMES or kind == "interval" or kind.startswith(("interval year", "interval month"))
        return "string" if is_text else kind
    if kind["type"] == "struct":
        fields = [{**each, "type": _collected(each["type"])} for each in kind["fields"]]
        return {**kind, "fields": fields}
    if kind["type"] == "array":
        return {**kind, "elementType": _collected(kind["elementType"])}
    if kind["type"] == "map":
        if not isinstance(kind["keyType"], str):  # a dict has no keys that are lists or dicts
            return "string"
        return {**kind, "keyType": _collected(kind["keyType"]), "valueType": _collected(kind["valueType"])}
    return kind


def _plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    if hasattr(value, "__fields__"):  # a Row, which is a tuple
        return {name: _plain(each) for name, each in zip(value.__fields__, value, strict=True)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {_plain(name): _plain(each) for name, each in value.items()}
    return value
