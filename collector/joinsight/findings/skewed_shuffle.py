"""A shuffle of which one task reads many times what the median task does, so that the others wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from joinsight.findings.finding import Case, Finding, Heuristic
from joinsight.findings.phrases import shuffle, times
from joinsight.findings.skew import Skew, evidence, is_hidden, skews, waited_ms
from joinsight.tables import ShuffleRow


def look(case: Case) -> Iterator[Finding]:
    """Where a stage reads several shuffles, the one of which a task read most is named."""
    for skew in skews(case):
        if is_hidden(case, skew):
            continue  # hidden-skew
        row = skew.shuffle
        yield Finding(
            HEURISTIC.id,
            "warning",
            f"{title(skew)}.",
            evidence(skew),
            _advice(case, row),
            row.node_id,
            row.operator_key,
            impact_ms=waited_ms(skew.stage),
            waited=case.waited_for_tail(skew.stage),
        )


def title(skew: Skew) -> str:
    """``Of 16 tasks that read the shuffle by customer_id, one read ...``."""
    spread = skew.spread
    median = "half of them none"
    if spread.median:
        median = f"{times(spread.ratio)} the median ({spread.text(spread.median)})"
    read = spread.text(spread.max) + (f" of the {skew.shuffles} shuffles of its stage" if skew.shuffles > 1 else "")
    return f"Of {skew.stage.tasks:,} tasks that read {shuffle(skew.shuffle)}, one read {read}, {median}"


def _advice(case: Case, row: ShuffleRow) -> str:
    keys = "Find the key value that most rows have; NULL and a default are the usual ones."
    if not row.join_nodes:
        return f"{keys} Aggregate such rows in two steps: by the key and a random number, then by the key."
    if not case.execution.is_adaptive:
        return f"{keys} Set spark.sql.adaptive.enabled=true: AQE splits skewed partitions of joins."
    return (
        f"{keys} Join such rows separately. AQE splits partitions of joins over"
        " spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes and skewedPartitionFactor times the median,"
        " unless that would need another shuffle (spark.sql.adaptive.forceOptimizeSkewedJoin=true)."
    )


HEURISTIC = Heuristic("skewed-shuffle", look, "the [tail](critical-path.md) of the stage that reads the shuffle")
