"""What a table format runs for itself, to know the files of a table and to leave some out.

Delta Lake reads its log, and says so in the description of these executions, after that of the user or its own:
``Delta: nightly: Filtering files for query``, ``Compute snapshot for version: 7``. Hudi reads its index; their call
sites say so. Most are nested in the query that needs them; others are executions of their own before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

READS_LOG = r"(^|: )(Compute snapshot for version: [0-9]+|Filtering files for query)$"
"""Descriptions of executions that read Delta's log, as a regular expression of Python and PostgreSQL."""
READS_INDEX = r"\norg\.apache\.hudi\.[A-Za-z]*Index"
"""Call sites of executions that read Hudi's index, likewise."""
_OPERATION = re.compile(
    r"(?:^|: )(?:MERGE operation - [^:]*|Finding files to rewrite for [A-Z]+ operation"
    r"|Writing modified data(?: - [^:]*)?|Rewriting [0-9]+ files for [A-Z]+ operation)$"
)
"""Delta's descriptions of what a command runs, which do not say on which table."""
FORMATS = ("Delta's log", "Hudi's index")


def is_operation(description: str) -> bool:
    """Whether Delta describes a part of a command in this way."""
    return _OPERATION.search(description[-200:]) is not None


def reads_of(execution: Mapping[str, Any]) -> str | None:
    """What of a table format it was run to read, as in `FORMATS`; `execution` has `description` and `call_site`."""
    if re.search(READS_LOG, execution["description"]):
        return FORMATS[0]
    return FORMATS[1] if re.search(READS_INDEX, execution["call_site"]) else None
