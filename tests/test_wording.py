"""`make check` rejects wording that makes readers translate."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools import wording
from tools.wording import WORDING, main, problems

PLANTED = '''"""Of the log, what it holds."""
# nothing was heard
# of it; mend PostgreSQL
reason = "this is no time"  # wording: ok
raise Error(f"{text!r} is no "
    "number")
'''


def test_a_bad_line_is_named_with_what_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output has file, line, words and suggestion, also for words that wrap; allowed lines are skipped."""
    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    assert main([str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f'{file}:1: \'"""Of t\'; write instead: a sentence with a subject',
        f"{file}:2: 'nothing was heard # of'; write instead: no contact",
        f"{file}:3: 'mend'; write instead: fix, restore",
        f"{file}:5: 'is no \" \"number'; write instead: not a valid ..., invalid",
        "4 places to reword (tools/wording.py has the list)",
    ]


def test_files_are_found_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an unpacked archive all files count but those that .gitignore names."""
    for name in ("README.md", ".github/workflow.yml", "docs/page.md", "docs/picture.png", ".venv/x.py", "build/y.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text(".venv/\n/build/\n")
    monkeypatch.setattr(wording, "ROOT", tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in wording.files()} == {
        "README.md",
        ".github/workflow.yml",
        "docs/page.md",
    }


def test_good_files_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files without problems print nothing."""
    file = tmp_path / "good.md"
    file.write_text("There is no number. It is no longer recommended: amend it. See Standard SQL. Of course.\n")
    assert (main([str(file)]), capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        "no valid time: this is no time",
        "Nothing is stored that fits",
        "a parameter cannot be meant",
        "look after the database",
        "it is looked at when it has ended",
        "what became of a log",
        "all who ask get it; who asks gets it",
        "documents were news",
        "at most so many jobs",
        "bring them to a Grafana",
        "nothing is lost without a word",
        "two runs beside each other",
        "it puts off 20 % of requests",
        "its standard settings",
    ],
)
def test_each_of_these_is_found(text: str) -> None:
    assert list(problems(text))


def test_every_pattern_has_a_suggestion() -> None:
    """An author is never left without a better word."""
    assert all(WORDING.values())
