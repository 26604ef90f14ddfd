"""What native engines ran, and what Spark, with the conversions between them; what table formats read and wrote."""

from __future__ import annotations

from collections import Counter

from joinsight.analysis.stored import StoredPlan
from joinsight.analysis.table_formats import FORMATS
from joinsight.base.units import bytes_text, duration_text
from joinsight.plan import operators
from joinsight.plan.metrics import PlanMetrics
from joinsight.plan.outline import shortened
from joinsight.plan.rewritten import changed_rows
from joinsight.plan.table_files import table_files
from joinsight.present.tree import clean

_MOST = 6
"""Names of Spark's operators."""
_MOST_REASONS, _LONGEST_REASON = 3, 160
_NOT_COUNTED = ("codegen", "adapter", "query_stage", "shuffle_read", "reused_exchange", "reused_subquery", "subquery")


def own_reads_text(stored: StoredPlan) -> str:
    """``Delta's log: 1.3 s before the query, 812 ms in it``; empty if no table format read anything for itself."""
    found = []
    for what in FORMATS:
        before, within = stored.own_reads_ms(what)
        parts = [f"{duration_text(before)} before the query"] if before else []
        parts += [f"{duration_text(within)} in it"] if within else []
        found += [f"{what}: {', '.join(parts)}"] if parts else []
    return "; ".join(found)


def files_text(plan: PlanMetrics) -> str:
    """``16 of 40 files read (38.4 KiB), 4 files added (38.4 KiB)``; empty if no table format says it."""
    files = table_files(plan)
    if files is None:
        return ""
    read, added = files.read, files.added
    if not any((read, files.skipped, added, files.removed)):  # Iceberg commits what it compacts elsewhere
        return ""
    if files.removed and read == files.removed and not added:  # perhaps by the log alone, without reading them
        read = added = None
    parts = [
        (read, None if files.skipped is None else (read or 0) + files.skipped, "read", files.read_bytes),
        (added, None, "added", files.added_bytes),
        (files.removed, None, "removed", files.removed_bytes),
    ]
    return ", ".join(
        f"{count:,}{'' if of is None else f' of {of:,}'} file{'s' * ((of or count) != 1)} {done}{_size(size)}"
        for count, of, done, size in parts
        if count is not None
    )


def changed_text(plan: PlanMetrics) -> str:
    """``rows: 100 updated, 0 deleted, 19,900 copied without change``; empty if no table format says it."""
    rows = changed_rows(plan)
    if rows is None:
        return ""
    parts = [
        (rows.updated, "updated"),
        (rows.inserted, "inserted"),
        (rows.deleted, "deleted"),
        (rows.copied, "copied without change"),
    ]
    known = [f"{count:,} {done}" for count, done in parts if count is not None]
    return f"rows: {', '.join(known)}"


def _size(size: int | None) -> str:
    return "" if size is None else f" ({bytes_text(size)})"


def engine_text(stored: StoredPlan) -> str:
    """``Comet ran 9 of 10 operators, Spark ran Filter; 2 conversions ...``; empty if there was no engine."""
    absent = stored.not_run(stored.versions[-1]) if stored.versions else frozenset()
    ran: Counter[str] = Counter()
    of_spark: Counter[str] = Counter()
    conversions = []
    reasons: dict[str, str] = {}
    for node in stored.plan.graph.nodes:
        operator = operators.of(node.name)
        if operator.name in operators.CONVERSIONS:
            conversions.append(node.id)
        elif node.id in absent or node.is_cluster or operator.is_wrapper or operator.kind in _NOT_COUNTED:
            continue
        elif operator.engine:
            ran[operator.engine] += 1
        else:
            of_spark[clean(node.name)] += 1
            reason = stored.fallbacks.get(node.id, "")
            if any(map(str.isalpha, reason)):  # without literals, nothing may be left of it
                reasons.setdefault(reason, clean(node.name))
    if not ran and not reasons:
        return ""
    whole = ran.total() + of_spark.total()
    text = ", ".join(f"{engine} ran {number} of {whole} operators" for engine, number in ran.most_common())
    if not ran:
        text = "Comet ran no operator"
    if of_spark:
        names = [name if number == 1 else f"{number} {name}" for name, number in of_spark.most_common(_MOST)]
        more = len(of_spark) - len(names)
        text += f", Spark ran {', '.join(names)}{f' and {more} more' if more else ''}"
    if conversions:
        known = stored.breakdown.operators()
        took = sum(known[i].task_time_ms for i in conversions if i in known)
        number = "1 conversion" if len(conversions) == 1 else f"{len(conversions)} conversions"
        text += f"; {number} between rows and columns{f', {duration_text(took)} of task time' if took else ''}"
    for reason, name in list(reasons.items())[:_MOST_REASONS]:
        text += f"; {name} is Spark's: {shortened(reason, _LONGEST_REASON)}"
    return text
