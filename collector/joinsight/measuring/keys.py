"""Names the hottest keys of a join or shuffle that was measured: asked of the data, in the user's session.

The rows that reached the operator are read again from the execution's optimized logical plan, so that filters and
projections below are kept, and only the key columns are read. Key values may be personal data: they are in the answer
alone, and never become a part of a plan, whose text logs and listeners have.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from joinsight.analysis.rows import Rows
from joinsight.analysis.stored import stored_plan
from joinsight.base.errors import JoinsightError
from joinsight.measuring import logical
from joinsight.measuring.key_counts import MOST, OUTPUT, SAMPLE, KeyCounts, count
from joinsight.plan import operators
from joinsight.tables import JoinRow, ShuffleRow
from joinsight.terminal.console import text_console
from joinsight.terminal.table import Column, lines
from joinsight.verdict import names
from joinsight.verdict.view import View

_DEFAULTS: tuple[Any, ...] = ("", 0, -1, "0", "-1", "null", "NULL", "unknown", "N/A", "n/a")


@dataclass(frozen=True)
class HotKeys:
    """The most frequent keys of a join or shuffle."""

    title: str
    """``the join on customer_id``."""
    node_id: int
    """Its node in the final plan."""
    keys: Sequence[Mapping[str, Any]]
    """``{"side", "key", "rows", "share"}``, largest first: a side is left, right or (of a shuffle) input; `key` has the
    value of each key column by its name, None for NULL; `share` is that of the side's rows, 0 to 1."""
    output: Sequence[Mapping[str, Any]]
    """A join's ``{"key", "left_rows", "right_rows", "rows", "share"}``, largest first: how many rows of its output a
    key makes, by the left side's names, and their share of all that it made; None if that is not known. Empty for
    shuffles."""
    rows: Mapping[str, int]
    """All rows of each side."""
    notes: Sequence[str]
    """Sentences on what to know about these numbers."""
    has_hot_key: bool = True
    """Whether a key has far more rows than others, or makes a large part of the output."""

    def __str__(self) -> str:
        text = io.StringIO()
        out = text_console(text)
        out.print(f"{self._head()}", soft_wrap=True)
        for table in self._tables():
            for line in lines(table, None):
                out.print(line, soft_wrap=True)
        return "\n".join([text.getvalue().rstrip("\n"), *self.notes])

    def __repr__(self) -> str:
        return f"<hot keys of {self.title}>"  # values only where somebody looks at them: a repr ends in logs

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        tables = "".join(map(_html_table, self._tables()))
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p>{html.escape(self._head())}</p>{tables}{notes}"

    def _head(self) -> str:
        sides = (f"{'' if side == 'input' else side + ' '}{number:,} rows" for side, number in self.rows.items())
        return f"The hottest keys of {self.title}: {', '.join(sides)}."

    def _tables(self) -> list[list[Column]]:
        found = [
            [
                Column("side", [each["side"] for each in self.keys]),
                Column("key", [key_text(each["key"]) for each in self.keys]),
                Column("rows", [f"{each['rows']:,}" for each in self.keys], right=True),
                Column("share", [percent(each["share"]) for each in self.keys], right=True),
            ]
        ]
        if self.output:
            found.append(
                [
                    Column("output of key", [key_text(each["key"]) for each in self.output]),
                    Column("left rows", [f"{each['left_rows']:,}" for each in self.output], right=True),
                    Column("right rows", [f"{each['right_rows']:,}" for each in self.output], right=True),
                    Column("output rows", [f"{each['rows']:,}" for each in self.output], right=True),
                    Column("share", [percent(each["share"]) for each in self.output], right=True),
                ]
            )
        return found


def percent(share: float | None) -> str:
    """``40.1 %``; empty for None."""
    return "" if share is None else f"{100 * share:.1f} %"


def key_text(key: Mapping[str, Any]) -> str:
    """``customer_id = NULL, day = 2026-01-31``; an empty text and other values that stand for none are named."""
    return ", ".join(f"{name} = {_value_text(value)}" for name, value in key.items())


def _value_text(value: Any) -> str:
    if value is None:
        return "NULL"
    if value == "":
        return "'' (empty text)"
    text = repr(value) if isinstance(value, str | bytes) else str(value)
    return f"{text} (a default?)" if value in _DEFAULTS and not isinstance(value, bool) else text


