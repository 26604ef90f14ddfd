"""The scripts of docker/ and the services' commands, run as the containers run them, against a real PostgreSQL."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url
from tests.stack.stack import ROOT, compose
from tests.waiting import SECONDS

from joinsight.serve.tokens import Tokens
from joinsight.store import embedded

COMPOSE = compose()
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that docker/secrets.sh makes."""
    folder = tmp_path_factory.mktemp("stack")
    shutil.copytree(ROOT / "docker", folder / "docker")
    for path in (folder / "docker").rglob("*"):
        path.chmod(path.stat().st_mode & 0o700)  # as a checkout makes it where the umask is 077
    subprocess.run(["sh", folder / "docker/secrets.sh"], cwd="/", check=True)
    return folder / "secrets"


@pytest.fixture(scope="module")
def mounted(secrets: Path) -> Path:
    """The secrets under the names that containers see in /run/secrets."""
    folder = secrets.with_name("mounted")
    folder.mkdir()
    for name, secret in COMPOSE["secrets"].items():
        shutil.copy(secrets / Path(secret["file"]).name, folder / name)
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, mounted: Path) -> Iterator[str]:
    """Host and port of a PostgreSQL on which docker/postgres-roles.sh has run, as in the image: owned by `postgres`."""
    folder = tmp_path_factory.mktemp("server")
    with embedded.embedded_postgres(folder) as url:
        server = make_url(url).set(drivername="postgresql")
        with psycopg.connect(server.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("CREATE ROLE postgres LOGIN SUPERUSER PASSWORD 'secret'")
        postgres = server.set(username="postgres", password="secret", database="postgres")
        with psycopg.connect(postgres.render_as_string(hide_password=False), autocommit=True) as connection:
            connection.execute("ALTER DATABASE joinsight RENAME TO before")
            connection.execute("ALTER ROLE joinsight RENAME TO before")
        environment = {
            "PATH": f"{embedded.find_binaries()}:{os.environ['PATH']}",
            "PGHOST": str(server.host),
            "PGPORT": str(server.port),
            "PGPASSWORD": "secret",
            "POSTGRES_USER": "postgres",
            "SECRETS": str(mounted),
        }
        subprocess.run([ROOT / "docker/postgres-roles.sh"], env=environment, check=True, capture_output=True)
        yield f"{server.host}:{server.port}"


@pytest.fixture(scope="module")
def run(address: str, mounted: Path) -> Run:
    """Runs a service's command through the image's entry point, and waits for its end."""

    def started(service: str, *options: str) -> subprocess.CompletedProcess[str]:
        command, environment = as_run(service, address, mounted)
        return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, check=False)

    return started


