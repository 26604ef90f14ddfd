"""Finding event logs on this machine, without Spark: what is a log, what is left out, and how that is reported."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from joinsight.backfill.listing import Listing, Local, check_local, find
from joinsight.backfill.run import Report, can_read_here, local_paths
from joinsight.base.errors import JoinsightError
from joinsight.cli import cli
from joinsight.cli.backfill import print_report
from joinsight.spark.packages import missing_package
from joinsight.terminal.console import text_console

NAMED = ("local-1", "application_1_2_1.zstd", "app-1-2.inprogress", "team/local-3")
OTHERS = ("README.md", "nightly.zstd", "team/run", "team/old.lz4")
EVENT = '{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Event logs and other files, of which one is hidden."""
    for name in (*NAMED, *OTHERS, ".local-1.crc"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(EVENT)
    return tmp_path


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Hadoop and Spark were not configured here."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/nowhere")


def names(listing: Listing, folder: Path, *, candidates: bool = False) -> set[str]:
    """The logs, or the files that are read only if their first line is an event."""
    found = [each.path.removeprefix("file:") for each in listing.logs.values() if each.is_candidate == candidates]
    return {str(Path(path).relative_to(folder)) for path in found}


def test_files_of_other_names_are_candidates(folder: Path) -> None:
    """Whatever is not named as Spark does, also a file that is given by its name; hidden files are nothing."""
    listing = find(Local(), [str(folder)])
    assert names(listing, folder) == set(NAMED)
    assert names(listing, folder, candidates=True) == set(OTHERS)
    assert names(find(Local(), [f"{folder}/[nr]*"]), folder, candidates=True) == {"nightly.zstd"}
    assert names(find(Local(), [f"{folder}/nightly.zstd"]), folder, candidates=True) == {"nightly.zstd"}


def test_a_renamed_folder_of_a_rolling_log_is_one_log(tmp_path: Path) -> None:
    """By its status file, or because it has files of one rolling log only; else each file is a candidate."""
    files = {
        "with status": ("appstatus_local-1", "events_1_local-1", "events_2_local-1.zstd", "notes"),
        "events alone": ("events_1_local-2.lz4.compact", "events_2_local-2"),
        "of two": ("events_1_local-3", "events_1_local-4"),
        "and another": ("events_1_local-5", "notes"),
    }
    for folder, each in files.items():
        (tmp_path / folder).mkdir()
        for name in each:
            (tmp_path / folder / name).touch()
    listing = find(Local(), [str(tmp_path)])
    assert names(listing, tmp_path) == set()
    rolling = ("with status", "events alone")
    single = {f"{folder}/{name}" for folder in files.keys() - rolling for name in files[folder]}
    assert names(listing, tmp_path, candidates=True) == {*rolling, *single}
    assert {each.application_id for each in listing.logs.values() if len(each.files) == 2} == {"local-1", "local-2"}


def test_links_that_form_loops_are_followed_once(folder: Path) -> None:
    """Each log is found once, under the first name of its folder; a link to nothing or to itself is nothing."""
    (folder / "all").symlink_to(folder)
    (folder / "team" / "others").symlink_to(folder / "other")
    (folder / "other").mkdir()
    (folder / "other" / "team").symlink_to(folder / "team")
    (folder / "other" / "gone").symlink_to(folder / "nowhere")
    (folder / "local-7").symlink_to("local-7")
    (folder / "eventlog_v2_local-9").mkdir()
    (folder / "old").symlink_to(folder / "eventlog_v2_local-9")
    (folder / "eventlog_v2_local-9" / "events_1_local-9").touch()
    listing = find(Local(), [str(folder), f"{folder}/*"])
    assert len(listing.logs) == len(NAMED) + len(OTHERS) + 1
    assert names(listing, folder) >= {"local-1", "eventlog_v2_local-9", "other/team/local-3"}
    assert listing.unreadable == {}


