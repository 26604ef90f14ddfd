"""Tries what the findings and the verdict of a query propose, on the full data, in the user's own session.

Each variant runs in a clone of the session with settings or a plan of its own, so that the session itself never
changes, one variant after the other, those for what takes most of the time first. Its result must be that of the
baseline. Then both run in turns until the test of `paired_test` has decided, nothing speaks for the variant any more,
or the budget is spent.
"""

from __future__ import annotations

import html
import inspect
import io
import itertools
import math
import os
import statistics
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from numbers import Real
from pathlib import Path
from typing import Any

from joinsight.analysis.rows import Rows
from joinsight.base.errors import JoinsightError
from joinsight.base.units import duration_text
from joinsight.contract.accepted_advice import AcceptedAdvice, add_to_file
from joinsight.driver.attach import classic_context
from joinsight.measuring import logical
from joinsight.measuring.only_reads import only_reads, refuse_commands
from joinsight.measuring.paired_test import LEAST_SAVING, Pairs, interval, is_faster, is_hopeless, log_ratio, together
from joinsight.measuring.proposals import SHUFFLED_TWICE, Execution, Proposal, Run, caching, proposals
from joinsight.measuring.results import Result, result_of
from joinsight.measuring.rewrite import Plans, repeated
from joinsight.plan import operators
from joinsight.plan.engines import THREADED
from joinsight.terminal.console import text_console
from joinsight.terminal.table import Column, lines

_MOST_PAIRS = 20
_FIRST_PAIRS = 3
"""Pairs of a variant before the next one is tried, so that one which saves little does not take all of the budget."""
_MOVED = 0.9
"""A number moved if it is at most this part of the baseline's."""
_DOUBT = 0.1
"""How much of what tasks waited for processors may be in the nature of a variant, and not chance."""
_PATIENCE = 3.0
"""A run that takes this many times as long as the baseline's is stopped."""
_LEAST_LIMIT_S = 10.0
_CANCEL_AGAIN_S = 0.5
_INTERRUPTED_S = 5.0
"""After Ctrl-C, how long to wait for a query to end."""
_DESCRIPTION = "joinsight: trying advice"
_TAKES_ROWS = (operators.GLOBAL_LIMIT, "Offset")


Measure = Callable[[Any], Any]
"""Makes the context manager that measures a block: `measurement.Measured`."""


class Stopped(JoinsightError):
    """A run took too long."""


@dataclass(frozen=True)
class Advice:
    """What was tried. Entries are ``{"variant", "code", "saved_ms", "low_ms", "high_ms", "reason", "same_result"}``:
    what was changed, how to do it, the expected saving of wall time with its 95 % interval in milliseconds (None: not
    measured), why it was accepted or refused, and whether the result was the same (None: not compared)."""

    accepted: Sequence[Mapping[str, Any]]
    """The largest saving first."""
    refused: Sequence[Mapping[str, Any]]
    baseline_ms: int
    """Wall time of the query as it is, the median, milliseconds."""
    runs: int
    """How often the query ran, in all variants."""
    notes: Sequence[str] = ()
    entries: Sequence[AcceptedAdvice] = ()
    """The accepted variants as `save` writes them."""

    def save(self, path: str | os.PathLike[str] = "joinsight-advice.toml") -> None:
        """Add the accepted variants to a file, which `joinsight.attach` takes as `advice`; an older entry of an
        operator and variant is replaced. Raises `ConfigurationError` for a file that cannot be read or written."""
        add_to_file(Path(path), self.entries)

    def __str__(self) -> str:
        text = io.StringIO()
        out = text_console(text)
        out.print(self._head(), soft_wrap=True)
        if self.accepted:
            for line in lines(self._table(), None):
                out.print(line, soft_wrap=True)
        shown = [text.getvalue().rstrip("\n")]
        for each in self.accepted:
            shown += [f"\n{each['variant']}: {each['reason']}", *(f"    {line}" for line in each["code"].splitlines())]
        if self.refused:
            shown += ["\nRefused:", *(f"  {each['variant']}: {each['reason']}" for each in self.refused)]
        return "\n".join([*shown, *self.notes])

    def __repr__(self) -> str:
        return f"<advice: {len(self.accepted)} accepted, {len(self.refused)} refused>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        rows = []
        for is_accepted, each in [*((True, one) for one in self.accepted), *((False, one) for one in self.refused)]:
            saved = "" if each["saved_ms"] is None else _saving_text(each)
            part = max(0.0, min(1.0, (each["saved_ms"] or 0) / max(1, self.baseline_ms)))
            color = "#3a7d44" if is_accepted else "#999"
            bar = f'<div style="width:{100 * part:.1f}%;min-width:1px;height:0.7em;background:{color}"></div>'
            code = f"<pre>{html.escape(each['code'])}</pre>" if is_accepted else ""
            rows.append(
                f"<tr><td>{'accepted' if is_accepted else 'refused'}</td><td>{html.escape(each['variant'])}{code}</td>"
                f'<td style="min-width:12em">{html.escape(saved)}{bar}</td><td>{html.escape(each["reason"])}</td></tr>'
            )
        head = "<tr><th></th><th>variant</th><th>saved</th><th>why</th></tr>"
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p>{html.escape(self._head())}</p><table>{head}{''.join(rows)}</table>{notes}"

    def _head(self) -> str:
        if not self.accepted and not self.refused:
            its = duration_text(self.baseline_ms)
            return f"Nothing to try: no join, finding or verdict proposes a variant. The query takes {its}."
        return (
            f"{len(self.accepted)} of {len(self.accepted) + len(self.refused)} variants accepted, in {self.runs} runs."
            f" As it is, the query takes {duration_text(self.baseline_ms)}."
        )

    def _table(self) -> list[Column]:
        return [
            Column("accepted", [each["variant"] for each in self.accepted]),
            Column("saves", [_saving_text(each) for each in self.accepted], right=True),
        ]