def as_run(service: str, address: str, mounted: Path) -> tuple[list[str], dict[str, str]]:
    """A service's command line and environment, with the places of this machine."""

    def here(text: str) -> str:
        return text.replace("/run/secrets", str(mounted)).replace("postgres:5432", address)

    own = {key: here(str(value)) for key, value in COMPOSE["services"][service]["environment"].items()}
    own = {key: re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", value) for key, value in own.items()}
    environment = {**os.environ, **own, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [here(word) for word in COMPOSE["services"][service]["command"]]
    return [str(ROOT / "docker/joinsight.sh"), *words], environment


def connect(address: str, user: str, password: str) -> psycopg.Connection[Any]:
    """Connect as this role over TCP."""
    host, _, port = address.partition(":")
    return psycopg.connect(host=host, port=port, user=user, password=password, dbname="joinsight", autocommit=True)


def test_secrets_are_made_once(secrets: Path) -> None:
    """Every file that docker-compose.yml names, in a folder that is its owner's; what is there stays."""
    assert secrets.stat().st_mode & 0o777 == 0o700
    made = {path.name: path.read_text() for path in secrets.iterdir()}
    own = {"spark_token", "pages_token"}
    assert set(made) == {*(Path(each["file"]).name for each in COMPOSE["secrets"].values()), *own}
    assert len(set(made.values())) == len(made)
    assert all(len(text.strip()) >= 48 for text in made.values())
    assert made["tokens"] == f"spark:{made['spark_token']}read:pages:{made['pages_token']}"
    assert all((secrets / name).stat().st_mode & 0o777 == 0o600 for name in own)
    tokens = Tokens.read(secrets / "tokens")
    spark, pages = (f"Bearer {made[name].strip()}" for name in ("spark_token", "pages_token"))
    assert (tokens.sender(spark), tokens.reader(spark)) == ("spark", None)
    assert (tokens.sender(pages), tokens.reader(pages)) == (None, "pages")
    settings = secrets.with_name(".env").read_text()
    assert settings == "\nJOINSIGHT_SECRETS=secrets\n"
    mounted = list(secrets.with_name("docker").rglob("*"))
    assert all(path.stat().st_mode & 0o044 == 0o044 for path in mounted), "containers read them as users of their own"
    (secrets / "reader_password").unlink()
    subprocess.run(["sh", secrets.parent / "docker/secrets.sh"], check=True)
    again = {path.name: path.read_text() for path in secrets.iterdir()}
    assert {name for name in made if made[name] != again[name]} == {"reader_password"}
    assert secrets.with_name(".env").read_text() == settings


def test_secrets_of_before_get_a_token_that_reads(tmp_path: Path) -> None:
    """A file with the one kind of token that there was keeps it, for sending, and gets one for the pages."""
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/tokens").write_text("spark:abc")
    for _ in range(2):
        subprocess.run(["sh", tmp_path / "docker/secrets.sh"], check=True)
    tokens = Tokens.read(tmp_path / "secrets/tokens")
    password = (tmp_path / "secrets/pages_token").read_text().strip()
    assert (len(tokens), tokens.sender("Bearer abc"), tokens.reader(f"Bearer {password}")) == (2, "spark", "pages")


def test_the_roles_may_what_they_must(address: str, mounted: Path, run: Run) -> None:
    """The collector's role makes the schema, Grafana's reads it and no more; others have no way in."""
    for service in ("schema", "reader", "reader"):  # the reader at every start of the stack
        done = run(service)
        assert done.returncode == 0, done.stderr
    password = {role: (mounted / f"joinsight_{role}_password").read_text() for role in ("collector", "reader")}
    with connect(address, "joinsight_reader", password["reader"]) as reader:
        assert reader.execute("SELECT count(*) FROM v_joins").fetchone() == (0,)
        assert reader.execute("SHOW enable_partitionwise_join").fetchone() == ("on",)
        for refused in ("DELETE FROM execution", "CREATE TABLE t (i int)", "SET ROLE joinsight"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(refused)
    with connect(address, "joinsight", password["collector"]) as collector:
        public = "SELECT has_database_privilege('public', 'joinsight', 'CONNECT')"
        assert collector.execute(public).fetchone() == (False,)
        collector.execute("CREATE TABLE own (i int); DROP TABLE own")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            collector.execute("CREATE ROLE another")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(address, "joinsight", password["reader"])


def test_the_collector_serves(address: str, mounted: Path) -> None:
    """The collector serves with the stack's command and settings, and the image's health check detects its end."""
    command, environment = as_run("collector", address, mounted)
    process = subprocess.Popen([*command, "--port", "0"], env=environment, stderr=subprocess.PIPE, text=True)
    with process, ExitStack() as last:
        last.callback(process.kill)
        assert process.stderr
        log = [process.stderr.readline() for _ in range(2)]  # the first says that others may read the tokens
        port = re.search(r'"url": "http://[^"]+:(\d+)"', log[1])
        assert port, log
        check = check_of_the_image(port[1])
        assert subprocess.run(check, check=False).returncode == 0
        assert '"tokens": 2, "readers": 1' in log[1]
        assert (mounted / "joinsight_collector_password").read_text() not in "".join(log)
        process.terminate()
        assert process.wait(SECONDS) == 0, process.stderr.read()
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1


def check_of_the_image(port: str) -> list[str]:
    """The Dockerfile's health check, with this port."""
    found = re.search(r"HEALTHCHECK .*\n +CMD \[(.+)\]", (ROOT / "Dockerfile").read_text())
    assert found
    words = shlex.split(found[1].replace('", "', '" "').replace(":9595", f":{port}"))
    assert words[0] == "python"
    return [sys.executable, *words[1:]]
