"""What a reader asks of an execution's page: the parameters of its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from joinsight.base.errors import ConfigurationError
from joinsight.queries.filters import one_of

ZOOMS = (25, 50, 75, 100, 150, 200)
"""Sizes of the drawing in percent."""
FIT = 0
"""The zoom that fits the drawing to the width of the page."""
MAX_OPEN = 500
MAX_SEARCH = 200
_ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewOptions:
    """What of an execution is shown, and how."""

    version: int | None = None
    """The plan version; None: the last one."""
    node: int | None = None
    """The node whose metrics are shown."""
    stage: int | None = None
    """The stage whose operators are marked."""
    zoom: int = 100
    """One of `ZOOMS`, or `FIT`."""
    opened: frozenset[int] = frozenset()
    """The chains that are not folded, by their topmost nodes."""
    opens_all: bool = False
    search: str = ""
    """Marks the nodes whose name or text contains it, whatever the case."""
    refreshes: bool = True
    """Whether the page of a running execution loads itself again."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> ViewOptions:
        """Parse parameters; raises `ConfigurationError` for invalid ones."""
        opened = parameters.get("open", "")
        ids = [] if opened in ("", _ALL) else opened.split(",")
        if not all(map(_is_number, ids)) or len(ids) > MAX_OPEN:
            raise ConfigurationError("open", opened, "not a list of nodes", f"Write up to {MAX_OPEN} ids, or {_ALL}.")
        search = " ".join(parameters.get("search", "").split())
        if len(search) > MAX_SEARCH:
            raise ConfigurationError("search", search, "too long", f"Write up to {MAX_SEARCH} characters.")
        return cls(
            version=number(parameters, "version"),
            node=number(parameters, "node"),
            stage=number(parameters, "stage"),
            zoom=_zoom(parameters.get("zoom", "100")),
            opened=frozenset(map(int, ids)),
            opens_all=opened == _ALL,
            search=search,
            refreshes=one_of("refresh", parameters.get("refresh", "on"), ("on", "off")) == "on",
        )

    def parameters(self, **changes: Any) -> dict[str, object]:
        """The parameters of an address that shows this view with these changes, without defaults."""
        view = replace(self, **changes)
        opened = ",".join(map(str, sorted(view.opened)))
        return {
            "version": view.version,
            "node": view.node,
            "stage": view.stage,
            "zoom": None if view.zoom == 100 else "fit" if view.zoom == FIT else view.zoom,
            "open": _ALL if view.opens_all else opened or None,
            "search": view.search or None,
            "refresh": None if view.refreshes else "off",
        }

    def matches(self, text: str) -> bool:
        """Whether a text contains the search, which is not empty."""
        return self.search.casefold() in re.sub(r"\s+", " ", text).casefold()


DEFAULT = ViewOptions()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9


def number(parameters: Mapping[str, str], name: str) -> int | None:
    """A parameter that is a number; None without it. Raises `ConfigurationError`."""
    text = parameters.get(name)
    if text is None:
        return None
    if not _is_number(text):
        raise ConfigurationError(name, text, "not a valid number", "Write 0 or more.")
    return int(text)


def _zoom(text: str) -> int:
    if text == "fit":
        return FIT
    if _is_number(text) and int(text) in ZOOMS:
        return int(text)
    raise ConfigurationError("zoom", text, "not a valid zoom", f"Write fit, {', '.join(map(str, ZOOMS))}.")
