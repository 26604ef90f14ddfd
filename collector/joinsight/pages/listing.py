"""The list of executions, and the parameters of its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from joinsight.filters import SORTS, Filters, filters_of, one_of
from joinsight.pages.environment import render
from joinsight.tables import Row

_FIELDS = filters_of("queries")
_SORTS = SORTS["queries"]
LIMITS = (50, 200, 1_000)
"""The numbers of executions that a page can show; *more* selects the next."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parameters of the form."""

    given: Mapping[str, str]
    """The filters as entered, without empty ones."""
    filters: Filters
    sort: str
    limit: int

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """Parse parameters; raises `ConfigurationError` for invalid ones."""
        given = {name: text for name in _FIELDS if (text := parameters.get(name, "").strip())}
        values = {name: _FIELDS[name].value(name, text) for name, text in given.items()}
        sort = one_of("sort", parameters.get("sort", "").strip() or next(iter(_SORTS)), _SORTS)
        limit = int(one_of("limit", parameters.get("limit", str(LIMITS[0])), tuple(map(str, LIMITS))))
        return cls(given, Filters(**values, limit=limit + 1), sort, limit)  # one more, to see whether there are more


def list_page(asked: Asked, rows: list[Row], worst: Mapping[int, str]) -> str:
    """The page as HTML; `rows` may be one more than the limit, `worst` is the worst severity by the index in `rows`."""
    larger = [limit for limit in LIMITS if limit > asked.limit]
    is_full = len(rows) > asked.limit
    more = urlencode({**asked.given, "sort": asked.sort, "limit": larger[0]}) if is_full and larger else None
    return render(
        "list.html",
        asked=asked,
        fields=_FIELDS,
        sorts=_SORTS,
        is_filtered=asked != Asked.of({}),
        rows=rows[: asked.limit],
        worst=worst,
        more=f"/?{more}" if more else None,
        is_full=is_full,
    )
