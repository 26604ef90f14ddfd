"""All names that docs/stability.md calls stable still exist: tests/stable.txt lists them.

`python -m tests.test_stability > tests/stable.txt` adds what is new, with a release; until then the changelog names it.
A name goes from the file only as that page allows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
from tests.commands import commands

import joinsight
from joinsight.cli import cli

ROOT = Path(__file__).parents[1]
STABLE = ROOT / "tests/stable.txt"


def test_what_is_stable_is_there() -> None:
    """Under its name, with its type or unit; more may have come."""
    assert set(STABLE.read_text().splitlines()) <= set(names())


def test_the_changelog_names_what_is_new() -> None:
    """Each new name, and that the schema has changed, because users look for it there."""
    unreleased = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    newest = max(name for name in names() if name.startswith("migration"))
    assert newest in STABLE.read_text() or f"to schema {int(newest.split()[1][:4])}:" in unreleased, newest
    code = " ".join(re.findall(r"`([^`]+)`", unreleased))
    for name in set(names()) - set(STABLE.read_text().splitlines()):
        kind, *rest = name.split()
        word = {"view": rest[0].partition(".")[2], "command": rest[-1]}.get(kind, rest[0])
        assert kind == "migration" or re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", code), name


def names() -> Iterator[str]:
    """The names of views' columns, metrics, settings, commands, options, choices, Python, codes, and migrations.

    Those of migrations have a digest: databases have run a released one, so it must not change.
    """
    for migration in (ROOT / "migrations/versions").glob("[0-9]*.py"):
        content = b"".join(each.read_bytes() for each in sorted(migration.parent.glob(f"{migration.stem}.*")))
        yield f"migration {migration.stem} {hashlib.sha256(content).hexdigest()[:16]}"
    dictionary = (ROOT / "docs/data-dictionary.md").read_text()
    for section in re.split(r"^## ", dictionary, flags=re.MULTILINE):
        if section.startswith("v_"):
            for column, kind in re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section, re.MULTILINE):
                yield f"view {section.split()[0]}.{column} {kind}"
    for metric in re.findall(
        r"^\| `(joinsight_\w+)` \| (\w+).*? \| (\w+)", (ROOT / "docs/metrics.md").read_text(), re.M
    ):
        yield f"metric {' '.join(metric)}"
    configuration = (ROOT / "docs/configuration.md").read_text()
    for setting in re.findall(r"`(spark\.joinsight\.[A-Za-z]+|JOINSIGHT_[A-Z_]+)", configuration):
        yield f"setting {setting}"
    for path, command in {(): cli, **commands()}.items():
        yield from _options(" ".join(["joinsight", *path]), command)
    for name in joinsight.__all__:
        yield f"python joinsight.{name}"
    for code in json.loads((ROOT / "collector/joinsight/contract/incomplete.json").read_text()):
        yield f"incomplete {code}"


def _options(path: str, command: click.Command) -> Iterator[str]:
    if command is not cli:
        yield f"command {path}"
    for option in command.params:
        if isinstance(option, click.Option):
            yield f"command {path} {option.opts[0]}"
            for choice in option.type.choices if isinstance(option.type, click.Choice) else ():
                yield f"command {path} {option.opts[0]} {choice}"


if __name__ == "__main__":
    print("\n".join(sorted(set(names()))))
