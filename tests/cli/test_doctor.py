"""`joinsight doctor` reports problems with their fixes, and passes when there are none."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import Engine, NullPool, create_engine, text
from tests.documents import OTHER_LISTENER, application, as_line, execution, request
from tests.serve.real import post
from tests.waiting import until

from joinsight.base.errors import ConfigurationError
from joinsight.cli import check, cli
from joinsight.cli.check import check_writing
from joinsight.contract.decode import decode_request
from joinsight.demo.runner import collector
from joinsight.store import event_logs
from joinsight.store.database import connect
from joinsight.store.writer import Writer

TOKEN = "a-token"


@pytest.fixture
def engine(empty: Engine) -> Engine:
    """A store of its own for each test."""
    return empty


@pytest.fixture
def url(engine: Engine) -> Iterator[str]:
    """A collector of that store."""
    with collector(engine, 0, [TOKEN]) as (url, _):
        yield url


def doctor(engine: Engine, url: str, *arguments: str, token: str = TOKEN) -> Result:
    """Run the command."""
    database = engine.url.render_as_string(hide_password=False)
    environment = {"JOINSIGHT_DATABASE_URL": database, "JOINSIGHT_TOKEN": token}
    return CliRunner().invoke(cli, ["doctor", "--url", url, *arguments], env=environment)


def healthy(app: str = "app-1", **changes: Any) -> list[Any]:
    """An application that ended well."""
    common = {"application_id": app, "application_name": "daily sales", **changes}
    return [
        application(**common),
        execution(**common, execution_id=1, sequence=2),
        execution(**common, execution_id=2, sequence=3),
        application(**common, sequence=4, state="ended", documents_made=4, events_dropped=0),
    ]


def told(engine: Engine, url: str, code: int, token: str = TOKEN) -> str:
    """What it said, without line breaks; it must exit with this code."""
    result = doctor(engine, url, token=token)
    assert result.exit_code == code, result.output
    return said(result)


def silent(engine: Engine, minutes: int) -> None:
    """Simulate that listeners were silent for this long."""
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE delivery SET last_heard_at = now() - make_interval(mins => :m)"), {"m": minutes}
        )


def lines(result: Result) -> list[str]:
    """What it said, wrapped lines joined."""
    return result.stdout.splitlines()


def said(result: Result) -> str:
    """What it said, without line breaks."""
    return " ".join(result.stdout.split())


def test_each_check_has_a_line_and_each_application_a_row(engine: Engine, url: str) -> None:
    Writer(engine).write(healthy())
    result = doctor(engine, url)
    assert (result.exit_code, result.stderr) == (0, "")
    out = lines(result)
    assert out[0].startswith("✓ database   postgresql+psycopg://joinsight")
    assert said(result).count("✓") == 4
    assert "✓ writing    a test write succeeded" in out
    assert f"✓ collector  {url} is ready and accepts documents" in out
    table = [line.split() for line in out if "daily sales" in line or line.startswith("application")]
    assert table[0] == ["application", "name", "heard", "made", "arrived", "executions"]
    assert table[1][-3:] == ["4", "4", "2"]
    assert out[-1] == "All is well."


def test_nothing_has_ever_arrived(engine: Engine, url: str) -> None:
    """An empty store is not an error of the store: the output says what to check in the driver."""
    result = doctor(engine, url)
    assert result.exit_code == 1
    assert "✗ documents  no document has ever arrived" in result.stdout
    assert "Check spark.jars and spark.extraListeners" in said(result)
    assert "Is this the database that your collector writes to?" in said(result)
    Writer(engine).write(healthy())
    assert "no matching document has ever arrived" in said(doctor(engine, url, "--application", "unknown"))
    assert doctor(engine, url, "--application", "daily sales").exit_code == 0
    assert doctor(engine, url, "--since", "1h").exit_code == 0
    silent(engine, 61)
    assert doctor(engine, url, "--since", "1h").exit_code == 1


def test_a_closed_port_and_another_service_are_told_apart(engine: Engine) -> None:
    """A closed port and another service there give different messages."""
    Writer(engine).write(healthy())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        found = told(engine, address, 1)
    assert f"✗ collector no answer at {address}: [Errno 111] Connection refused" in found
    assert "joinsight serve" in found
    assert isinstance(doctor(engine, "collector").exception, ConfigurationError)


def test_a_name_that_is_not_the_collectors(engine: Engine) -> None:
    """A collector without tokens that is called by another name says so itself."""
    Writer(engine).write(healthy())
    with collector(engine, 0, []) as (url, _):
        found = told(engine, url.replace("127.0.0.1", "0.0.0.0"), 1)
    assert "Host not allowed: '0.0.0.0:" in found


def test_a_token_that_is_not_accepted(engine: Engine, url: str) -> None:
    """The check writes nothing and tells a wrong token from a collector that is away."""
    Writer(engine).write(healthy())
    found = told(engine, url, 1, token="wrong")
    assert f"✗ collector {url} is ready, but does not accept this token" in found


def test_clients_that_were_refused(engine: Engine, url: str) -> None:
    """Those of the last hour need attention; what doctor itself sends does not count."""
    Writer(engine).write(healthy())
    assert doctor(engine, url, token="wrong").exit_code == 1
    until(lambda: doctor(engine, url).exit_code == 0, "nobody else was refused")
    for _ in range(2):
        assert post(url, request()).status_code == 401
    until(lambda: doctor(engine, url).exit_code == 1, "a client was refused")
    assert "✗ clients refused in the last hour, by address: 1 with 401 401: a driver's token" in said(
        doctor(engine, url)
    )


def test_without_a_database_the_collector_is_checked_all_the_same(
    url: str, engine: Engine, make_database: Callable[[], str]
) -> None:
    nowhere = "postgresql+psycopg://me:secret@127.0.0.1:9/none"
    for database, problem in ((nowhere, "PostgreSQL does not respond"), (make_database(), "Run: joinsight db upgrade")):
        environment = {"JOINSIGHT_DATABASE_URL": database, "JOINSIGHT_TOKEN": TOKEN}
        result = CliRunner().invoke(cli, ["doctor", "--url", url], env=environment)
        assert result.exit_code == 1
        assert "✗ database" in result.stdout and problem in said(result)
        assert "secret" not in result.output
        assert "✓ collector" in result.stdout


@pytest.fixture
def full_disk(engine: Engine) -> Iterator[None]:
    """Let the database write temporary tables to a disk of 256 KiB."""
    disk = Path(tempfile.mkdtemp())
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], capture_output=True)
    if mounted.returncode:
        disk.rmdir()
        pytest.skip("this user may not mount a disk")
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            data = str(connection.scalar(text("SHOW data_directory")))
            owner = Path(data).stat()
            os.chown(disk, owner.st_uid, owner.st_gid)
            connection.execute(text(f"CREATE TABLESPACE full_disk LOCATION '{disk}'"))
            connection.execute(text(f"ALTER DATABASE {engine.url.database} SET temp_tablespaces = full_disk"))
        engine.dispose()
        yield
    finally:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(f"ALTER DATABASE {engine.url.database} RESET temp_tablespaces"))
            connection.execute(text("DROP TABLESPACE IF EXISTS full_disk"))
        subprocess.run(["umount", disk], check=True)
        disk.rmdir()


def test_a_full_disk_needs_attention(engine: Engine, url: str, full_disk: None) -> None:
    """The database answers, and can store nothing more."""
    Writer(engine).write(healthy())
    found = told(engine, url, 1)
    assert re.search("✗ writing PostgreSQL cannot store documents: .* No space left on device", found)
    assert "Free space on PostgreSQL's disk" in found


def test_a_user_who_may_only_read(engine: Engine, url: str) -> None:
    """The test write is left out, which is no problem."""
    Writer(engine).write(healthy())
    read_only = engine.url.update_query_dict({"options": "-c default_transaction_read_only=on"})
    [found] = check_writing(create_engine(read_only, poolclass=NullPool))
    assert found.remedy is None and "cannot execute CREATE TABLE" in found.found


def test_little_space_of_the_embedded_database_needs_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = create_engine(
        "postgresql+psycopg://127.0.0.1:9/none", execution_options={"joinsight_embedded_folder": tmp_path}
    )
    enough = list(check_writing(nowhere))[-1]
    assert enough.what == "disk" and enough.remedy is None
    monkeypatch.setattr(check, "LOW_BYTES", 1 << 60)
    assert list(check_writing(nowhere))[-1].remedy


def test_a_collector_without_its_database(make_database: Callable[[], str], engine: Engine) -> None:
    """A collector that is up and not ready says why."""
    with connect(make_database()) as other, collector(other, 0, [TOKEN]) as (url, _):
        result = doctor(engine, url)
    assert f"✗ collector {url} is running, but not ready: The database has no Joinsight schema yet." in said(result)


def test_troubles_are_named_with_what_to_do(engine: Engine, url: str) -> None:
    """Missing, refused, dropped, failed, lost and partial documents have a line each, and one with the fix."""
    future = as_line(execution(application_id="app-2", sequence=9)).replace(b'_version":1', b'_version":2')
    batch = decode_request(request(future))
    ended = application(
        application_id="app-2",
        application_name="nightly",
        sequence=20,
        state="ended",
        documents_made=20,
        dropped={"memory": [(5, 8), (10, 10)], "spool": [(11, 12)], "failure": []},
        refused=[(9, 9)],
        events_dropped=1_234,
        listener_failures=3,
    )
    executions = [
        execution(
            application_id="app-2",
            execution_id=i,
            sequence=i,
            incomplete=[f"in words {i}"],
            incomplete_codes=["task_ends_not_seen"],
        )
        for i in range(1, 4)
    ]
    lost = execution(
        application_id="app-2",
        execution_id=4,
        sequence=4,
        state="lost",
        incomplete=["in words"],
        incomplete_codes=["driver_lost"],
    )
    Writer(engine).write([*executions, lost, ended, *healthy()], batch.headers)
    result = doctor(engine, url)
    assert result.exit_code == 1
    found = said(result)
    for what in (
        "app-2 7 documents were made and did not arrive (numbers 13 to 19) The driver's spool folder may hold them.",
        "1 document was refused: schema_version 2 is not supported",
        "Install the same version of Joinsight in the driver and the collector",
        "7 documents were dropped in the driver (memory, spool) Raise spark.joinsight.memoryLimit",
        "folder writable. Raise spark.joinsight.spoolLimit",
        "Spark dropped 1,234 events before its listeners saw them",
        "Raise spark.scheduler.listenerbus.eventqueue.capacity",
        "the listener failed 3 times",
        "1 execution was lost",
        "· app-2 numbers of 3 executions may be partial: ... of ... task ends of stage ... were not seen",
        "Something needs attention",
    ):
        assert what in found, what
    assert "failure)" not in found
    assert "app-1 " in found and "✗ app-1" not in found
    assert max(map(len, lines(result))) <= 100, result.stdout
    assert not any(line.endswith(" ") for line in lines(result))
    assert doctor(engine, url, "--application", "app-1").exit_code == 0
    assert doctor(engine, url, "--application", "nightly").exit_code == 1


def test_attempts_are_named(engine: Engine, url: str) -> None:
    """An application that YARN started again has a row for each attempt, and the first one names the second."""
    first, second = ({"application_id": "app-4", "attempt_id": attempt} for attempt in ("1", "2"))
    Writer(engine).write([application(**first, state="lost"), application(**second, state="ended", documents_made=1)])
    result = doctor(engine, url)
    found = said(result)
    assert "✗ app-4/1 driver lost: last contact" in found
    assert "Attempt 2 started since. YARN's log of this attempt says why it ended." in found
    assert "✗ app-4/2" not in found
    assert {line.split()[0] for line in lines(result) if line.startswith("app-4")} == {"app-4/1", "app-4/2"}


def test_what_is_under_way_is_no_trouble(engine: Engine, url: str) -> None:
    """While an application runs, missing documents may still come; when it falls silent they are missed."""
    Writer(engine).write([application(application_id="app-3", sequence=5, documents_made=5)])
    found = told(engine, url, 0)
    assert "· app-3 4 documents were made and did not arrive (numbers 1 to 4) yet: the listener keeps trying" in found
    silent(engine, 6)
    found = told(engine, url, 1)
    assert re.search(r"✗ app-3 no contact for \d+ min( \d+ s)?, and it has not ended", found)
    assert "✗ app-3 4 documents were made and did not arrive" in found


def test_only_refused_documents_came(engine: Engine, url: str) -> None:
    """A listener of another version is seen though nothing of it could be stored."""
    future = as_line(execution(application_id="app-4", attempt_id="2")).replace(b'_version":1', b'_version":2')
    Writer(engine).write([], decode_request(request(future)).headers)
    found = told(engine, url, 1)
    assert "✗ app-4/2 1 document was refused: schema_version 2 is not supported" in found


def test_json_is_one_object_with_the_listeners_heard_last(engine: Engine, url: str) -> None:
    """One object with checks, applications and findings; a listener each, the one heard last first."""
    Writer(engine).write(healthy("old"))
    Writer(engine).write(healthy("new", listener=OTHER_LISTENER))
    found = json.loads(doctor(engine, url, "--json").stdout)
    assert found["well"] is True
    assert [check["what"] for check in found["checks"]] == ["database", "writing", "documents", "collector"]
    assert [row["application_id"] for row in found["applications"]] == ["new", "old"]
    new = found["applications"][0]
    assert (new["listener_id"], new["sequences_arrived"]) == (OTHER_LISTENER.id, [[1, 4]])
    assert (new["executions"], new["incomplete"], new["documents_missing"]) == ({"succeeded": 2}, {}, 0)
    (only,) = json.loads(doctor(engine, url, "--json", "--limit", "1").stdout)["applications"]
    assert only["application_id"] == "new"
    result = doctor(engine, "http://127.0.0.1:9", "--json")
    assert (result.exit_code, json.loads(result.stdout)["well"]) == (1, False)


def test_executions_in_the_default_partition_are_named(engine: Engine, url: str) -> None:
    """Whose they are and when they claim to have started, with what can be done; the rest is well."""
    impossible = [
        execution(
            application_id="app-0",
            execution_id=i,
            sequence=i + 1,
            started_at_ms=i * 86_400_000,
            ended_at_ms=i * 86_400_000,
        )
        for i in range(2)
    ]
    Writer(engine).write([*healthy(), *impossible, application(application_id="app-0", sequence=3, state="ended")])
    result = doctor(engine, url)
    assert result.exit_code == 1
    assert "✗ clock      app-0: 2 executions were started on 1970-01-01 to 1970-01-02" in result.output
    assert "`joinsight db upgrade`" in result.output
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM execution_default"))
    assert doctor(engine, url).exit_code == 0


def test_where_only_logs_were_read_no_listener_is_missed(engine: Engine, url: str) -> None:
    """Where only logs were read, no listener is missed; one that failed wants attention."""
    entry = event_logs.Entry(
        *("file:/logs/local-1", "local-1", "", 9, datetime.now(timezone.utc), False, "partial", ["x"]),
        *(False, 0, 1, 9, 1, "0.1.0"),
    )
    event_logs.write(engine, entry)
    found = told(engine, url, 0)
    assert re.search(r"✓ event logs 1 were read, the last one \S+ \S+ ago \(1 in part\)", found)
    assert "✓ documents no listener has sent any; all executions are from event logs" in found
    assert "no matching document has ever arrived" in said(doctor(engine, url, "--application", "local-1"))
    event_logs.write(engine, replace(entry, path="file:/logs/local-2", outcome="failed"))
    found = told(engine, url, 1)
    assert re.search(r"✗ event logs 2 were read, the last one \S+ \S+ ago \(1 in part, 1 failed\)", found)


def test_an_application_whose_driver_is_lost(engine: Engine, url: str) -> None:
    """A lost application is named with its last contact, even if `joinsight ship` was the last one."""
    Writer(engine).write([application(application_id="app-1", documents_made=3)])
    with engine.begin() as connection:
        connection.execute(text("UPDATE application SET state = 'lost'"))
    told = doctor(engine, url)
    assert told.exit_code == 1
    assert re.search(r"✗ app-1  driver lost: last contact [\d.]+ \w+ ago", told.output), told.output
    assert "made and did not arrive (number" in told.output and "the listener keeps trying" not in told.output
