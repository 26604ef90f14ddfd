"""Paths of tables, as people and keys name them: without what changes from run to run."""

from __future__ import annotations

import re

_AUTHORITY = re.compile(r"^[a-z][a-z0-9+.-]{0,20}:(?://[^/]*)?")
_VARYING = re.compile(r"\d{1,4}([-_])\d{1,2}\1\d{1,4}|[0-9a-f]{8}-[0-9a-f-]{27}|\d{4,}")
_FOLDER = re.compile(r"(?!te?mp)[^\W\d]+")
_MAX_READ = 2_000


def end_of_path(path: str, segments: int) -> str:
    """The end of a path, with ``*`` for dates and long numbers; empty if Spark has cut it off."""
    if len(path) > _MAX_READ or path.endswith("..."):
        return ""
    parts = [part for part in _AUTHORITY.sub("", path).split("/") if part and "=" not in part]
    fixed = [_VARYING.sub("*", part) for part in parts]
    while len(fixed) > 1 and (not fixed[-1].strip("*-_.") or fixed[-1].startswith("part-")):
        fixed.pop()  # what varies, and a file that Spark wrote: streams name the first one of each micro-batch
    shown = fixed[-1:]
    if segments > 1 and len(fixed) > 1 and _FOLDER.fullmatch(fixed[-2]):
        shown = fixed[-2:]
    return "/".join(shown)
