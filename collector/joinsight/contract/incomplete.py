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

TEXTS: Mapping[str, str] = json.loads(files("joinsight.contract").joinpath("incomplete.json").read_text("utf-8"))
"""The sentence of each code, a format string with named fields."""
APPROXIMATED = "values_approximated"
"""Medians are within 1 %, all other values are exact."""
LOST = frozenset({"driver_lost", "application_ended", "attempt_restarted"})
"""The execution's state is `lost`."""


class Reason(NamedTuple):
    """Why numbers may be partial, as code and sentence."""

    code: str
    text: str


def reason(code: str, **values: object) -> Reason:
    """The reason with this code, and `values` filled into its sentence."""
    return Reason(code, TEXTS[code].format(**values))


def generic_text(code: str) -> str:
    """The sentence of a code with ``...`` for its fields; an unknown code is returned unchanged."""
    return re.sub(r"\{\w+\}", "...", TEXTS.get(code, code))