def _saving_text(each: Mapping[str, Any]) -> str:
    if each["low_ms"] is None or each["high_ms"] is None:
        return _ms_text(each["saved_ms"])
    return f"{_ms_text(each['saved_ms'])} ({_ms_text(each['low_ms'])} to {_ms_text(each['high_ms'])})"


def _ms_text(ms: int) -> str:
    return f"-{duration_text(-ms)}" if ms < 0 else duration_text(ms)


def try_advice(measure: Measure, session: Any, query: Any, budget_s: float) -> Advice:
    """Implements `joinsight.try_advice`; `measure` makes the measurement of a run in a context."""
    from pyspark.sql import DataFrame

    context = classic_context(session)
    check_budget(budget_s)
    frame = query
    if not isinstance(query, DataFrame) and callable(query):
        with only_reads(), measure(context) as ran:
            frame = query(session) if _takes_session(query) else query()
        if not isinstance(frame, DataFrame) and ran.executions:
            advice: Advice = max(ran.executions, key=lambda each: each.duration_ms or 0).try_(budget_s)
            return advice
    if not isinstance(frame, DataFrame):
        raise JoinsightError(
            f"{type(frame).__name__} is not a DataFrame: give one, or a function that returns one or runs a query."
        )
    analyzed = frame._jdf.queryExecution().analyzed()
    return _Trials(measure, context, frame.sparkSession._jsparkSession, analyzed, budget_s).run()


def check_budget(budget_s: Any) -> None:
    """Raise `JoinsightError` if it is not a number of seconds."""
    if isinstance(budget_s, bool) or not isinstance(budget_s, Real) or not float(budget_s) > 0:
        raise JoinsightError(f"budget_s={budget_s!r} is not a number of seconds above 0.")


