"""`joinsight completions`: the script that completes commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from joinsight.cli.options import command


@command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completions(shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    In bash and zsh: eval "$(joinsight completions bash)"; in fish: joinsight completions fish | source
    """
    made = get_completion_class(shell)
    assert made is not None
    root = click.get_current_context().find_root().command
    script = made(root, {}, "joinsight", "_JOINSIGHT_COMPLETE")
    click.echo(script.source())
