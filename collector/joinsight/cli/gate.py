"""`joinsight gate`: compares the queries of a branch with those of main, for continuous integration."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from joinsight.base.errors import ConfigurationError
from joinsight.cli.options import Moment, command

if TYPE_CHECKING:
    from joinsight.gate.runs import QueryRun

CHANGED = 3
"""The exit code for changes that nobody has accepted; 1 and 2 are errors."""
INCONCLUSIVE = 4
"""The exit code if it can't be said whether something changed."""


@command()
@click.argument("base")
@click.argument("head")
@click.option("--since", metavar="TIME", type=Moment(), help="Of databases: runs since then.  [default: 30d]")
@click.option("--job", "jobs", metavar="NAME", multiple=True, help="Only this job; may be given several times.")
@click.option(
    "--shuffle-growth",
    metavar="PERCENT",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Growth of shuffled bytes that counts as a change, if at least 1 MiB.",
)
@click.option("--accepted", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Accepted changes.")
@click.option("--accept", is_flag=True, help="Add all changes to the file of accepted ones.")
@click.option(
    "--advice",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Advice that try_advice has accepted; a query of HEAD without it is a change.",
)
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML, too.")
def gate(**options: Any) -> None:
    """Compare the queries of a branch with those of main, for CI.

    BASE and HEAD are files that pytest --joinsight-record or measured.save wrote, URLs of PostgreSQL servers, or
    folders of embedded ones; of these the last run of each query of a job counts. Prints Markdown. Exits with 3 if
    plans or shuffled bytes changed and nobody has accepted that, else with 4 if a query could not be compared.
    """
    sys.exit(_gate(**options))


def _gate(
    base: str,
    head: str,
    since: datetime | None,
    jobs: Sequence[str],
    shuffle_growth: int,
    accepted: Path | None,
    accept: bool,
    advice: Path | None,
    junit: Path | None,
) -> int:
    from joinsight.contract.accepted_advice import read_file
    from joinsight.gate.accepted import is_accepted, read_accepted, write_accepted
    from joinsight.gate.pairs import pairs
    from joinsight.gate.report import PairResult, are_inconclusive, junit_xml, markdown

    if accept and accepted is None:
        raise ConfigurationError("--accept", True, "no file is named", "Name one with --accepted FILE.")
    since = since or datetime.now(timezone.utc) - timedelta(days=30)
    growth = 1 + shuffle_growth / 100
    known = read_accepted(accepted) if accepted else []
    advised = read_file(advice) if advice else []
    found = [
        (pair, [*pair.changes(growth), *pair.without(advised)])
        for pair in pairs(_runs("BASE", base, since, jobs), _runs("HEAD", head, since, jobs))
    ]
    if accept and accepted:
        known = write_accepted(accepted, known, [pair for pair, changes in found if changes], growth)
    verdicts = [
        PairResult(pair, changes, is_accepted(known, pair, growth), pair.doubts(growth)) for pair, changes in found
    ]
    if junit:
        try:
            junit.write_bytes(junit_xml(verdicts))
        except OSError as error:
            raise ConfigurationError("--junit", str(junit), str(error), "Name a file that can be written.") from None
    click.echo(markdown(verdicts), nl=False)
    if any(each.is_open for each in verdicts):
        return CHANGED
    return INCONCLUSIVE if are_inconclusive(verdicts) else 0


def _runs(name: str, side: str, since: datetime, jobs: Sequence[str]) -> list[QueryRun]:
    """The runs of one side; raises `ConfigurationError` if there are none."""
    from joinsight.gate.runs import read_database, read_file
    from joinsight.store.database import check_schema, open_database, shown_url

    path, shown = Path(side), side
    if "://" not in side and not path.is_dir():
        found = [run for run in read_file(path) if not jobs or run.job in jobs]
    else:
        place = (side, None) if "://" in side else (None, path)
        with open_database(*place) as engine:
            check_schema(engine)
            shown = shown_url(engine.url)
            found = read_database(engine, since, jobs)
    if not found:
        raise ConfigurationError(name, shown, "no queries found", "Check --since and --job.")
    return found