def _takes_session(query: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(query).parameters.values()
    except ValueError:
        return False
    required = (each for each in parameters if each.default is each.empty)
    return any(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in required)


def try_execution(
    measure: Measure, context: Any, plans: Any, execution_id: int, operator_key: str | None, budget_s: float
) -> Advice:
    """Try what is proposed for an operator, None for all, of an execution that was measured; for `try_`.

    Raises `JoinsightError`, also if the plan of the execution is not kept.
    """
    check_budget(budget_s)
    plan = None if plans is None else plans.plan(execution_id)
    if plan is None:
        raise JoinsightError(f"The plan of execution {execution_id} is not available: use joinsight.try_advice.")
    while operators.is_write(logical.class_name(plan)) and plan.children().size() == 1:
        plan = plan.children().apply(0)
    plan.setAnalyzed()  # an optimized plan has what the analyzer would refuse
    return _Trials(measure, context, plans.session(execution_id), plan, budget_s, operator_key).run()


@dataclass
class _Candidate:
    proposal: Proposal
    frame: Any
    pairs: list[tuple[Run, Run]] = field(default_factory=list)
    """Runs of the baseline and the variant."""

    def compared(self, baseline: Sequence[Run]) -> tuple[Pairs, Pairs]:
        """By wall time, and by what it would be if tasks had not waited for processors; `baseline` are runs of it."""
        walls, calms = ([log_ratio(of(one), of(other)) for one, other in self.pairs] for of in (_wall_ms, _calm_ms))
        noises = (
            [log_ratio(of(one), of(other)) for one, other in itertools.pairwise(baseline)]
            for of in (_wall_ms, _calm_ms)
        )
        doubts = (_DOUBT * math.log(_stretch(one) * _stretch(other)) / 2 for one, other in self.pairs)
        careful = [ratio - doubt for ratio, doubt in zip(calms, doubts, strict=True)]
        wall, calm = (Pairs(ratios, noise) for ratios, noise in zip((walls, careful), noises, strict=True))
        return wall, calm

    def number_before_and_after(self) -> tuple[float, float]:
        """What the proposal should lower, in runs of the baseline and of the variant: medians."""
        number = self.proposal.number
        assert number is not None
        before, after = (statistics.median(number.of(pair[i]) for pair in self.pairs) for i in (0, 1))
        return before, after

    def moved(self) -> str:
        """The same as text."""
        number = self.proposal.number
        assert number is not None
        before, after = map(round, self.number_before_and_after())
        return f"{number.name} {number.text(before)} before, {number.text(after)} after"


@dataclass(frozen=True)
class _Decided:
    """What came of a proposal; no candidate: it was not run in pairs."""

    proposal: Proposal
    reason: str
    same_result: bool | None
    candidate: _Candidate | None


class _Trials:
    """The runs of one query."""

    def __init__(
        self,
        measure: Measure,
        context: Any,
        java_session: Any,
        plan: Any,
        budget_s: float,
        operator_key: str | None = None,
    ) -> None:
        refuse_commands(context, plan)
        if plan.isStreaming():
            raise JoinsightError("A streaming DataFrame cannot be tried: give a query of rows that are there.")
        self._measure = measure
        self._context, self._java_session, self._plan = context, java_session, plan
        self._deadline = time.monotonic() + budget_s
        self._budget_s, self._operator_key = budget_s, operator_key
        self._plans = Plans(context)
        self._accepted: list[_Decided] = []
        self._refused: list[_Decided] = []
        self._baseline: list[Run] = []
        self._is_repeatable: bool | None = None
        self._longest_s = math.inf
        self._runs = 0

    def run(self) -> Advice:
        with self._in_group():
            self._run()
        baseline_ms = round(statistics.median(map(_wall_ms, self._warm or self._baseline)))
        accepted, refused = (
            [(each.proposal, _entry(each, baseline_ms, self._warm)) for each in decided]
            for decided in (self._accepted, self._refused)
        )
        accepted.sort(key=lambda pair: -pair[1]["saved_ms"])
        notes = ["Variants were tried one by one; together they may save less."] if len(accepted) > 1 else []
        entries = [_accepted_advice(self._rows, *pair) for pair in accepted]
        return Advice(
            [its for _, its in accepted],
            [its for _, its in refused],
            baseline_ms,
            self._runs,
            notes,
            [each for each in entries if each is not None],
        )

    @property
    def _warm(self) -> list[Run]:
        """Its runs but the first, which made the proposals: in a new JVM, it takes far longer than the next ones."""
        return self._baseline[1:]

    def _run(self) -> None:
        baseline = self._frame({}, None)
        try:
            expected = self._limited(lambda: result_of(baseline))
            started = time.monotonic()
            first = self._timed(baseline)
            took_s = time.monotonic() - started
        except Stopped:
            raise JoinsightError(
                f"budget_s={self._budget_s:g} is too small: the query did not even run twice in that time."
            ) from None
        self._baseline.append(first)
        self._longest_s = max(_LEAST_LIMIT_S, _PATIENCE * took_s)
        execution = max(first.executions, key=lambda each: each.rows.execution.duration_ms or 0)
        self._rows = execution.rows
        wanted = {row.node_id for row in execution.rows.plan_node if self._operator_key in (None, row.operator_key)}
        undecided: list[_Candidate] = []
        for proposal in self._proposals(execution):
            if proposal.nodes and not wanted.intersection(proposal.nodes):
                continue
            if proposal.number is None:
                self._refuse(proposal, proposal.described, None)
            elif not self._is_time_for_a_run():
                self._refuse(proposal, self._too_small(), None)
            elif (candidate := self._candidate(proposal, baseline, expected)) is not None:
                for _ in range(_FIRST_PAIRS):
                    if not self._goes_on(candidate, baseline):
                        break
                else:
                    undecided.append(candidate)
        while undecided:  # those that the first pairs speak for most
            candidate = max(undecided, key=lambda each: together(*each.compared(self._warm)))
            if not self._goes_on(candidate, baseline):
                undecided.remove(candidate)

    def _proposals(self, execution: Execution) -> list[Proposal]:
        found = proposals(execution)
        _, again = repeated(self._plan, self._session({}))
        if not again:
            return found
        node = again[0][0]
        columns = [str(each.name()) for each in logical.elements(node.output())]
        cached = caching(logical.class_name(node), columns, len(again))
        return [*(each for each in found if each.variant != SHUFFLED_TWICE), cached]

    def _candidate(self, proposal: Proposal, baseline: Any, expected: Result) -> _Candidate | None:
        """The variant, once its first run, which does not count, has given the same result."""
        found = None
        with self._refusing(proposal, None):
            frame = self._frame(proposal.settings, proposal)
            if frame is None:
                self._refuse(proposal, "Not tried: the operator cannot be found in the query's plan.", None)
                return None
            found = self._limited(lambda: result_of(frame))
        if found is None:
            return None
        if found.equals(expected):
            return _Candidate(proposal, frame)
        if self._is_repeatable is None:
            try:
                self._is_repeatable = self._limited(lambda: result_of(baseline)).equals(expected)
            except Stopped:  # what was decided before is not lost
                self._is_repeatable = True
        if self._is_repeatable:
            self._refuse(proposal, f"Other result: {found.difference(expected)}.{self._why_other()}", False)
        else:
            self._refuse(proposal, "The query itself gives another result in each run, so none can be compared.", False)
        return None

    def _why_other(self) -> str:
        """What makes results differ from plan to plan, as a sentence."""
        if not logical.is_deterministic(self._plan):
            return " The query has a non-deterministic expression, so it may have another result in each plan."
        if any(logical.class_name(node) in _TAKES_ROWS for node in logical.nodes(self._plan)):
            return " The query's LIMIT may take other rows in each plan; none can be compared, unless it has an order."
        return ""

    @contextmanager
    def _refusing(
        self, proposal: Proposal, same_result: bool | None, candidate: _Candidate | None = None
    ) -> Iterator[None]:
        """End the block and refuse the variant if a run is stopped or fails."""
        try:
            yield
        except Stopped:
            slow = f"Stopped after {self._longest_s:.0f} s: slower than the query as it is."
            reason = self._not_decided(candidate) if self._left() <= 0 else slow
            self._refuse(proposal, reason, same_result, candidate)
        except Exception as error:
            self._refuse(proposal, f"It failed: {_first_line(error)}", same_result)

    def _goes_on(self, candidate: _Candidate, baseline: Any) -> bool:
        """Run one more pair; False once it has been decided."""
        proposal, pairs = candidate.proposal, candidate.pairs
        if not self._is_time_for_a_run():
            self._decide(candidate, self._not_decided(candidate))
            return False
        runs: list[Run] = []
        step = 1 if len(pairs) % 2 else -1  # the variant first: what gets faster with each run speaks against it
        with self._refusing(proposal, True, candidate):
            if proposal.is_made_anew:
                candidate.frame = self._frame(proposal.settings, proposal)
            runs = [self._timed(frame) for frame in (baseline, candidate.frame)[::step]]
        if not runs:
            return False
        first, second = runs[::step]
        self._baseline.append(first)
        pairs.append((first, second))
        before, after = candidate.number_before_and_after()
        compared = candidate.compared(self._warm)
        if is_faster(*compared):
            self._decide(candidate, None)
        elif is_hopeless(*compared) or len(pairs) >= _MOST_PAIRS:
            self._decide(candidate, self._so_far(candidate))
        elif len(pairs) >= 2 and after >= before:
            self._decide(candidate, f"What it should lower did not fall: {candidate.moved()}.")
        else:
            return True
        return False

    def _decide(self, candidate: _Candidate, refusal: str | None) -> None:
        """Accept it, unless there is a reason to refuse it."""
        proposal = candidate.proposal
        if refusal is None:
            before, after = candidate.number_before_and_after()
            if not (before > 0 and after <= _MOVED * before):
                refusal = f"Faster, but not for the reason given: {candidate.moved()}."
        if refusal is not None:
            self._refuse(proposal, refusal, True, candidate)
            return
        reason = f"Same result, faster in {len(candidate.pairs)} pairs of runs, {candidate.moved()}."
        self._accepted.append(_Decided(proposal, reason, True, candidate))

    def _refuse(
        self, proposal: Proposal, reason: str, same_result: bool | None, candidate: _Candidate | None = None
    ) -> None:
        self._refused.append(_Decided(proposal, reason, same_result, candidate))

    def _so_far(self, candidate: _Candidate) -> str:
        wall, calm = candidate.compared(self._warm)
        saved = 100 * (1 - math.exp(-max(wall.mean, calm.mean)))
        if saved < -100 * LEAST_SAVING:
            return f"Slower, by {-saved:.0f} % in {len(candidate.pairs)} pairs of runs."
        if saved < 100 * LEAST_SAVING:
            return f"Not faster in {len(candidate.pairs)} pairs of runs."
        return f"Not certain: {saved:.0f} % faster on average of {len(candidate.pairs)} pairs of runs, which scatter."

    def _not_decided(self, candidate: _Candidate | None) -> str:
        is_known = candidate is not None and len(candidate.pairs) > 1
        return f"{self._so_far(candidate)} {self._too_small()}" if candidate and is_known else self._too_small()

    def _is_time_for_a_run(self) -> bool:
        """Whether the query would end before the budget does."""
        return 1000 * self._left() > min(map(_wall_ms, self._baseline))

    def _too_small(self) -> str:
        return f"The budget of {self._budget_s:g} s is too small to decide."

    def _left(self) -> float:
        return self._deadline - time.monotonic()

    def _limit_s(self) -> float:
        return min(self._longest_s, max(0.1, self._left()))

    def _frame(self, settings: Mapping[str, str], proposal: Proposal | None) -> Any:
        """The query in a clone of the session, with these settings and the proposal's change of its plan."""
        from pyspark.sql import DataFrame

        session = self._session(settings)
        plan = self._plan
        if proposal is not None and proposal.change is not None:
            plan = proposal.change(self._plans, plan, session)
            if plan is None:
                optimized = logical.dataset(session, self._plan).queryExecution().optimizedPlan()
                optimized.setAnalyzed()
                plan = proposal.change(self._plans, optimized, session)
            if plan is None:
                return None
            plan.setAnalyzed()
        return DataFrame(logical.dataset(session, plan), session)

    def _session(self, settings: Mapping[str, str]) -> Any:
        """A clone of the session with these settings."""
        from pyspark.sql import SparkSession

        session = SparkSession(self._context, self._java_session.cloneSession())
        for name, value in settings.items():
            session.conf.set(name, value)
        return session

    def _timed(self, frame: Any) -> Run:
        """Run it whole; its rows are written nowhere. A new Dataset each time, as AQE keeps what it has planned."""
        from pyspark.sql import DataFrame

        session = frame.sparkSession
        again = DataFrame(logical.dataset(session, frame._jdf.queryExecution().analyzed()), session)
        with self._measure(self._context) as measured:
            self._limited(lambda: again.write.format("noop").mode("overwrite").save())
        run: Run = measured
        return run

    def _limited(self, run: Callable[[], Any]) -> Any:
        """Run a query; cancel its jobs after the limit. Raises `Stopped` then.

        It runs in a thread of its own: Ctrl-C would break this thread's connection to the JVM in the middle of a call,
        and with it the thread's job group.
        """
        from pyspark import InheritableThread

        limit = self._limit_s()
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(run())
            except BaseException as error:
                errors.append(error)

        self._runs += 1
        worker = InheritableThread(target=work, daemon=True)
        worker.start()
        try:
            worker.join(limit)
            is_stopped = worker.is_alive()
            while worker.is_alive():
                self._cancel(worker)
        except BaseException:  # Ctrl-C
            patience = time.monotonic() + _INTERRUPTED_S
            while worker.is_alive() and time.monotonic() < patience:
                self._cancel(worker)
            raise
        finally:
            self._plans.release()
        if is_stopped:
            raise Stopped(f"It was stopped after {limit:.0f} s.") from (errors[0] if errors else None)
        if errors:
            raise errors[0]
        return results[0]

    def _cancel(self, worker: threading.Thread) -> None:
        self._context.cancelJobGroup(self._group)
        worker.join(_CANCEL_AGAIN_S)  # the query may start its next job

    @contextmanager
    def _in_group(self) -> Iterator[None]:
        """Jobs get a group of their own, to cancel them; what the thread had is put back. Ctrl-C cancels them too."""
        spark_context = self._context._jsc.sc()
        before = spark_context.getLocalProperties().clone()
        self._group = f"joinsight-{uuid.uuid4()}"
        try:
            self._context.setJobGroup(self._group, _DESCRIPTION, interruptOnCancel=True)
            yield
        except BaseException:
            self._context.cancelJobGroup(self._group)
            raise
        finally:
            spark_context.setLocalProperties(before)


def _wall_ms(run: Run) -> int:
    rows = (each.rows.execution for each in run.executions)
    return sum(row.duration_ms or 0 for row in rows if row.root_execution_id == row.execution_id)


def _calm_ms(run: Run) -> float:
    """What its wall time would be, if its tasks had not waited for processors."""
    return _wall_ms(run) / _stretch(run)


def _stretch(run: Run) -> float:
    """How much longer than they worked its tasks took: what other programs take of processors, all its parts miss.

    Reading without a wait that is measured counts, too. 1 if the CPU time of tasks is not that of their work.
    """
    totals = [row.totals for each in run.executions for row in each.rows.stage if row.totals is not None]
    worked_ms = sum(
        each.gc_time_ms + each.shuffle_fetch_wait_ms + (each.cpu_time_ns + each.shuffle_write_time_ns) / 1e6
        for each in totals
    )
    names = {row.name for each in run.executions for row in each.rows.plan_node}
    if any(operators.is_python(name) or operators.of(name).engine in THREADED for name in names):
        return 1.0
    return max(1.0, sum(each.run_time_ms for each in totals) / max(1.0, worked_ms))


def _entry(decided: _Decided, baseline_ms: int, baseline: Sequence[Run]) -> dict[str, Any]:
    proposal, candidate = decided.proposal, decided.candidate
    saved: int | None = None
    low: int | None = None
    high: int | None = None
    if candidate is not None and candidate.pairs:
        surer = max(candidate.compared(baseline), key=lambda each: each.evidence)
        saved = _saved(surer.mean, baseline_ms)
        bounds = interval(surer.log_ratios, surer.noise)
        low, high = (_saved(each, baseline_ms) if math.isfinite(each) else None for each in bounds)
    return {
        "variant": proposal.variant,
        "code": proposal.code,
        "saved_ms": saved,
        "low_ms": low,
        "high_ms": high,
        "reason": decided.reason,
        "same_result": decided.same_result,
    }


def _accepted_advice(rows: Rows, proposal: Proposal, entry: Mapping[str, Any]) -> AcceptedAdvice | None:
    """The entry of a file: about the proposal's first operator, else about the first one that writes nothing."""
    own = [each for each in rows.plan_node if each.operator_key and not operators.is_write(each.name)]
    found = next((each for each in own if each.node_id in proposal.nodes[:1]), next(iter(own), None))
    if found is None or found.operator_key is None:
        return None
    return AcceptedAdvice(
        found.operator_key,
        **{name: entry[name] for name in ("variant", "saved_ms", "low_ms", "high_ms", "code", "reason")},
        date=date.today(),
        strategy=(operators.join_strategy(found.name) or "") if proposal.changes_strategy else "",
        settings=proposal.settings,
        query=rows.execution.title or "",
    )


def _saved(log_ratio: float, baseline_ms: int) -> int:
    return round(baseline_ms * (1 - math.exp(-log_ratio)))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
