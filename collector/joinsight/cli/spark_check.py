"""`joinsight doctor --spark`: does the Spark of this machine report its queries to a collector?"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import click
import httpx
import msgspec

from joinsight import __version__
from joinsight.base.errors import ConfigurationError
from joinsight.cli import check
from joinsight.cli.check import Check, check_collector
from joinsight.cli.collector import open_collector, reason_of
from joinsight.contract.document import DOCTORS_QUERY
from joinsight.driver.attach import LISTENER, PLUGIN, listener_jar
from joinsight.driver.probe import ProbeResult

_START_SECONDS = 600
_STORED_SECONDS = 30.0
_LINES = 5
_LOST = "Documents that cannot be delivered are lost with the driver"


def check_spark(conf: Sequence[str], url: str, token_file: Path | None, ca_file: Path | None) -> Iterator[Check]:
    """Start Spark with these settings, and follow a query from it to the collector's pages.

    Spark's own settings name the collector and its token; the arguments do for a Spark that has none.
    """
    if importlib.util.find_spec("pyspark") is None:
        yield Check("spark", "this Python has no PySpark", "Run it with the Python of the job, or pip install pyspark.")
        return
    for each in conf:
        if "=" not in each:
            raise ConfigurationError("--conf", each, "not a setting of Spark", "Write --conf spark.master=yarn.")
    click.echo("Starting Spark ...", err=True)
    probe, log = _probe(conf, url)
    yield from _started(probe, log)
    if not probe.spark:
        return
    yield _jar(probe)
    yield _listener(probe)
    if probe.sampling is not None:
        yield Check("task time", probe.sampling)
    if probe.unknown is not None:
        yield Check("settings", f"ignored, as they do not exist: {probe.unknown}", "Correct their names.")
    yield from _spool(probe)
    settings = probe.settings
    url = settings.get("spark.joinsight.url", url)
    token_file = Path(settings["spark.joinsight.tokenFile"]) if "spark.joinsight.tokenFile" in settings else token_file
    ca_file = Path(settings["spark.joinsight.caFile"]) if "spark.joinsight.caFile" in settings else ca_file
    try:
        of_collector = check_collector(url, token_file, ca_file)
        yield from of_collector
        if probe.ran and not probe.attach_problem and not any(each.remedy for each in of_collector):
            with open_collector(url, token_file, ca_file, check.ANSWER_SECONDS) as client:
                yield _stored(client, url, probe, log)
    except ConfigurationError as error:
        yield Check("collector", str(error), "Correct this setting, here or in Spark's configuration.")


def _probe(conf: Sequence[str], url: str) -> tuple[ProbeResult, list[str]]:
    """What was found, and the log's lines."""
    command = [
        sys.executable,
        "-m",
        "joinsight.driver.probe",
        url,
        *(part for each in conf for part in ("--conf", each)),
    ]
    with tempfile.TemporaryFile("w+") as errors:
        try:
            ran = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, timeout=_START_SECONDS
            )
            probe = msgspec.json.decode(ran.stdout.rstrip().rpartition(b"\n")[2], type=ProbeResult)
        except subprocess.TimeoutExpired:
            probe = ProbeResult(error=f"no end within {_START_SECONDS // 60} minutes")
        except msgspec.MsgspecError:
            probe = ProbeResult(error="its process ended early")
        errors.seek(0)
        lines = [" ".join(line.rpartition("\r")[2].split()) for line in errors]
    return probe, [line for line in lines if line]


