"""Finding event logs on this machine, without Spark: what is read, what is left out, and how that is reported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine

from joinsight.backfill.listing import Listing, Local, check_local, find
from joinsight.backfill.run import can_read_here, local_paths
from joinsight.base.errors import JoinsightError
from joinsight.cli import cli

NAMED = ("local-1", "application_1_2_1.zstd", "app-1-2.inprogress", "team/local-3")
OTHERS = ("README.md", "nightly.zstd", "team/run", "team/old.lz4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Event logs and other files, of which one is hidden."""
    for name in (*NAMED, *OTHERS, ".local-1.crc"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    return tmp_path


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if Hadoop and Spark were not configured here."""
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/nowhere")


def names(listing: Listing, folder: Path) -> tuple[set[str], int]:
    """The logs, and the number of files that were left out."""
    return {str(Path(each.path.removeprefix("file:")).relative_to(folder)) for each in listing.logs.values()}, (
        listing.left_out
    )


def test_files_of_other_names_are_counted(folder: Path) -> None:
    """A folder's files that Spark does not name so are left out and counted, hidden ones silently."""
    listing = find(Local(), [str(folder)])
    assert names(listing, folder) == (set(NAMED), len(OTHERS))
    assert [Path(path).name for path in listing.left_out_examples] == ["README.md", "nightly.zstd", "old.lz4"]


def test_a_pattern_leaves_them_out_too(folder: Path) -> None:
    """It may match anything."""
    listing = find(Local(), [f"{folder}/[nr]*"])
    assert names(listing, folder) == (set(), 1)


def test_a_file_that_is_named_is_read(folder: Path) -> None:
    """Whatever its name is."""
    assert names(find(Local(), [f"{folder}/nightly.zstd"]), folder) == ({"nightly.zstd"}, 0)


def test_links_that_form_loops_are_followed_once(folder: Path) -> None:
    """Each log is found once, under the first name of its folder; a link to nothing or to itself is nothing."""
    (folder / "all").symlink_to(folder)
    (folder / "team" / "others").symlink_to(folder / "other")
    (folder / "other").mkdir()
    (folder / "other" / "team").symlink_to(folder / "team")
    (folder / "other" / "gone").symlink_to(folder / "nowhere")
    (folder / "local-7").symlink_to("local-7")
    for name in ("eventlog_v2_local-9", "archived"):  # not a log under its other name
        (folder / name).mkdir() if name.startswith("e") else (folder / name).symlink_to(folder / "eventlog_v2_local-9")
    (folder / "eventlog_v2_local-9" / "events_1_local-9").touch()
    listing = find(Local(), [str(folder), f"{folder}/*"])
    assert len(listing.logs) == len(NAMED) + 1
    assert names(listing, folder)[0] >= {"local-1", "eventlog_v2_local-9", "other/team/local-3"}
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
    return result.output


def test_what_is_left_out_is_reported(folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason and a command that reads one of them; and as numbers in JSON."""
    for name in NAMED:
        (folder / name).unlink()
    monkeypatch.setenv("JOINSIGHT_DATABASE_URL", engine.url.render_as_string(hide_password=False))
    assert run(folder).splitlines() == [
        "No event logs found.",
        "4 files were left out: their names are not those that Spark gives its event logs (README.md, nightly.zstd,"
        f" old.lz4, ...). To read them, name each: joinsight backfill {folder}/README.md",
    ]
    report = json.loads(run("--json", folder))
    assert (report["found"], report["left_out_files"], len(report["left_out_examples"])) == (0, 4, 3)


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
