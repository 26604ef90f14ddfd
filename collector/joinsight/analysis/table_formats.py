"""What a table format runs for itself, to know the files of a table and to leave some out.

Delta Lake reads its log, and says so in the description of these executions, after that of the user or its own:
``Delta: nightly: Filtering files for query``, ``Compute snapshot for version: 7``. Hudi reads its index; their call
sites say so. Most are nested in the query that needs them; others are executions of their own before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, FromClause

READS_LOG = r"(^|: )(Compute snapshot for version: [0-9]+|Filtering files for query)$"
"""Descriptions of executions that read Delta's log, as a regular expression of Python and PostgreSQL."""
_READS_INDEX = r"\norg\.apache\.hudi\.[A-Za-z]*Index"
"""Call sites of executions that read Hudi's index, likewise."""
_OPERATION = re.compile(
    r"(?:^|: )(?:MERGE operation - [^:]*|Finding files to rewrite for [A-Z]+ operation"
    r"|Writing modified data(?: - [^:]*)?|Rewriting [0-9]+ files for [A-Z]+ operation)$"
    r"|<br/>Optimizing [0-9]+ files"
)
"""Delta's descriptions of what a command runs, which do not say on which table, or by its path."""
_OWN_CALL = re.compile(
    r"(?:org\.apache\.spark\.sql\.(?:delta|hudi)|io\.delta|org\.apache\.hudi)\."
    r"|org\.apache\.spark\.sql\.execution\.SQLExecution"
)
"""The beginning of a call site in a format's code, or in another thread of Spark."""
_COMPACTION = re.compile(r"<br/>Optimizing [0-9]+ files|^Rewriting [0-9]+ files \([A-Z-]+, file group ")
"""Descriptions of what rewrites a group of small files."""
FORMATS = ("Delta's log", "Hudi's index")


def is_operation(description: str) -> bool:
    """Whether Delta describes a part of a command in this way."""
    return _OPERATION.search(description[-200:]) is not None


def is_own_part(description: str, call_site: str) -> bool:
    """Whether a nested execution is a part of a format's command, whose statement says nothing of this part."""
    return is_operation(description) or _OWN_CALL.match(call_site) is not None


def is_compaction(description: str) -> bool:
    """Whether it is one of the many that Delta's OPTIMIZE or Iceberg's compaction runs at the same time."""
    return _COMPACTION.search(description) is not None


def reads_of(execution: Mapping[str, Any]) -> str | None:
    """What of a table format it was run to read, as in `FORMATS`; `execution` has `description` and `call_site`."""
    return own_read(execution["description"], execution["call_site"])


def own_read(description: str, call_site: str) -> str | None:
    """The same by these two."""
    if re.search(READS_LOG, description):
        return FORMATS[0]
    return FORMATS[1] if re.search(_READS_INDEX, call_site) else None


def is_own_read(executions: FromClause) -> ColumnElement[bool]:
    """Whether a table format ran it to read something of its own: `own_read` in SQL."""
    c = executions.c
    return c.description.regexp_match(READS_LOG) | c.call_site.regexp_match(_READS_INDEX)