def _started(probe: ProbeResult, log: list[str]) -> Iterator[Check]:
    if probe.spark:
        versions = (
            f"{probe.spark} (PySpark {probe.pyspark}, Scala {probe.scala}, Java {probe.java}, Python {probe.python})"
        )
        yield Check("spark", f"{versions}, master {probe.master}, {probe.home}")
        if probe.error:
            yield Check("query", f"it failed: {probe.error}", _said(log) or "See the lines of Spark's log.")
        return
    remedy = _said(log, "ERROR|Exception:|[Ee]rror:|not found") or "Start spark-shell or pyspark here: it will say why."
    if probe.error and probe.error.endswith((LISTENER, PLUGIN)):
        remedy = (
            f"A setting names {probe.error.rpartition(' ')[2]}, but no jar on the driver's class path has it. Set"
            f" spark.jars={listener_jar()} where the JVM starts: in spark-defaults.conf, or for spark-submit. A JVM"
            " that runs without it gets it from joinsight.attach."
        )
    yield Check("spark", f"it does not start: {probe.error}", remedy)


def _jar(probe: ProbeResult) -> Check:
    if probe.jar is None:
        remedy = (
            f"Set spark.jars={listener_jar()} (spark.driver.extraClassPath, if each driver's machine has it there)."
        )
        return Check("jar", "the driver's class path has no listener", remedy)
    found = f"{probe.jar}, version {probe.jar_version}"
    same = probe.jar_version == __version__
    return Check("jar", found, None if same else f"This Joinsight is {__version__}: use the jar of the same version.")


def _listener(probe: ProbeResult) -> Check:
    if probe.is_listening:
        setting = "spark.plugins" if PLUGIN in probe.settings.get("spark.plugins", "") else "spark.extraListeners"
        return Check("listener", f"attached by {setting}")
    if probe.problem is not None:
        return Check("listener", f"it is off: {probe.problem}", "Correct this setting of Spark.")
    remedy = (
        f"Set spark.plugins={PLUGIN} (or spark.extraListeners={LISTENER}, if executors lack the jar), and"
        " spark.joinsight.url."
    )
    if probe.attach_problem:
        return Check("listener", f"no setting attaches it, and joinsight.attach cannot: {probe.attach_problem}", remedy)
    return Check("listener", "no setting attaches it; joinsight.attach did for what follows", remedy)


def _spool(probe: ProbeResult) -> Iterator[Check]:
    if probe.spool is not None and probe.spool_problem is None:
        yield Check("spool", probe.spool)
    elif probe.spool is not None:
        remedy = (
            "Documents that cannot be delivered are lost with the driver. Name another folder: spark.joinsight.spool."
        )
        yield Check("spool", f"{probe.spool} cannot be used: {probe.spool_problem}", remedy)
    elif probe.is_listening:
        yield Check("spool", "none: documents that cannot be delivered are lost with the driver")


def _stored(client: httpx.Client, url: str, probe: ProbeResult, log: list[str]) -> Check:
    """Waits for the query on the collector's list, which shows it to those who may read."""
    page = f"/?application={quote(str(probe.application_id))}&show=all"
    deadline = time.monotonic() + _STORED_SECONDS
    found = ""
    while not found:
        try:
            answer = client.get(page)
        except httpx.RequestError as error:
            found = reason_of(error)
            break
        is_there = DOCTORS_QUERY in answer.text and f"/executions/{probe.application_id}" in answer.text
        if answer.status_code == 200 and is_there:
            return Check("query", f"stored and read back: {url.rstrip('/')}{page}")
        if answer.status_code == 401 and not _said(log):
            return Check("query", "sent, and the driver's log has no complaint; a sender's token cannot read it back")
        if answer.status_code in (401, 403):
            found = f"the collector's pages answer {answer.status_code}"
        elif time.monotonic() > deadline:
            found = f"it is not stored {_STORED_SECONDS:.0f} s after its end"
        else:
            time.sleep(0.2)
    return Check("query", found, _said(log) or "Neither Spark nor the listener says why: see the collector's log.")


def _said(log: list[str], what: str = "Joinsight(?! ignores settings)") -> str:
    """The last lines of the driver's log that may say why."""
    lines = [line for line in log if re.search(what, line)]
    return f"The driver's log says: {' / '.join(lines[-_LINES:])}" if lines else ""