def test_folders_thousands_of_levels_deep_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As deep as a path can be."""
    monkeypatch.chdir(tmp_path)
    try:
        for _ in range((4000 - len(str(tmp_path))) // 2):
            Path("d").mkdir()
            os.chdir("d")
        Path("local-1").touch()
        os.chdir(tmp_path)
        assert len(find(Local(), [str(tmp_path)]).logs) == 1
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)  # too deep for pytest


def run(*arguments: str | Path) -> str:
    """What the command prints; raises its error."""
    result = CliRunner().invoke(cli, ["backfill", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.matrix
def test_what_is_left_out_is_reported(tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files whose first line is not an event, in one line and as numbers in JSON; all others are read."""
    monkeypatch.setenv("JOINSIGHT_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    started = '{"Event":"SparkListenerApplicationStart","App Name":"x","App ID":"app-7","Timestamp":1}\n'
    others = {"README.md": "A log:\n" + EVENT, "a.json": '{"event":"x"}\n', "broken.zstd": "x", "empty": ""}
    for name, text in others.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "my run.txt").write_bytes(gzip.compress(f" {EVENT}{started}".encode()))
    left_out = "4 files are not event logs: README.md, a.json, broken.zstd, ..."
    first, last, *_ = run(tmp_path).splitlines()
    assert (first, last[:43]) == (left_out, "1 of 1 event logs read: 0 executions, 147 B")
    report = json.loads(run("--json", tmp_path))
    assert (report["found"], report["unchanged"], report["left_out_files"]) == (1, 1, 4)
    assert [Path(path).name for path in report["left_out_examples"]] == ["README.md", "a.json", "broken.zstd"]
    assert run(tmp_path / "README.md").splitlines() == ["No event logs found.", "Not an event log: README.md"]
    (tmp_path / "my run.txt").unlink()
    assert run(tmp_path).splitlines() == ["No event logs found.", left_out]


@pytest.mark.parametrize("options", [(), ("--master", "local[1]")])
def test_a_missing_path_is_reported_before_anything_starts(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Neither Spark nor the embedded database, whose folder would be there."""
    with pytest.raises(JoinsightError, match="nowhere does not exist"):
        run("--data", tmp_path / "data", *options, tmp_path, tmp_path / "nowhere")
    assert not (tmp_path / "data").exists()


def test_paths_that_only_spark_can_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of another file system, and those without a scheme where a setting may name another one."""
    paths = ["/a", "file:/b", "s3a://c/d"]
    assert local_paths(paths) == ["/a", "file:/b"]
    assert can_read_here(["/a", "file:/b"]) and not can_read_here(paths)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = tmp_path / "spark-defaults.conf"
    settings.write_text("spark.master yarn\n")
    assert local_paths(paths) == ["/a", "file:/b"] and not can_read_here(["/a"])
    settings.write_text("spark.hadoop.fs.defaultFS hdfs://here\n")
    assert local_paths(paths) == ["file:/b"]
    settings.unlink()
    (tmp_path / "core-site.xml").touch()
    assert local_paths(paths) == ["file:/b"]
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert local_paths(paths) == ["file:/b"] and not can_read_here(["/a"])
    with pytest.raises(JoinsightError, match="/b does not exist"):
        check_local(local_paths(paths))


@pytest.mark.parametrize(
    ("text", "package"),
    [
        (
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "org.apache.hadoop:hadoop-aws:3.4.2",
        ),
        ("software/amazon/awssdk/transfer/s3/progress/TransferListener", "software.amazon.awssdk:bundle"),
        (
            "software/amazon/s3/analyticsaccelerator/request/ObjectClient",
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3",
        ),
    ],
)
def test_a_class_that_is_missing_names_its_package(text: str, package: str) -> None:
    """Java's message may be the name of the class and nothing else."""
    said = missing_package(text, "3.4.2")
    assert said and f"is in {package}: add that to spark.jars.packages" in said


def test_other_messages_name_no_package() -> None:
    """What is no class, or none of a file system, keeps Java's message."""
    for text in ('No FileSystem for scheme "x"', "org.apache.hadoop.fs.s3a.S3AFileSystem: access denied", "a.b.C"):
        assert missing_package(text, "3.4.2") is None


@pytest.mark.parametrize(("size", "rate"), [(9_999_999, ""), (114_400_000, ", 23 MB/s")])
def test_a_rate_is_only_of_logs_that_take_longer_than_the_start(
    monkeypatch: pytest.MonkeyPatch, size: int, rate: str
) -> None:
    monkeypatch.setattr(Report, "event_bytes", size)
    text = io.StringIO()
    print_report(text_console(text), Report(found=1, seconds=5.0))
    assert text.getvalue().splitlines()[0].endswith(f" of events in 5.0 s{rate}")
