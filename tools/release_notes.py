"""Prints the section of CHANGELOG.md for a tag: ``python tools/release_notes.py v0.1.0``.

Fails if the tag is not the package's version, or if the section is missing, empty or marked as unreleased.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def notes(tag: str, changelog: str, version: str) -> str:
    """The section's text, without its heading."""
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, the package's version is {version}: tag v{version}")
    heading, _, section = changelog.partition(f"\n## {version}")[2].partition("\n")
    if not re.fullmatch(r" \(\d{4}-\d\d-\d\d\)", heading):
        raise SystemExit(f"CHANGELOG.md has no section headed '## {version} (YYYY-MM-DD)'")
    text = section.partition("\n## ")[0].strip()
    if not text:
        raise SystemExit(f"the section {version} of CHANGELOG.md is empty")
    return f"{text}\n"


if __name__ == "__main__":
    source = (ROOT / "collector" / "joinsight" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    assert found, "the package has no version"
    print(notes(sys.argv[1], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), found[1]), end="")
