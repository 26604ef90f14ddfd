"""Commands that install the dashboards in Grafana: push, export."""

from __future__ import annotations

from pathlib import Path

import click

from joinsight.base.errors import ConfigurationError
from joinsight.cli.options import SectionedGroup, read_secret
from joinsight.grafana import files, sources
from joinsight.grafana.client import Grafana
from joinsight.grafana.push import push

_file = click.Path(path_type=Path)


@click.group(cls=SectionedGroup)
def dashboards() -> None:
    """Install the dashboards in Grafana."""


@dashboards.command("push")
@click.option("--url", required=True, help="Address of Grafana: https://grafana.example.com")
@click.option("--token-file", type=_file, required=True, help="File whose first line is a service account's token.")
@click.option("--ca-file", type=_file, help="PEM file of the authority of Grafana's certificate.")
@click.option("--folder", default="Joinsight", show_default=True, help="Title of the folder; created if missing.")
@click.option(
    "--postgresql", metavar="HOST:PORT", help="Create a data source for this server, by its address from Grafana."
)
@click.option("--postgresql-database", default="joinsight", show_default=True, help="Its database.")
@click.option("--postgresql-user", default="joinsight_reader", show_default=True, help="A role that may only read.")
@click.option("--postgresql-password-file", type=_file, help="File whose first line is the role's password.")
@click.option(
    "--postgresql-sslmode", type=click.Choice(sources.SSL_MODES), default="require", show_default=True, help="TLS mode."
)
@click.option(
    "--prometheus", metavar="URL", help="Create a data source for this Prometheus, by its address from Grafana."
)
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
    """Upload the dashboards to Grafana.

    With their folder and data sources; what is up to date stays as it is. A dashboard that was changed in Grafana is
    overwritten; Grafana keeps the change in its version history.

    Needs pip install 'joinsight[grafana]' and the token of a service account with the role Editor, or Admin to create
    data sources. Without --postgresql and --prometheus, the dashboards use existing data sources.
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
@click.option("--path", help="Path of DIR/grafana as Grafana sees it.  [default: DIR/grafana]")
def dashboards_export(target: Path, path: str | None) -> None:
    """Write provisioning files for Grafana.

    Writes DIR/provisioning and DIR/grafana. Unchanged files stay as they are, and so does the file of the data
    sources once it exists: it is yours to edit. Dashboards that no longer exist are removed."""
    for name, action in files.export(files.folder(), target, path or str(target.resolve() / "grafana")):
        click.echo(f"{action:<9}  {name}")
