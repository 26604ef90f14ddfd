"""All commands of the program, for tests that look at each."""

from __future__ import annotations

from collections.abc import Iterator

import click

from joinsight.cli import cli

Path = tuple[str, ...]


def commands() -> dict[Path, click.Command]:
    """Each command and group by its words after ``joinsight``."""
    return dict(_below(cli, ()))


def _below(group: click.Group, path: Path) -> Iterator[tuple[Path, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _below(command, (*path, name))


def leaves() -> dict[Path, click.Command]:
    """All commands except groups."""
    return {path: command for path, command in commands().items() if not isinstance(command, click.Group)}
