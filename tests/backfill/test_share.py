"""Who reads what: no line twice, none left out, and no more writers than connections."""

from __future__ import annotations

import io
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joinsight.backfill.share import Found, share
from joinsight.backfill.stretch import Stretch, first_byte
from joinsight.backfill.work import check_libraries
from joinsight.errors import JoinsightError
from joinsight.eventlog.files import Log
from joinsight.store.ledger import moment


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"-")), max_size=12),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 9),
)
def test_each_line_is_in_one_stretch(lines: list[bytes], has_end: bool, split: int, chunk: int) -> None:
    """However long lines, stretches and reads are, put together the stretches are the file."""
    content = b"\n".join(lines) + b"\n" * has_end
    found = []
    for start in range(0, len(content), split):
        file = io.BytesIO(content)
        file.seek(first_byte(start))
        stretch = Stretch(file, start, min(start + split, len(content)))
        while some := stretch.read(chunk):
            found.append(some)
    assert b"".join(found) == content


def log(number: int, *sizes: int, name: str = "app") -> Found:
    files = tuple(f"file:/logs/{number}/events_{i}_{name}" for i in range(len(sizes)))
    return Found(Log(f"file:/logs/{number}", files, f"app-{number}"), sizes, moment(0))


def test_small_logs_are_read_whole_and_large_ones_by_stretches() -> None:
    """Plain files are cut, packed ones are not and hold more than they seem; one packed file cannot be shared out."""
    logs = [log(0, 99), log(1, 250), log(2, 90, 120), log(3, 400, name="x.zstd"), log(4, 10, 10, 10, name="y.zstd")]
    shares = share(logs, 100, 8)
    assert sorted(chain(*shares.small)) == [0, 3]
    assert sorted(chain(*shares.large)) == [1, 2, 4]
    assert [(u.log, u.part, u.path[-5], u.start, u.end) for u in shares.units if u.log < 4] == [
        (1, 0, "0", 0, 100),
        (1, 1, "0", 100, 200),
        (1, 2, "0", 200, 250),
        (2, 0, "0", 0, None),
        (2, 1, "1", 0, 100),
        (2, 2, "1", 100, 120),
    ]
    assert [(u.part, u.end) for u in shares.units if u.log == 4] == [(0, None), (1, None), (2, None)]


@given(st.lists(st.sampled_from([0, 1, 1 << 20, 1 << 33]), max_size=60), st.integers(1, 20))
def test_no_more_writers_than_connections(sizes: list[int], writers: int) -> None:
    """Every log has one writer; with a single connection small and large ones wait for each other."""
    shares = share([log(number, size) for number, size in enumerate(sizes)], 1 << 30, writers)
    assert len(shares.small) + len(shares.large) <= max(2, writers)
    assert sorted(chain(*shares.small, *shares.large)) == list(range(len(sizes)))


def test_a_missing_library_is_no_broken_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before anything is read; plain logs need none."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_libraries(["file:/logs/local-1", "file:/logs/local-2.lzf"])
    with pytest.raises(JoinsightError, match=r"zstandard .*joinsight\[eventlog\]"):
        check_libraries(["file:/logs/eventlog_v2_a/events_1_a.zstd.compact"])
