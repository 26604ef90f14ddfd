"""A standalone cluster of Spark: a master and workers, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import until

from joinsight.store.embedded import free_port


@dataclass(frozen=True, slots=True)
class Cluster:
    url: str
    folder: Path
    """Where the workers put the files and logs of executors and drivers: `NUMBER/app-ID/EXECUTOR/stderr`."""
    page: str
    """Address of the master's web page."""

    def state(self) -> dict[str, Any]:
        """What the master knows."""
        with urllib.request.urlopen(f"{self.page}/json/") as answer:
            state: dict[str, Any] = json.load(answer)
            return state


@contextlib.contextmanager
def standalone(
    spark: Path,
    folder: Path,
    environment: Mapping[str, str],
    hosts: Sequence[str] = ("127.0.0.1", "127.0.0.1"),
    cores: int = 1,
) -> Iterator[Cluster]:
    """A cluster of the Spark in a folder, with a worker of 1 GB at each address of `hosts`; ends with the block."""
    environment = {**environment, "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"}
    port, page = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    worker = ["worker.Worker", "--webui-port", "0", "--cores", str(cores), "--memory", "1g"]
    commands = [
        master,
        *([*worker, "--host", host, "--work-dir", str(folder / str(n)), url] for n, host in enumerate(hosts)),
    ]
    with contextlib.ExitStack() as stack:
        for number, (name, *arguments) in enumerate(commands):
            log = stack.enter_context((folder / f"{number}.log").open("w"))
            command = [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        of_master = folder / "0.log"
        until(lambda: of_master.read_text().count("Registering worker") == len(hosts), "the workers are not there")
        yield Cluster(url, folder, f"http://127.0.0.1:{page}")