def _html_table(columns: Sequence[Column]) -> str:
    head = "".join(f"<th>{html.escape(column.header)}</th>" for column in columns)
    body = []
    for cells in zip(*(column.cells for column in columns), strict=True):
        shown = [f"<td>{html.escape(str(cell))}</td>" for cell in cells[:-1]]
        width = str(cells[-1]).removesuffix(" %") or "0"
        bar = f'<div style="width:{width}%;min-width:1px;height:0.7em;background:#c0504d"></div>'
        shown.append(f'<td style="min-width:10em">{html.escape(str(cells[-1]))}{bar}</td>')
        body.append(f"<tr>{''.join(shown)}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def candidates(rows: Rows) -> list[tuple[tuple[float, int], int]]:
    """The joins and shuffles of an execution that have keys, as pairs of how skewed and node id.

    How skewed: the rows that the largest task read beyond the mean, or that a join made beyond those of its larger
    side; then the rows that went in. What AQE split comes first: its largest tasks are small again.
    """
    shuffles = {row.node_id: row for row in rows.shuffle}
    found = []
    for join in rows.joins:
        if not join.left_keys:
            continue
        read = [shuffles[i] for i in (join.left_exchange, join.right_exchange) if i in shuffles]
        largest = max(join.left_rows or 0, join.right_rows or 0)
        excess = max([(join.output_rows or 0) - largest, *map(_excess, read)])
        split = join.is_skew or any(row.aqe_skewed_partitions for row in read)
        found.append(
            ((float("inf") if split else excess, (join.left_rows or 0) + (join.right_rows or 0)), join.node_id)
        )
    for row in rows.shuffle:
        if row.keys and not row.join_nodes:
            split = bool(row.aqe_skewed_partitions)
            found.append(((float("inf") if split else _excess(row), row.rows_written or 0), row.node_id))
    return sorted(found, reverse=True)


def _excess(row: ShuffleRow) -> float:
    return max(0.0, (row.rows_read_max or 0) - mean_rows_read(row))


def mean_rows_read(row: ShuffleRow) -> float:
    """The rows of a shuffle that a task read, on average."""
    return float((row.rows_read or 0) / max(1, row.aqe_partitions or row.partitions or 1))


def hot_keys(rows: Rows, plans: Any, node_id: int | None) -> HotKeys:
    """The hottest keys of an operator of an execution; None: of the most skewed one of which they can be read.

    Raises `JoinsightError` if it has no keys, or if its rows cannot be found in the session's plan.
    """
    if node_id is not None:
        return _ask(rows, plans, node_id)
    problem = JoinsightError(f"Execution {rows.execution.execution_id} has no join or shuffle with keys.")
    return hottest((partial(_ask, rows, plans, each) for _, each in candidates(rows)), problem)


def hottest(asks: Iterable[Callable[[], HotKeys]], problem: JoinsightError) -> HotKeys:
    """Ask about operators until one has a hot key, but about three at most: then the first answer counts.

    Raises the last error if none can be asked, or `problem` if there are none.
    """
    first = None
    answers = 0
    for ask in asks:
        try:
            found = ask()
        except NotInPlan as error:
            problem = error
            continue
        if found.has_hot_key:
            return found
        first = first or found
        answers += 1
        if answers == _MOST_ASKED:
            break
    if first is None:
        raise problem
    return first


_MOST_ASKED = 3
_MOST_REASON = 200


class NotInPlan(JoinsightError):
    """The operator's rows cannot be found in the session's plan."""


def _ask(rows: Rows, plans: Any, node_id: int) -> HotKeys:
    number = rows.execution.execution_id
    plan = None if plans is None else plans.plan(number)
    if plan is None:
        raise NotInPlan(
            f"The plan of execution {number} is not available: it had not ended when the measurement did, or more than"
            f" 100 executions followed. joinsight keys prints the code for a stored run."
        )
    view = View(stored_plan(rows))
    if node_id not in view.plan.nodes:
        raise JoinsightError(f"Execution {number} has no node {node_id} in its final plan.")
    title = names.operator(view, node_id)
    join, only = _join_of(rows, node_id)
    if join is not None:
        found = logical.find_join(plan, join.left_keys or (), join.right_keys or ())
    else:
        shuffle = next((row for row in rows.shuffle if row.node_id == node_id), None)
        if shuffle is None or not shuffle.keys:
            raise JoinsightError(f"Node {node_id} ({title}) is not a join or shuffle with keys.")
        found = logical.find_input(plan, shuffle.keys, _consumer(view, node_id))
    if found is None:
        raise NotInPlan(
            f"The rows of {title} (node {node_id}) cannot be found in the query's logical plan; it may be inside a"
            " cached DataFrame or a query of its own. Measure that DataFrame, or count its keys with groupBy."
        )
    from py4j.protocol import Py4JJavaError  # here, because this needs no Spark to be imported

    try:
        counts = count(
            plans.session(number),
            found,
            join.join_type if join else None,
            _sizes(view, node_id, join),
            max((view.rows(each.id) or 0 for each in view.below(node_id)), default=0) or None,
            join.output_rows if join else None,
        )
    except Py4JJavaError as error:  # Spark 3.5 cannot plan some cached DataFrames that are sorted
        reason = str(error.java_exception.toString()).partition("\n")[0][:_MOST_REASON]
        raise NotInPlan(
            f"Spark cannot read the rows of {title} (node {node_id}) again: {reason}. Count its keys with groupBy."
        ) from error
    sides = [side for side in found.sides if only in (None, side.name)]
    keys = sorted(
        (each for side in sides for each in _side_keys(side, counts)), key=lambda each: (-each["rows"], -each["share"])
    )
    made = None if join is None or found.has_condition else join.output_rows
    output = _output_keys(found, counts, made) if join is not None and only is None else []
    return HotKeys(
        title,
        node_id,
        keys,
        output,
        {side.name: counts.rows[side.name] for side in sides},
        list(_notes(sides, found, counts, keys, only)),
        any(_is_hot(side.name, keys, counts) for side in sides) or _makes_much(output, counts),
    )


def _is_hot(side: str, keys: Sequence[Mapping[str, Any]], counts: KeyCounts) -> bool:
    """Whether the first key of a side has half of the rows, or three times those of a mean or another named key."""
    rows = [each["rows"] for each in keys if each["side"] == side]
    if not rows:
        return False
    share = rows[0] / counts.rows[side]
    usual = min(rows[-1], counts.rows[side] / max(1, counts.keys[side]))
    return bool(share >= _HALF or (share >= _LEAST_SHARE and rows[0] >= _FACTOR * usual))


def _makes_much(output: Sequence[Mapping[str, Any]], counts: KeyCounts) -> bool:
    """Whether a key makes a large part of an output that has more rows than the larger input."""
    if not output or output[0]["share"] is None:
        return False
    made = output[0]["rows"] / max(output[0]["share"], 1e-9)
    return bool(output[0]["share"] >= _LEAST_OUTPUT and made > max(counts.rows.values()))


_HALF, _LEAST_SHARE, _LEAST_OUTPUT = 0.5, 0.01, 0.05
_FACTOR = 3


def _sizes(view: View, node_id: int, join: JoinRow | None) -> list[int | None]:
    """Rows of each side, as far as they were measured."""
    if join is not None:
        return [join.left_rows, join.right_rows]
    counted: list[int] = []
    for each in view.below(node_id):  # those of the same stage: a partial aggregation makes fewer
        if operators.of(each.name).is_exchange:
            break
        counted.append(view.rows(each.id) or 0)
    return [max(counted, default=0) or None]


def _side_keys(side: logical.Side, counts: KeyCounts) -> list[dict[str, Any]]:
    most = sorted(counts.by_key, key=lambda pair: -pair[1][side.name])[:MOST]
    whole = counts.rows[side.name]
    return [
        {
            "side": side.name,
            "key": dict(zip(side.names, key, strict=True)),
            "rows": each[side.name],
            "share": each[side.name] / whole,
        }
        for key, each in most
        if each[side.name]
    ]


def _output_keys(found: logical.Found, counts: KeyCounts, made: int | None) -> list[dict[str, Any]]:
    most = sorted(counts.by_key, key=lambda pair: -pair[1][OUTPUT])[:MOST]
    return [
        {
            "key": dict(zip(found.sides[0].names, key, strict=True)),
            "left_rows": each["left"],
            "right_rows": each["right"],
            "rows": each[OUTPUT],
            "share": min(1.0, each[OUTPUT] / made) if made else None,
        }
        for key, each in most
        if each[OUTPUT]
    ]


def _join_of(rows: Rows, node_id: int) -> tuple[JoinRow | None, str | None]:
    """The join that a node is, or feeds as an exchange: then with the side."""
    for join in rows.joins:
        if not join.left_keys:
            continue
        if join.node_id == node_id:
            return join, None
        for side, exchange in (("left", join.left_exchange), ("right", join.right_exchange)):
            if exchange == node_id:
                return join, side
    return None, None


def _consumer(view: View, node_id: int) -> str:
    """The name of the operator that reads a shuffle; empty: the query asked for the shuffle itself."""
    node = view.plan.nodes[node_id]
    if "REPARTITION" in node.simple:
        return ""
    for above in view.above(node_id):
        name = view.plan.nodes[above].name
        if view.is_work(above) and (operators.of(name).kind != "sort" or "rangepartitioning" in node.simple):
            return name
    return ""


def _notes(
    sides: Sequence[logical.Side],
    found: logical.Found,
    counts: KeyCounts,
    keys: Sequence[Mapping[str, Any]],
    only: str | None,
) -> Iterator[str]:
    sampled = [side.name for side in sides if side.name in counts.sampled]
    if sampled:
        of = "" if sampled == ["input"] else f" of the {' and the '.join(sampled)} side"
        yield f"Rows and shares{of} are estimated from a sample of {SAMPLE:,} rows; shares by 0.3 points at most."
    if any(side.python for side in sides):
        yield (
            "Python functions make these rows, and ran again for this answer. To ask more than once, cache or"
            " checkpoint the DataFrame above them."
        )
    if not all(side.is_deterministic for side in sides):
        yield (
            "The rows come from non-deterministic expressions or a sample, so they may differ from those that were"
            " measured. To ask about the same rows, checkpoint the DataFrame before the join or shuffle."
        )
    if found.has_condition and only is None:
        yield "The join compares more than these keys, so its output has at most these rows."
    for side in sides:
        hottest = next((each for each in keys if each["side"] == side.name), None)
        if hottest is None:
            continue
        equal = found.null_safe or [False] * len(side.keys)
        nulls = [value is None and not safe for value, safe in zip(hottest["key"].values(), equal, strict=True)]
        if any(nulls) and hottest["share"] > 0.05:
            where = "" if side.name == "input" else f" of the {side.name} side"
            yield (
                f"NULL is the most frequent key{where}. If these rows can match nothing, filter them out before the"
                " join, or join them apart."
            )
