"""Commands that install the dashboards in Grafana: push, export."""

from __future__ import annotations

from pathlib import Path

import click

from joinsight.cli.options import read_secret
from joinsight.errors import ConfigurationError
from joinsight.grafana import files, sources
from joinsight.grafana.client import Grafana
from joinsight.grafana.push import push

_file = click.Path(path_type=Path)


@click.group()
def dashboards() -> None:
    """Bring the dashboards to a Grafana."""


@dashboards.command("push")
@click.option("--url", required=True, help="Address of Grafana: https://grafana.example.com")
@click.option("--token-file", type=_file, required=True, help="File whose first line is a service account's token.")
@click.option("--ca-file", type=_file, help="PEM file of the authority of Grafana's certificate.")
@click.option("--folder", default="Joinsight", show_default=True, help="Title of the folder, where it is made.")
@click.option("--postgresql", metavar="HOST:PORT", help="Make a data source of this server, as Grafana reaches it.")
@click.option("--postgresql-database", default="joinsight", show_default=True, help="Its database.")
@click.option("--postgresql-user", default="joinsight_reader", show_default=True, help="A role that may only read.")
@click.option("--postgresql-password-file", type=_file, help="File whose first line is the role's password.")
@click.option(
    "--postgresql-sslmode", type=click.Choice(sources.SSL_MODES), default="require", show_default=True, help="TLS."
)
@click.option("--prometheus", metavar="URL", help="Make a data source of this Prometheus, as Grafana reaches it.")
def dashboards_push(
    url: str,
    token_file: Path,
    ca_file: Path | None,
    folder: str,
    postgresql: str | None,
    postgresql_database: str,
    postgresql_user: str,
    postgresql_password_file: Path | None,
    postgresql_sslmode: str,
    prometheus: str | None,
) -> None:
    """Upload folder, data sources and dashboards; what is already so stays as it is.

    A dashboard that was changed in Grafana becomes ours again; Grafana keeps the other one among its versions.

    Needs pip install 'joinsight[grafana]' and the token of a service account: Editor, for data sources Admin.
    Without --postgresql and --prometheus, the dashboards ask the data sources that are there.
    """
    data_sources = []
    if postgresql:
        host, _, port = postgresql.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigurationError(
                "--postgresql", postgresql, "not a valid address", "Write it like db.example.com:5432."
            )
        file = postgresql_password_file
        password = read_secret("--postgresql-password-file", file) if file else None
        connection = (postgresql, postgresql_database, postgresql_user, postgresql_sslmode)
        data_sources.append(sources.postgresql(*connection, password))
    elif postgresql_password_file:
        problem = "it needs --postgresql"
        raise ConfigurationError(
            "--postgresql-password-file", str(postgresql_password_file), problem, "Name the server."
        )
    if prometheus:
        data_sources.append(sources.prometheus(prometheus))
    grafana = Grafana(url, read_secret("--token-file", token_file), ca_file)
    for name, action in push(grafana, folder, data_sources, files.dashboards(files.folder())):
        click.echo(f"{action:<9}  {name}")


@dashboards.command("export")
@click.argument("target", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--path", help="Where Grafana finds DIR/grafana, if it sees it elsewhere.  [default: DIR/grafana]")
def dashboards_export(target: Path, path: str | None) -> None:
    """Write the files by which a Grafana provisions itself: DIR/provisioning, DIR/grafana.

    Files that are the same are left alone, and so is the file of the data sources once it is there: it is yours to
    change. Dashboards that are no more are removed.
    """
    for name, action in files.export(files.folder(), target, path or str(target.resolve() / "grafana")):
        click.echo(f"{action:<9}  {name}")
