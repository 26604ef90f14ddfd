"""The file of accepted changes: a JSON list, one object for each change, which people read, explain and shorten."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from joinsight.base.errors import ConfigurationError
from joinsight.base.files import write_whole
from joinsight.gate.pairs import QueryPair


class Accepted(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A change that somebody has accepted."""

    job: str
    query: str
    """Its title, for people."""
    change: list[str]
    """The sentences, for people."""
    plans: str
    """The key of both plans, `Pair.plans`."""
    shuffle_bytes: int | None = None
    """Shuffled bytes of the newer side; `gate` allows as much growth over them as anywhere."""
    why: str = ""
    """For people."""

    def covers(self, pair: QueryPair, growth: float) -> bool:
        """Whether this is the change of the pair."""
        if (self.job, self.plans) != (pair.job, pair.plans) or pair.run.error is not None:
            return False
        shuffled = pair.run.numbers["shuffle_write_bytes"]
        return shuffled is None or self.shuffle_bytes is None or shuffled <= self.shuffle_bytes * growth


def read_accepted(path: Path) -> list[Accepted]:
    """The accepted changes; none if there is no such file. Raises `ConfigurationError` for another file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Accepted])
    except FileNotFoundError:
        return []
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError("--accepted", str(path), str(error), "joinsight gate --accept writes it.") from None


def is_accepted(known: Iterable[Accepted], pair: QueryPair, growth: float) -> bool:
    """Whether one of these is the change of the pair."""
    return any(each.covers(pair, growth) for each in known)


def write_accepted(path: Path, known: Sequence[Accepted], pairs: Iterable[QueryPair], growth: float) -> list[Accepted]:
    """Add these changes to the file, whole or not at all, and give all that it has then.

    A change that was accepted with fewer bytes is replaced, and keeps its reason. A query that fails cannot be
    accepted. Raises `ConfigurationError` if the file cannot be written.
    """
    new = [
        Accepted(pair.job, pair.title, pair.changes(growth), pair.plans, pair.run.numbers["shuffle_write_bytes"])
        for pair in pairs
        if pair.run.error is None and not is_accepted(known, pair, growth)
    ]
    reasons = {(each.job, each.plans): each.why for each in known}
    for each in new:
        each.why = reasons.get((each.job, each.plans), "")
    replaced = {(each.job, each.plans) for each in new}
    kept = [each for each in known if (each.job, each.plans) not in replaced]
    every = [*kept, *new]
    text = msgspec.json.format(msgspec.json.encode(every), indent=2) + b"\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise ConfigurationError("--accepted", str(path), str(error), "Name a file that can be written.") from None
    return every
