"""``python -m joinsight.plan.engines_page docs/engines.md`` writes what is known of native engines into the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from joinsight.base.generated import rewrite
from joinsight.plan.engines import ENGINES, EXCHANGE_PART, FRAME
from joinsight.plan.operators import OPERATORS

_CALLED = {EXCHANGE_PART: "rest of a shuffle that is several operators", FRAME: "changes only the form of batches"}


def names() -> Iterator[str]:
    """The names of operators, by Spark's."""
    yield "| Spark's operator | in native engines |"
    yield "|---|---|"
    declared = {spark for engine in ENGINES for spark in engine.operators}
    known = [operator.name for operator in OPERATORS if operator.name in declared]
    for spark in (*known, *sorted(declared - set(known))):
        found = (
            f"{engine.name}: {', '.join(f'`{name}`' for name in engine.operators[spark])}"
            for engine in ENGINES
            if spark in engine.operators
        )
        yield f"| {_CALLED.get(spark, f'`{spark}`')} | {'<br>'.join(found)} |"


def metrics() -> Iterator[str]:
    """The metrics with names of an engine's own."""
    yield "| engine | operators | its metric | read as Spark's |"
    yield "|---|---|---|---|"
    for engine in ENGINES:
        for kind, renamed in engine.metrics.items():
            for own, spark in renamed.items():
                meaning = f"`{spark}`" if spark else "not read: it counts something else"
                yield f"| {engine.name} | {kind.replace('_', ' ') or 'all'} | `{own}` | {meaning} |"


def unknown() -> Iterator[str]:
    """What stays NULL."""
    yield "| engine | NULL |"
    yield "|---|---|"
    for engine in ENGINES:
        yield f"| {engine.name} | {engine.unknown} |"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    for name, table in (("names", names), ("metrics", metrics), ("unknown", unknown)):
        rewrite(page, name, table())
