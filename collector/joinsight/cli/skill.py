"""`joinsight skill`: how to ask Joinsight, as a file for agents."""

from __future__ import annotations

from importlib.resources import files

import click

from joinsight.base import manual
from joinsight.cli.options import command

_CONTRACTS = {"verdict": "verdict --json", "why": "why --json", "what-if": "what-if --json"}
"""The pages whose section on JSON belongs to the file, and its heading there."""


@command()
def skill() -> None:
    """Print a skill file for agents: how to ask Joinsight, in Markdown.

    Agents read it where their skills are: joinsight skill > .claude/skills/joinsight/SKILL.md
    """
    click.echo(files("joinsight.cli").joinpath("skill.md").read_text(encoding="utf-8"), nl=False)
    for page, heading in _CONTRACTS.items():
        section = manual.read(f"{page}#json").partition("\n")[2].strip()
        click.echo(f"\n## `{heading}`\n\n{manual.without_links(section)}")
