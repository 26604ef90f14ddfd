"""The list of executions, and what its form asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from joinsight.errors import ConfigurationError
from joinsight.pages.environment import render
from joinsight.reading import Filters
from joinsight.rows import Row
from joinsight.wording.moments import parse_moment

STATES = ("running", "succeeded", "failed", "lost")
SORTS = {"recent": "newest first", "time": "longest first", "size": "most shuffled", "spill": "most spilled"}
LIMITS = (50, 200, 1_000)
"""How many are shown: each time more is asked for."""

_NAMES = ("application", "job", "state", "shape", "since", "until", "sort")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form says: texts as a person wrote them, empty where nothing is asked."""

    application: str = ""
    job: str = ""
    state: str = ""
    shape: str = ""
    since: str = ""
    until: str = ""
    sort: str = "recent"
    limit: int = LIMITS[0]

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """Raises `ConfigurationError` for what cannot be meant."""
        given = {name: parameters[name].strip() for name in _NAMES if parameters.get(name, "").strip()}
        _one_of("state", given.get("state"), STATES)
        _one_of("sort", given.get("sort"), tuple(SORTS))
        limit = parameters.get("limit", str(LIMITS[0]))
        _one_of("limit", limit, tuple(map(str, LIMITS)))
        return cls(**given, limit=int(limit))

    def filters(self) -> Filters:
        """As the store is asked; raises `ConfigurationError` for a time that is none."""
        return Filters(
            application=self.application or None,
            job=self.job or None,
            state=self.state or None,
            shape=self.shape or None,
            since=parse_moment("since", self.since) if self.since else None,
            until=parse_moment("until", self.until) if self.until else None,
            limit=self.limit + 1,  # one more says whether there are more
        )


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise ConfigurationError(name, value, "there is none of this name", f"Write one of {', '.join(known)}.")


def list_page(asked: Asked, rows: list[Row], worst: Mapping[int, str]) -> str:
    """As HTML; `rows` may be one more than asked for, `worst` is the worst severity found, by the place in `rows`."""
    further = [limit for limit in LIMITS if limit > asked.limit]
    given = {name: getattr(asked, name) for name in _NAMES if getattr(asked, name)}
    has_more = len(rows) > asked.limit
    return render(
        "list.html",
        asked=asked,
        states=STATES,
        sorts=SORTS,
        is_filtered=asked != Asked(),
        rows=rows[: asked.limit],
        worst=worst,
        more=f"/?{urlencode({**given, 'limit': further[0]})}" if has_more and further else None,
        is_full=has_more,
    )
