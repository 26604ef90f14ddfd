"""`joinsight skill` and `completions`: what they print is true of the commands."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML
from tests.commands import leaves

from joinsight.base import manual
from joinsight.cli import cli


def test_a_skill_names_commands_that_exist() -> None:
    """With their options; its front matter is YAML, it has the contracts of JSON, and no link out of it."""
    text = CliRunner().invoke(cli, ["skill"]).stdout
    _, front, body = text.split("---\n", 2)
    fields = YAML(typ="safe").load(front)
    assert fields.keys() == {"name", "description"} and len(fields["description"]) < 1024
    commands = leaves()
    shown = re.findall(r"`joinsight ([^`]+)`", body)
    assert len(shown) > 15
    for each in shown:
        words = each.split()
        [path] = [path for path in commands if tuple(words[: len(path)]) == path]
        options = {name for param in commands[path].params if isinstance(param, click.Option) for name in param.opts}
        assert {word for word in words if word.startswith("--")} <= options, each
        if path == ("docs",):
            assert words[1] in (*manual.pages(), "PAGE")
    assert "| `evidence` |" in body and "| `difference_ms` |" in body and "](" not in body


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_the_commands(shell: str) -> None:
    script = CliRunner().invoke(cli, ["completions", shell]).stdout
    assert f"_JOINSIGHT_COMPLETE={shell}_complete" in script
