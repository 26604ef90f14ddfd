"""What a table format runs for itself: Delta Lake reads its log, to know the files of a table and to leave some out.

It says so in the description of these executions, after that of the user or its own: ``Delta: nightly: Filtering files
for query``, ``Compute snapshot for version: 7``. Most are nested in the query that needs them; others are executions of
their own before it.
"""

from __future__ import annotations

import re

READS_LOG = r"(^|: )(Compute snapshot for version: [0-9]+|Filtering files for query)$"
"""Descriptions of executions that read Delta's log, as a regular expression of Python and PostgreSQL."""


def reads_log(description: str) -> bool:
    """Whether Delta Lake ran it to read its log."""
    return re.search(READS_LOG, description) is not None
