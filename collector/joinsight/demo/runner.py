"""Runs the demo's workload in a process of its own, attached to a collector, and follows its steps."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine, func, select

from joinsight.backfill.jvm import find_java
from joinsight.base.errors import ConfigurationError, JoinsightError
from joinsight.driver.attach import LISTENER, listener_jar
from joinsight.serve.server import Listener, Server, bind, make_server
from joinsight.serve.tokens import Tokens
from joinsight.tables import application

APPLICATION = "joinsight demo"
_START_SECONDS = 10
_ARRIVE_SECONDS = 20
_OUTPUT_LINES = 30


def check_requirements() -> None:
    """Raise `ConfigurationError` unless PySpark and Java are installed."""
    if importlib.util.find_spec("pyspark") is None:
        raise ConfigurationError(
            "pyspark", None, "the demo needs PySpark, which is not installed", "pip install 'joinsight[spark]'"
        )
    find_java()


@contextmanager
def collector(
    engine: Engine, port: int, tokens: list[str], *, or_any_port: bool = False
) -> Iterator[tuple[str, Server]]:
    """A collector in a thread of this process; yields its URL and the server."""
    try:
        bound = bind("127.0.0.1", port)
    except ConfigurationError:
        if not or_any_port:
            raise
        bound = bind("127.0.0.1", 0)
    listener = Listener(bound, Tokens("\n".join(tokens)))
    server = make_server(engine, listener)
    url = listener.url  # the server closes the socket when it ends
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="collector", daemon=True)
    thread.start()
    deadline = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise JoinsightError("The collector did not start; the lines above say why.")
        time.sleep(0.02)
    try:
        yield url, server
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def run_workload(url: str, environment: Mapping[str, str], on_step: Callable[[int, int, str], None]) -> None:
    """Run the workload; raises `JoinsightError` with its last output if it fails."""
    conf = {
        "spark.app.name": APPLICATION,
        "spark.driver.extraClassPath": str(listener_jar()),
        "spark.extraListeners": LISTENER,
        "spark.joinsight.url": url,
        "spark.joinsight.progressInterval": "2s",
    }
    with tempfile.TemporaryDirectory(prefix="joinsight-demo-") as folder, tempfile.TemporaryFile("w+") as errors:
        command = [sys.executable, "-m", "joinsight.demo.workload", "--data", folder]
        conf["spark.joinsight.spool"] = str(Path(folder, "spool"))
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment, "PYSPARK_PYTHON": sys.executable},
        ) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    if line.startswith("{"):
                        step = json.loads(line)
                        on_step(step["step"], step["steps"], step["title"])
            except BaseException:
                process.terminate()
                raise
        if process.returncode:
            errors.seek(0)
            tail = "".join(errors.readlines()[-_OUTPUT_LINES:])
            raise JoinsightError(f"The workload failed with exit code {process.returncode}:\n{tail}")


def wait_for_application(engine: Engine, since: datetime) -> str:
    """The id of the demo application that started after `since`, once its last document is stored."""
    c = application.c
    mine = c.name == APPLICATION, c.started_at >= since
    newest = select(c.application_id, c.state).where(*mine).order_by(c.started_at.desc()).limit(1)
    deadline = time.monotonic() + _ARRIVE_SECONDS
    while time.monotonic() < deadline:
        with engine.connect() as connection:
            found = connection.execute(newest).first()
            total = connection.scalar(select(func.count()).select_from(application))
        if found is not None and found.state == "ended":
            return str(found.application_id)
        time.sleep(0.1)
    raise JoinsightError(
        f"The workload ran, but none of its documents arrived within {_ARRIVE_SECONDS} s ({total} applications stored)."
        " The driver's log explains why; look for lines that begin with Joinsight."
    )
