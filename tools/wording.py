"""Finds wording that makes readers translate, and says what to write instead: ``python -m tools.wording [FILE...]``.

Checks documentation, comments, messages and names in all files of the repository. A line that needs the words for
another reason ends with the comment ``wording: ok``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
ALLOWED = "wording: ok"
_EXAMPLES = (ROOT / "tools/wording.py", ROOT / "tests/test_wording.py")
_SUFFIXES = frozenset({".html", ".java", ".js", ".md", ".py", ".sh", ".sql", ".toml", ".yml"})
# A line break in a sentence, with the marks that comments and strings have around it
_BREAK = r"""(?:[ \t]|["']?[ \t]*\n[ \t]*(?:#|//|\*|--|>)?[ \t]*[frb]*["']?)+"""

WORDING = {
    r"(?<!there\s)(?<!here\s)\b(?:is|are|was|were) no (?:\w+ )?"
    r"(?:array|boolean|certificate|check|column|document|event|file|folder|good|integer|key|letter|line|link|list|log"
    r"|metric|name|number|object|path|pattern|port|size|text|time|token|url)s?\b": "not a valid ..., invalid",
    r"\bthis (?:is no|names none|names no)\b": "not a valid ...",
    r"\b(?:cannot|can not) be (?:meant|asked)\b": "invalid request: unknown parameter ...",
    r"\bnothing (?:\w+ ){0,3}that fits\b": "no matching ...",
    r"\bmend(?:s|ed|ing)?\b": "fix, restore",
    r"\bworth a look\b": "notable",
    r"\blook(?:s|ed|ing)? after\b": "manage",
    r"\b(?:are|is|was|were) (?:not )?looked at\b": "checked, computed, read",
    r"\b(?:at most|up to|only) so (?:few|large|long|many|much)\b": "at most, maximum",
    r"\bso (?:few|large|long|many) (?:are|is|at most|may|can)\b": "at most, maximum",
    r"\b(?:tells?|told) of\b": "reports, describes",
    r"\b(?:says?|said) of\b": "reports, describes",
    r"\b(?:are|is|was|were) (?:not )?said\b": "reported, shown, logged",
    r"\b(?:all who|those who|who|whoever) asks?\b": "clients, readers",
    r"\b(?:are|as|is|was|were) news\b": "new, updated",
    r"\bwhat (?:became|becomes|has become) of\b": "the result of, how ... is used",
    r"\bnothing but\b": "only",
    r"\bwithout a word\b": "silently",
    r"\bbeside (?:each other|one another)\b": "side by side",
    r"\b(?:put|puts|putting) (?:\w+ )?off\b": "defer, reject",
    r"\b(?:nothing|was|were) (?:\w+ )?heard (?:of|from)\b": "no contact",
    r"\bstandard (?:folder|option|port|setting|value)s?\b": "default",
    r"\banew\b": "again",
    r"\b(?:a|the) Grafana\b(?!'s| (?:API|HTTP|dashboard|folder|panel|role|server|stub|token))": "Grafana",
    r"\bcould not be made\b": "could not be created",
    r"\b(?:a|the) fault in\b": "internal error in, a bug in",
    r"\bbring(?:s|ing)? (?:it|them|the dashboards) to\b": "install in",
    r"(?:\"\"\"|/\*\* )Of \w": "a sentence with a subject",
    r"\bhow to take part\b": "contributing",
    r"\b(?:goes|go|going|went) on (?:from|where|with)\b": "continues",
    r"\bis the place (?:of|where)\b": "is where",
}
"""What not to write, as regular expressions without regard to case, and what to write instead."""


def problems(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, the words found, and what to write instead."""
    lines = text.split("\n")
    for pattern, better in _PATTERNS:
        for match in pattern.finditer(text):
            number = text.count("\n", 0, match.start()) + 1
            if ALLOWED not in lines[number - 1]:
                yield number, " ".join(match[0].split()), better


_PATTERNS = [(re.compile(words.replace(" ", _BREAK), re.IGNORECASE), better) for words, better in WORDING.items()]


def files() -> list[Path]:
    """The files that people read or write, without those that `.gitignore` names and the bad examples; needs no git."""
    ignored = {".git", *(line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines())}

    def kept(path: Path) -> bool:
        inside = path.relative_to(ROOT).as_posix()
        return not any(pattern == inside or fnmatch(path.name, pattern) for pattern in ignored)

    found: list[Path] = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if kept(Path(folder, name))]
        found += (Path(folder, name) for name in names if kept(Path(folder, name)))
    return [path for path in found if path.suffix in _SUFFIXES and path not in _EXAMPLES]


def main(names: list[str]) -> int:
    """Print the problems in these files, by default in all; returns the exit code."""
    count = 0
    for path in [Path(name) for name in names] or files():
        for number, words, better in sorted(problems(path.read_text(encoding="utf-8"))):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{number}: {words!r}; write instead: {better}")
            count += 1
    if count:
        print(f"{count} places to reword ({Path(__file__).relative_to(ROOT)} has the list)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
