"""`joinsight mcp`: answers agents by the Model Context Protocol."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import click

from joinsight.base.errors import JoinsightError
from joinsight.cli.options import command, database_options
from joinsight.terminal.escaping import unguarded


@command()
@click.option("--http", is_flag=True, help="Serve streamable HTTP at /mcp instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: address to listen on.")
@click.option("--port", default=9596, show_default=True, type=click.IntRange(0, 65535), help="0: any free port.")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="With --http: file of tokens, of which readers' open it.  [default: JOINSIGHT_TOKEN]",
)
@click.option("--url", default="", help="Address of the pages, for links in answers.")
@database_options
def mcp(
    database_url: str | None, data: Path | None, http: bool, host: str, port: int, token_file: Path | None, url: str
) -> None:
    """Answer agents by the Model Context Protocol, read-only.

    Tools: slow, verdict, why, history, cost, findings, and sql if the database's role may only read (joinsight db
    grant-reader). Needs pip install 'joinsight[mcp]'.
    """
    if importlib.util.find_spec("mcp") is None:
        raise JoinsightError("The SDK of the Model Context Protocol is not installed: pip install 'joinsight[mcp]'")
    from joinsight.serve.agent_tools import AgentTools
    from joinsight.serve.agents import http_server, make_server
    from joinsight.serve.server import bind
    from joinsight.serve.tokens import Tokens
    from joinsight.store.database import check_schema, open_database

    with open_database(database_url, data) as engine:
        check_schema(engine)
        tools = AgentTools(engine, url)
        if not http:
            sys.stdout = unguarded(sys.stdout)  # for a program, which gets JSON without hidden characters
            make_server(tools).run("stdio")
            return
        tokens = Tokens.read(token_file)
        with bind(host, port, open_to_all=tokens.open) as bound:
            bound.listen()
            click.echo(f"http://{host}:{bound.getsockname()[1]}/mcp")
            http_server(tools, tokens).run(sockets=[bound])
