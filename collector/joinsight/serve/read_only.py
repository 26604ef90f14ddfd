"""The pages alone, for `joinsight ui` and `open`: a small server for one person on this machine."""

from __future__ import annotations

import uvicorn
from sqlalchemy import Engine
from starlette.applications import Starlette

from joinsight.serve.logs import ThrottledLog
from joinsight.serve.pages import Pages, not_found
from joinsight.serve.same_user import SameUser
from joinsight.serve.tokens import Tokens


def read_only_server(engine: Engine, core_hour_price: float | None = None) -> uvicorn.Server:
    """A server of the pages, for loopback addresses: it needs no token, because it answers this user only, and receives
    nothing."""
    routes = Pages(engine, Tokens(), ThrottledLog(), core_hour_price).routes()
    app = SameUser(Starlette(routes=routes, exception_handlers={404: not_found, 405: not_found}))
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # anyone could name another client
    )
    return uvicorn.Server(config)
