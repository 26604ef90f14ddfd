"""Refuses queries that write, before they do: a trial runs them again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

from joinsight.base.errors import JoinsightError
from joinsight.measuring import logical
from joinsight.plan import operators

_WRITERS = {
    "pyspark.sql.readwriter.DataFrameWriter": (
        ["saveAsTable", "insertInto", "csv", "jdbc", "json", "orc", "parquet", "text", "xml"]
    ),
    "pyspark.sql.readwriter.DataFrameWriterV2": (
        ["create", "replace", "createOrReplace", "append", "overwrite", "overwritePartitions"]
    ),
    "pyspark.sql.streaming.readwriter.DataStreamWriter": ["start", "toTable"],
    "pyspark.sql.merge.MergeIntoWriter": ["merge"],
}
_NOWHERE = "noop"
_COMMAND = "org.apache.spark.sql.catalyst.plans.logical.Command"
_NO_COMMANDS_YET = ("InsertIntoDir", "ExecuteImmediate")
"""In names of parsed nodes that become commands in analysis."""
_REFUSED = "The query writes or runs a command, so it is not tried: give the DataFrame or SELECT that it reads."


@contextmanager
def only_reads() -> Iterator[None]:
    """Within the block, PySpark's methods that write, and SQL other than queries, raise `JoinsightError`.

    A write to nowhere (`noop`) is none.
    """
    from pyspark.sql import DataFrameWriter, SparkSession

    sql = SparkSession.sql

    def checked(self: Any, sqlQuery: str, *args: Any, **kwargs: Any) -> Any:
        plan = self._jsparkSession.sessionState().sqlParser().parsePlan(sqlQuery)
        refuse_commands(self.sparkContext, plan)
        return sql(self, sqlQuery, *args, **kwargs)

    def refused(*args: Any, **kwargs: Any) -> None:
        raise JoinsightError(_REFUSED)

    set_format, save = DataFrameWriter.format, DataFrameWriter.save

    def formatted(self: Any, source: str) -> Any:
        self._joinsight_format = source
        return set_format(self, source)

    def saved(self: Any, path: str | None = None, format: str | None = None, *args: Any, **kwargs: Any) -> None:
        if path is not None or (format or getattr(self, "_joinsight_format", None)) != _NOWHERE:
            raise JoinsightError(_REFUSED)
        save(self, path, format, *args, **kwargs)

    with ExitStack() as stack:
        stack.enter_context(patch.object(SparkSession, "sql", checked))
        stack.enter_context(patch.object(DataFrameWriter, "format", formatted))
        stack.enter_context(patch.object(DataFrameWriter, "save", saved))
        for writer, methods in _WRITERS.items():
            module, _, name = writer.rpartition(".")
            try:
                owner = getattr(import_module(module), name)
            except ImportError:  # an older PySpark
                continue
            for method in methods:
                if hasattr(owner, method):
                    stack.enter_context(patch.object(owner, method, refused))
        yield


def refuse_commands(context: Any, plan: Any) -> None:
    """Raise `JoinsightError` if a logical plan is or holds a command, or the result of one."""
    from py4j.java_gateway import is_instance_of

    for node in logical.nodes(plan):
        name = logical.class_name(node)
        is_command = is_instance_of(context._gateway, node, _COMMAND) or name.endswith("Statement")
        if is_command or name == operators.COMMAND_RESULT or any(each in name for each in _NO_COMMANDS_YET):
            raise JoinsightError(_REFUSED)
