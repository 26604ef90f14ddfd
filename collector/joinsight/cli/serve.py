"""`joinsight serve`: runs the collector."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import click

from joinsight import __version__
from joinsight.alarms.messages import FORMATS as TEMPLATES
from joinsight.base.gc_tuning import collect_seldom
from joinsight.base.timeparse import format_duration
from joinsight.cli.options import KEEP, Duration, command, core_hour_price_option, database_options, expert_option
from joinsight.findings.thresholds import VARIABLE
from joinsight.serve.admission import MAX_WRITING
from joinsight.serve.background import background_tasks
from joinsight.serve.logs import FORMATS, configure, fields
from joinsight.serve.metrics import DEFAULT_JOB_NAMES
from joinsight.serve.protocol import MAX_CONNECTIONS, OPEN_FILES
from joinsight.serve.server import DEFAULT_PORT, make_server, open_listener
from joinsight.serve.tokens import TOKEN_VARIABLE
from joinsight.serve.webhook import URL_VARIABLE, read_settings
from joinsight.store.database import check_schema, open_database, shown_url
from joinsight.store.mark_lost import DEFAULT_LOST_AFTER

log = logging.getLogger("joinsight")
_file = click.Path(path_type=Path)


@command()
@database_options
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=int, help="0: any free port.")
@click.option(
    "--token-file",
    type=_file,
    help=f"File of tokens: lines NAME:TOKEN for senders, read:NAME:TOKEN for readers.  [default: {TOKEN_VARIABLE}]",
)
@expert_option(
    "--lost-after",
    type=Duration(at_least="1m"),
    default=format_duration(DEFAULT_LOST_AFTER),
    show_default=True,
    help="Mark executions and applications lost after this long without contact from the driver.",
)
@click.option(
    "--keep", type=KEEP, help="Prune the database once a day, as `joinsight db prune` does.  [default: never]"
)
@click.option("--tls-certificate", type=_file, help="Serve HTTPS with the certificate chain in this PEM file.")
@click.option("--tls-key", type=_file, help="PEM file of the certificate's private key.")
@expert_option(
    "--finding-threshold",
    "finding_thresholds",
    multiple=True,
    metavar="NAME=VALUE",
    help=f"Report a finding from this value on (joinsight docs findings); may be repeated.  [also: {VARIABLE}]",
)
@expert_option(
    "--job-names",
    metavar="N",
    type=click.IntRange(min=0),
    default=DEFAULT_JOB_NAMES,
    show_default=True,
    help="Maximum jobs with their own metrics; the rest are `other` (joinsight docs metrics).",
)
@expert_option(
    "--writers",
    metavar="N",
    type=click.IntRange(0, MAX_WRITING),
    default=0,
    show_default=True,
    help="Processes that decode and write documents, for more than 100 executions a second; 0: the collector's own.",
)
@core_hour_price_option("Show on the page of jobs what they cost at this price of a core for an hour.")
@click.option(
    "--log-format", type=click.Choice(FORMATS), default="text", show_default=True, help="Format of the log, on stderr."
)
@click.option(
    "--webhook-url",
    metavar="URL",
    envvar=URL_VARIABLE,
    help=f"Post certain regressions to this address, each once (joinsight docs alerts).  [also: {URL_VARIABLE}]",
)
@expert_option(
    "--webhook-secret-file", type=_file, help="Sign what is posted (HMAC-SHA256) with the secret in this file."
)
@expert_option(
    "--webhook-template",
    metavar="NAME|FILE",
    help=f"Form of what is posted: {', '.join(TEMPLATES)}, or a JSON file.  [default: all fields]",
)
@expert_option(
    "--webhook-titles", is_flag=True, help="Post titles of queries, which may be their text, and evidence, too."
)
@expert_option(
    "--user-header",
    metavar="NAME:HEADER",
    help="Show the user whom a proxy names in this header, if it sends the reader's token NAME"
    " (joinsight docs configuration).",
)
@expert_option("--public-url", metavar="URL", help="The collector's address for browsers, for links in what is posted.")
def serve(
    database_url: str | None,
    data: Path | None,
    host: str,
    port: int,
    token_file: Path | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    lost_after: timedelta,
    keep: timedelta | None,
    finding_thresholds: tuple[str, ...],
    job_names: int,
    writers: int,
    core_hour_price: float | None,
    log_format: str,
    webhook_url: str | None,
    webhook_secret_file: Path | None,
    webhook_template: str | None,
    webhook_titles: bool,
    user_header: str | None,
    public_url: str | None,
) -> None:
    """Run the collector: receive, store and show executions.

    Listeners send to it, browsers open its pages, and Prometheus scrapes its /metrics. It does not change the schema of
    a PostgreSQL server: run `joinsight db upgrade` first.

    SIGTERM or Ctrl-C stops it after the current writes, a second one at once.
    """
    configure(log_format)
    with (
        open_listener(
            host,
            port,
            token_file,
            tls_certificate,
            tls_key,
            finding_thresholds=finding_thresholds,
            webhook=lambda: read_settings(
                webhook_url, webhook_secret_file, webhook_template, public_url, with_titles=webhook_titles
            ),
            user_header=user_header,
            database_url=database_url,
            data=data,
        ) as listener,
        open_database(database_url, data, create=True) as engine,
    ):
        schema = check_schema(engine)
        server = make_server(engine, listener, job_names, writers, log_format, core_hour_price)
        server.startup_fields = fields(
            url=listener.url,
            metrics=f"{listener.url}/metrics",
            tokens=len(listener.tokens),
            readers=listener.tokens.readers,
            database=shown_url(engine.url),
            schema=schema,
            connections=server.connections.limits.connections,
            version=__version__,
        )
        if listener.open_files < OPEN_FILES:
            log.warning(
                "the limit of open files (%d) allows %d connections; with %d, it would be %d",
                listener.open_files,
                server.connections.limits.connections,
                OPEN_FILES,
                MAX_CONNECTIONS,
            )
        if listener.tokens.open:
            log.warning("no token is set: any user of this machine can send, no other machine can")
        elif not listener.tokens.readers:
            log.warning("no token may read: the pages are closed; add a line read:NAME:TOKEN to open them")
        if listener.tokens.open or listener.tokens.readers:
            server.when_ready = lambda: _invite(listener.pages_url)
        collect_seldom()
        try:
            metrics = server.collector.metrics
            with background_tasks(engine, metrics, lost_after, keep, listener.reload_files, listener.webhook):
                server.run(sockets=[listener.bound])
        finally:
            unfinished = server.unfinished
            server.collector.end()
    log.info("stopped", extra=fields(unfinished=unfinished or None))
    if unfinished:
        logging.shutdown()
        os._exit(1)  # else Python would wait for their threads, however long PostgreSQL takes


def _invite(url: str) -> None:
    """Print where the pages are; a closed output is no reason to end."""
    with suppress(OSError):
        click.echo(f"Open {url}")
