"""`joinsight listener-jar`: where the listener is."""

from __future__ import annotations

import click

from joinsight.base.errors import JoinsightError
from joinsight.cli.options import command
from joinsight.driver.attach import LISTENER
from joinsight.driver.attach import listener_jar as find_jar


@command("listener-jar")
@click.option("--conf", is_flag=True, help="Print the two --conf options for spark-submit instead.")
def listener_jar(conf: bool) -> None:
    """Print the path of the listener's jar, for spark-submit."""
    try:
        jar = find_jar()
    except FileNotFoundError as error:
        raise JoinsightError(str(error)) from None
    if conf:
        click.echo(f"--conf spark.jars={jar} --conf spark.extraListeners={LISTENER}")
    else:
        click.echo(jar)
