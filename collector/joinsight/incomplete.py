"""Why an execution's numbers may be partial: a code for programs and a sentence for people, in one table.

The table is ``incomplete.json``, which the listener's Incomplete.java reads too; docs/guarantees.md says what each code
means. A document has the sentences in `incomplete` and the codes in `incomplete_codes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

TEXTS: Mapping[str, str] = json.loads(files("joinsight").joinpath("incomplete.json").read_text("utf-8"))
"""By code the sentence, with names of what it is filled with."""
APPROXIMATED = "values_approximated"
"""Medians are within 1 %, all else is exact: nothing is missing."""
LOST = frozenset({"driver_lost", "application_ended"})
"""The execution's state is `lost`."""


class Reason(NamedTuple):
    """One reason."""

    code: str
    text: str


def reason(code: str, **values: object) -> Reason:
    """The reason of this code, with its sentence filled."""
    return Reason(code, TEXTS[code].format(**values))


def of_any(code: str) -> str:
    """The sentence without what differs from one execution to the next; what is no code of ours stays as it is."""
    return re.sub(r"\{\w+\}", "...", TEXTS.get(code, code))
