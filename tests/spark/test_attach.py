"""The listener can be attached in all situations of PySpark users, and never fails the job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyspark
import pytest
from sqlalchemy import Engine, func, select
from tests.java import compile_java, jar_of, spark_home
from tests.processes import ran
from tests.versions import NEWEST, SCALA_2_12

from joinsight import __version__
from joinsight.driver.attach import LISTENER, PLUGIN, listener_jar
from joinsight.tables import application, delivery, execution, joins

pytestmark = pytest.mark.spark
Run = Callable[..., subprocess.CompletedProcess[str]]

SCRIPTS = Path(__file__).parent / "jobs" / "attach"


@pytest.fixture
def run(tmp_path: Path, url: str, spark_environment: Callable[[str], dict[str, str]]) -> Run:
    """Runs a script of `SCRIPTS`, which succeeds, against the collector, with python or through spark-submit."""

    def run_script(
        script: str,
        *arguments: str,
        submit: Sequence[str] = (),
        version: str = NEWEST,
        environment: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        command = [sys.executable]
        env = {**spark_environment(version), "URL": url, "JOINSIGHT_TOKEN": "a-token", **(environment or {})}
        if submit:
            command = [str(spark_home(env) / "bin" / "spark-submit"), *submit]
        command += [str(SCRIPTS / script), *arguments]
        return ran(*command, env=env, cwd=tmp_path)

    return run_script


def options(*pairs: str) -> list[str]:
    """Options of spark-submit with the listener, its jar and these settings, as KEY=VALUE."""
    conf = (part for pair in (f"spark.extraListeners={LISTENER}", *pairs) for part in ("--conf", pair))
    return ["--jars", str(listener_jar()), *conf]


def stored(engine: Engine, name: str) -> int:
    """Joins stored of the application of this name; -1 if the application is not stored as ended."""
    with engine.connect() as connection:
        states = list(connection.scalars(select(application.c.state).where(application.c.name == name)))
        ids = select(application.c.application_id).where(application.c.name == name)
        count = connection.scalar(select(func.count()).select_from(joins).where(joins.c.application_id.in_(ids)))
        return int(count or 0) if states == ["ended"] else -1


@pytest.mark.nightly  # by day, with the settings that spark-defaults.conf has
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_attaches_before_the_first_session(run: Run, engine: Engine, version: str) -> None:
    """In a new process the builder is enough to attach the listener."""
    done = run("fresh.py", f"fresh {version}", version=version)
    assert "result 10" in done.stdout
    assert "Joinsight" not in done.stderr
    assert stored(engine, f"fresh {version}") == 1


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_attaches_to_a_second_context_of_the_process(run: Run, engine: Engine, version: str) -> None:
    """A JVM that runs already is given the jar; each SparkContext is an application of its own."""
    done = run("contexts.py", f"second {version}", f"third {version}", version=version)
    assert done.stdout.count("result 10") == 3
    assert stored(engine, f"second {version}") == stored(engine, f"third {version}") == 1


@pytest.mark.matrix  # in the normal run, by test_measure
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_attaches_to_a_running_context(run: Run, engine: Engine, version: str) -> None:
    """In a notebook whose session runs already, the listener joins in and takes its job name and tags."""
    run("running.py", f"running {version}", f"late {version}", version=version)
    assert stored(engine, f"running {version}") == 1
    with engine.connect() as connection:
        row = connection.execute(select(execution).where(execution.c.job_name == f"late {version}")).mappings().first()
    assert row is not None
    assert row["tags"] == {"team": "sales"}


@pytest.mark.matrix
def test_sessions_and_threads_share_the_listener(run: Run, engine: Engine) -> None:
    """Each query is stored once, with its session, whichever thread attaches again."""
    done = run("sessions.py")
    assert "Joinsight" not in done.stderr
    assert stored(engine, "sessions") == 4
    ids = select(application.c.application_id).where(application.c.name == "sessions").scalar_subquery()
    with engine.connect() as connection:
        sessions = connection.scalars(select(execution.c.session_id).where(execution.c.application_id == ids)).all()
        listeners = connection.scalar(select(func.count()).where(delivery.c.application_id == ids))
    assert len(sessions) == len(set(sessions)) == 4 and None not in sessions
    assert listeners == 1


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_a_cell_that_is_run_again(run: Run, engine: Engine, version: str) -> None:
    """Attaching twice is attaching once; other settings give a warning that names them and need another context."""
    names = [f"cells {version}", f"cells {version} again", f"cells {version}, from the start"]
    done = run("cells.py", *names, version=version)
    other = (
        "Joinsight is already attached to this SparkContext with other settings, which apply until the context is"
        " stopped: spark.joinsight.tag.team is "
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("warnings")]
    assert said == 2 * ["warnings", "warnings", f"warnings {other}sales"] + 3 * ["warnings"] + [
        f"warnings {other}finance"
    ]
    assert [stored(engine, name) for name in names] == [3, 3, 2]
    for name, tags in zip(
        names,
        ({"team": "sales", "cell": names[0]}, {"team": "sales", "cell": names[1]}, {"team": "finance"}),
        strict=True,
    ):
        ids = select(application.c.application_id).where(application.c.name == name).scalar_subquery()
        with engine.connect() as connection:
            account = connection.execute(select(delivery).where(delivery.c.application_id == ids)).mappings().one()
            found = connection.scalars(select(execution.c.tags).where(execution.c.application_id == ids)).all()
        assert account["documents_arrived"] == account["documents_made"]
        assert list(found) == len(found) * [tags]


@pytest.mark.matrix
def test_attaching_with_right_settings_after_wrong_ones(run: Run, engine: Engine) -> None:
    """A listener that did not start because of invalid settings, which gave a warning, is replaced."""
    done = run("repaired.py", submit=options("spark.joinsight.url=ftp://collector"))
    (warning,) = [line for line in done.stdout.splitlines() if "JoinsightWarning" in line]
    assert "Joinsight is not attached, the job runs without it: spark.joinsight.tokenFile=/nowhere/token" in warning
    assert stored(engine, "repaired") == 1


@pytest.mark.matrix
def test_attaching_keeps_other_listeners(run: Run, engine: Engine) -> None:
    """Listeners that spark-submit was given are there, too."""
    other = "org.apache.spark.scheduler.StatsReportListener"
    done = run("others.py", submit=["--conf", f"spark.extraListeners={other}"])
    assert f"{other},{LISTENER}" in done.stdout
    assert stored(engine, "others") == 1


@pytest.mark.matrix
def test_attaching_keeps_what_spark_defaults_have(run: Run, engine: Engine, tmp_path: Path) -> None:
    """A listener of spark-defaults.conf, with its class path there: both start, and ours."""
    compile_java(SCRIPTS / "Theirs.java", tmp_path)
    lines = [f"spark.driver.extraClassPath  {tmp_path}", "spark.extraListeners=Theirs"]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    done = run("fresh.py", "defaults", environment={"SPARK_CONF_DIR": str(tmp_path)})
    assert "theirs runs" in done.stdout and "Joinsight" not in done.stderr
    assert stored(engine, "defaults") == 1


def test_attaching_adds_to_settings_wherever_they_are(run: Run, tmp_path: Path) -> None:
    """Those of the builder count, else those of PYSPARK_SUBMIT_ARGS, else those of a file; what cannot be added to is
    refused."""
    jar = str(listener_jar())
    text = "# spark.plugins none\nspark.driver.extraClassPath   /fs/*:/codec/* \n"
    text += f"spark.extraListeners=a.A, \\\n  b.B\nspark.plugins : {PLUGIN}\nspark.jars /their.jar\n"
    (tmp_path / "spark-defaults.conf").write_text(text)
    (tmp_path / "other.conf").write_text("spark.extraListeners c.C")
    file, none = str(tmp_path), str(tmp_path / "none")
    cases = [
        [file, "pyspark-shell", {}],
        [file, f"--properties-file {file}/other.conf pyspark-shell", {}],
        [file, "--conf spark.extraListeners=d.D -c 'spark.plugins=' pyspark-shell", {}],
        [file, "pyspark-shell", {"spark.driver.extraClassPath": "/mine", "spark.extraListeners": "e.E"}],
        [none, "--driver-class-path /theirs pyspark-shell", {}],
        [none, f"--jars={jar} --driver-class-path /theirs pyspark-shell", {}],
    ]
    done = run("builders.py", json.dumps(cases))
    said = json.loads(done.stdout)
    names = ("spark.driver.extraClassPath", "spark.extraListeners", "spark.jars")
    joined = [f"/fs/*:/codec/*:{jar}", f"a.A, b.B,{LISTENER}", f"/their.jar,{jar}"]
    assert [[options.get(name) for name in names] for options, _ in said] == [
        joined,
        [jar, f"c.C,{LISTENER}", None],
        [joined[0], f"d.D,{LISTENER}", None],
        [f"/mine:{jar}", f"e.E,{LISTENER}", joined[2]],
        [None, None, None],
        [None, LISTENER, None],
    ]
    refused = "PYSPARK_SUBMIT_ARGS sets the driver's class path; add to it: --jars"
    assert [len(warned) for _, warned in said] == [0, 0, 0, 0, 1, 0] and refused in said[4][1][0]


def test_attaching_has_executors_sample(run: Run, tmp_path: Path) -> None:
    """On clusters whose executors get what spark.jars names: with the plugins that are there, and with the jar once."""
    jar, cluster = str(listener_jar()), {"spark.master": "spark://m:7077"}
    none = str(tmp_path / "none")
    cases = [
        [none, "pyspark-shell", cluster],
        [none, f"--master yarn --jars /a.jar,hdfs:///lib/{Path(jar).name} pyspark-shell", {}],
        [none, "--conf spark.plugins=a.A --conf spark.jars=/a.jar pyspark-shell", {"spark.master": "k8s://https://a"}],
        [none, f"--conf spark.plugins=a.A,{PLUGIN} pyspark-shell", cluster],
        [none, "--conf spark.joinsight.sampleInterval=0s pyspark-shell", cluster],
        [none, "--conf spark.joinsight.enabled=false pyspark-shell", cluster],
        [none, "--master vendor://somewhere pyspark-shell", {}],
        [none, "pyspark-shell", {"spark.master": "local[4]"}],
        [none, "pyspark-shell", {}],
    ]
    done = run("builders.py", json.dumps(cases))
    assert [
        [options.get(f"spark.{name}") for name in ("plugins", "jars")] for options, _ in json.loads(done.stdout)
    ] == [
        [PLUGIN, jar],
        [PLUGIN, None],
        [f"a.A,{PLUGIN}", f"/a.jar,{jar}"],
        [f"a.A,{PLUGIN}", jar],
        *5 * [[None, None]],
    ]


@pytest.mark.matrix
def test_attaches_within_spark_submit(run: Run, engine: Engine) -> None:
    """A script that calls attach() also works when spark-submit starts it, whose JVM is there first."""
    run("fresh.py", "submitted", submit=["--master", "local[1]"])
    assert stored(engine, "submitted") == 1


@pytest.mark.matrix
def test_attaches_by_spark_submit_options(run: Run, engine: Engine, url: str) -> None:
    """The jar and two settings are enough, as the README says; the script knows nothing of Joinsight."""
    run("plain.py", "options", submit=options(f"spark.joinsight.url={url}"))
    assert stored(engine, "options") == 1


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
@pytest.mark.parametrize("setting", [f"spark.extraListeners={LISTENER}", f"spark.plugins={PLUGIN}"])
def test_settings_attach_to_each_context_of_the_process(
    run: Run, engine: Engine, url: str, version: str, setting: str
) -> None:
    """`spark.jars` puts the jar on the class path when the JVM starts, for all of its contexts."""
    name = f"{setting[6:12]} {version}"
    settings = (setting, f"spark.jars={listener_jar()}", f"spark.joinsight.url={url}")
    run("settings.py", name, *settings, version=version)
    assert [stored(engine, f"{name} {number}") for number in (1, 2, 3, 4)] == [1, 1, 1, 1]


@pytest.mark.matrix
def test_contexts_of_a_job_in_java(
    engine: Engine, url: str, spark_environment: Callable[[str], dict[str, str]], tmp_path: Path
) -> None:
    """As in Python: the jar that spark-submit got is there for each context, in each thread."""
    compile_java(Path(__file__).parent / "Job.java", tmp_path)
    env = {**spark_environment(NEWEST), "JOINSIGHT_TOKEN": "a-token"}
    command: list[str | Path] = [spark_home(env) / "bin" / "spark-submit", "--master", "local[1]", "--class", "Job"]
    command += ["--jars", listener_jar(), "--conf", f"spark.extraListeners={LISTENER}"]
    command += ["--conf", f"spark.joinsight.url={url}", jar_of(tmp_path, "Job"), "java 1", "java 2", "java 3"]
    ran(*command, env=env, cwd=tmp_path)
    assert [stored(engine, f"java {number}") for number in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.matrix
@pytest.mark.parametrize("version", [NEWEST, SCALA_2_12])
def test_a_jvm_that_began_without_the_jar(run: Run, engine: Engine, version: str) -> None:
    """Settings of a later context do not put it on the class path; attach() does, for all contexts that follow."""
    names = [f"without {version} {number}" for number in range(4)]
    done = run("without_jar.py", *names, version=version)
    assert done.stdout.split() == ["result", "10", "True", "result", "10", "result", "10"]
    assert [stored(engine, name) for name in names[2:]] == [1, 1]


@pytest.mark.matrix
def test_a_jvm_of_another_program(run: Run, engine: Engine) -> None:
    """Where the class path has the jar, no class loader needs to take it."""
    path = os.pathsep.join([str(listener_jar()), str(Path(pyspark.__file__).parent / "jars" / "*")])
    done = run("notebook_server.py", path)
    assert "Joinsight" not in done.stderr
    assert stored(engine, "notebook server") == 1


@pytest.mark.matrix
def test_a_jar_of_another_version_is_warned_of_once(run: Run, tmp_path: Path) -> None:
    """Spark uses the jar that its class path has first; if that is of another version, a warning says so once."""
    old = tmp_path / "old.jar"
    with zipfile.ZipFile(listener_jar()) as ours, zipfile.ZipFile(old, "w") as theirs:
        for name in ours.namelist():
            theirs.writestr(name, ours.read(name).replace(f"Version: {__version__}".encode(), b"Version: 0.0.7"))
    done = run("versions.py", environment={"PYSPARK_SUBMIT_ARGS": f"--driver-class-path {old} pyspark-shell"})
    warning = f"This is Joinsight {__version__}, but Spark has the listener of version 0.0.7, from {old}."
    first, measured, second, again, attached = done.stdout.splitlines()
    assert (first, second, again) == ("result 10", "result 10", "")
    assert measured == attached == f"{warning} Use the same version in both."


WRONG: dict[str, tuple[dict[str, str], str]] = {
    "jar": ({"jar": "/nowhere/listener.jar"}, "there is no listener jar at /nowhere/listener.jar"),
    "url": ({"url": "collector:9595"}, "'collector:9595' is not the address of a collector"),
    "unreachable": ({"url": "http://127.0.0.1:1"}, "cannot deliver documents to the collector at http://127.0.0.1:1"),
    "token": ({}, "the token is wrong or missing"),
    "token file": ({"token_file": "/nowhere/token"}, "spark.joinsight.tokenFile=/nowhere/token cannot be read"),
}


@pytest.mark.matrix
def test_the_job_runs_on_whatever_is_wrong(run: Run, engine: Engine) -> None:
    """A wrong jar, URL or token is reported, and does not change the job's result and exit code."""
    contexts = {f"wrong {what}": arguments for what, (arguments, _) in WRONG.items()}
    done = run("wrong.py", json.dumps(contexts), environment={"JOINSIGHT_TOKEN": "another"})
    assert done.stdout.count("result 10") == len(WRONG)
    for what, (_, message) in WRONG.items():
        assert message in done.stderr
        assert stored(engine, f"wrong {what}") == -1


@pytest.mark.matrix
def test_wrong_settings_are_all_said_at_once(run: Run) -> None:
    """The listener reports all invalid settings in one line and switches itself off; the job runs."""
    wrong = ("url=ftp://collector", "progressInterval=soon", "shutdownTimeout=-5s", "jobname=x")
    done = run("plain.py", "settings", submit=options(*(f"spark.joinsight.{pair}" for pair in wrong)))
    assert "result 10" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if "Joinsight is off" in line]
    for part in (
        "ftp://collector",
        "progressInterval=soon is not a valid duration",
        "shutdownTimeout=-5s is too short",
        "spark.joinsight.jobname (did you mean spark.joinsight.jobName?)",
    ):
        assert part in line
