"""Why an execution failed: the first words of its error, the operators of the stage, what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from joinsight.contract.micro_batch import is_stop
from joinsight.plan import operators
from joinsight.plan.outline import shortened
from joinsight.verdict.cause import Code
from joinsight.verdict.view import View

_LONGEST, _MOST_READ = 240, 20_000
_NEEDS_DISK: tuple[Code, ...] = ("join_output", "data_skew", "output_skew", "spill")
_NEEDS_MEMORY: tuple[Code, ...] = (*_NEEDS_DISK, "gc", "broadcast")
_SHUFFLE_IT = (
    "have the join shuffled: remove the hint BROADCAST, add the hint MERGE, or lower"
    " spark.sql.autoBroadcastJoinThreshold (-1: never broadcast)"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind of failure, by how Spark, Java or Python says it."""

    said: re.Pattern[str]
    """Its groups are evidence, by name."""
    advice: str
    kinds: tuple[str, ...] = ()
    """Kinds of operators that it is of; none: any."""
    needed_by: tuple[Code, ...] = ()
    """Causes of long times that may have needed what was missing."""
    title: str = ""
    """What happened, for a finding."""


# In Spark 3.4 to 4.3: QueryExecutionErrors, BroadcastExchangeExec
BROADCASTS = (
    Failure(
        re.compile(r"Could not execute broadcast in (?P<timeout_s>\d+) sec"),
        "Check what the broadcast side computes: the tasks beneath it take most of the time. Make it faster, raise"
        " spark.sql.broadcastTimeout, set spark.sql.adaptive.enabled=true (AQE waits as long as necessary), or"
        f" {_SHUFFLE_IT}.",
        ("broadcast",),
        title="The query failed: its broadcast was not ready after {timeout_s} s (spark.sql.broadcastTimeout).",
    ),
    Failure(
        re.compile(
            r"Cannot broadcast the table that is larger than"
            r" (?P<limit_bytes>[\d.]+(?: *[a-zA-Z]\w*)?): (?P<size_bytes>[\d.]+(?: *[a-zA-Z]\w*)?)"
        ),
        f"Filter the broadcast side and select fewer columns before the join, or {_SHUFFLE_IT}.",
        ("broadcast",),
        title="The query failed: its broadcast has {size_bytes}, more than the {limit_bytes} that Spark allows.",
    ),
    Failure(
        re.compile(r"Cannot broadcast the table [^:]{0,200}?rows: (?P<rows>\d+)"),
        f"Filter the broadcast side before the join, or {_SHUFFLE_IT}.",
        ("broadcast",),
        title="The query failed: its broadcast has {rows} rows, more than Spark allows.",
    ),
    Failure(
        re.compile(r"Not enough memory to build and broadcast"),
        f"Give the driver more memory (spark.driver.memory), or {_SHUFFLE_IT}.",
        ("broadcast",),
        title="The query failed: the driver did not have enough memory to build the broadcast.",
    ),
)


def _said(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(words))


_FAILURES = (
    *BROADCASTS,
    Failure(
        _said(r"spark\.driver\.maxResultSize"),
        "Collect fewer rows and columns: aggregate or limit before collect or toPandas, or write the result to storage;"
        " else raise spark.driver.maxResultSize and spark.driver.memory.",
    ),
    Failure(
        _said(r"No space left on device"),
        "Free or add disk space where tasks keep shuffles and what they spill (spark.local.dir), or spill and shuffle"
        " less.",
        needed_by=_NEEDS_DISK,
    ),
    Failure(
        re.compile(r"\A(?![\s\S]*Lost task)[\s\S]*(?<!On)OutOfMemoryError"),
        "The driver ran out of memory: collect fewer rows and columns (aggregate, limit, or write the result to"
        " storage), broadcast less, or raise spark.driver.memory.",
    ),
    Failure(
        _said(
            *(
                r"(?<!On)OutOfMemory",
                r"UNABLE_TO_ACQUIRE_MEMORY",
                r"GC overhead limit",
                r"OOMKilled",
                r"memoryOverhead",
            ),
            *(
                r"exceeding (?:physical )?memory limits",
                r"(?:[Ee]xit (?:code|status)|exited with code)(?: is|:)? (?:137|52)\b",
            ),
            *(r"(?<!\w)MemoryError", r"Cannot grow BufferHolder", r"Python worker exited unexpectedly"),
        ),
        "Give each task less to keep: more partitions (spark.sql.shuffle.partitions), fewer cores an executor, no"
        " collect_list of large groups; or more memory (spark.executor.memory, and spark.executor.memoryOverhead where"
        " the container was killed or Python needs it).",
        needed_by=_NEEDS_MEMORY,
    ),
    Failure(
        _said(r"FetchFailed", r"Missing an output location for shuffle", r"ExecutorLost"),
        "Look at why executors were lost (their logs, their container's exit code): memory, spot instances, or dynamic"
        " allocation without a shuffle service; the shuffle files went with them.",
        needed_by=_NEEDS_DISK,
    ),
    Failure(
        _said(r"ModuleNotFoundError", r"ImportError"),
        "Python on the executors does not have it: install it there, or send it along (spark.archives,"
        " spark.submit.pyFiles).",
        ("python",),
    ),
    Failure(
        _said(r"Traceback \(most recent call last\)", r"PythonException", r"PYTHON_EXCEPTION"),
        "Python code of the query raised it: fix the function, or let it return NULL for such values.",
        ("python",),
    ),
    Failure(
        _said(
            r"Concurrent(?:Append|Delete\w+|Write|Transaction)Exception",
            r"DELTA_CONCURRENT",
            r"_temporary/\S* does not exist",
            r"CommitFailedException",
            r"conflicting (?:commit|update|files|delete files)",
            r"HoodieWriteConflictException",
        ),
        "Another job changed the table at the same time: run it again, and let jobs write different partitions or one"
        " after the other.",
        ("write",),
    ),
    Failure(
        _said(r"FileNotFoundException", r"FILE_NOT_EXIST", r"PATH_NOT_FOUND", r"(?:File|Path) does not exist"),
        "Files were removed or replaced while it read them: REFRESH TABLE and run it again, do not overwrite what is"
        " read, or use a table format that keeps old files.",
        ("scan",),
    ),
    Failure(
        _said(
            r"AccessControlException", r"Access ?Denied", r"Permission denied", r"status code: 403", r"\b403 Forbidden"
        ),
        "The user or role of the job is not allowed to read or write there: look at its permissions.",
    ),
    Failure(
        _said(
            r"FAILED_READ_FILE",
            r"CANNOT_READ_FILE",
            r"is not a Parquet file",
            r"MALFORMED_RECORD",
            r"(?<![\w`])[Cc]orrupt(?:ed|ion)?\b",
        ),
        "Look at the file that the error names: it is damaged, or of another format or schema than the others.",
        ("scan",),
    ),
    Failure(
        _said(r"FAILED_EXECUTE_UDF", r"Failed to execute user defined function"),
        "A function of yours raised it: fix it, or let it return NULL for such values.",
    ),
    Failure(
        _said(r"SQLSTATE: (?:21|23K01)", r"SCALAR_SUBQUERY_TOO_MANY_ROWS", r"MULTIPLE_SOURCE_ROW"),
        "A subquery, or the source of a MERGE, has several rows where one is allowed: aggregate it, or remove"
        " duplicates of the key.",
    ),
    Failure(
        _said(r"\btry_\w+", r"spark\.sql\.ansi\.enabled", r"SQLSTATE: 22", r"ArithmeticException", r"NumberFormat"),
        "Values do not fit what the query does with them: find such rows and filter or correct them, or use a function"
        " that returns NULL instead (try_cast, try_divide).",
    ),
    Failure(
        _said(r"USER_RAISED_EXCEPTION", r"assert_true|raise_error"),
        "The query raises this itself (raise_error, assert_true): look at the rows that it is about.",
    ),
    Failure(
        _said(r"[Tt]imed? ?out"),
        "Something did not answer in time: look at the load of the driver, of the executors and of what they call.",
    ),
)
_OTHER = Failure(re.compile(""), "Read the whole error, on the page of the execution or by joinsight plan.")
_TASK = re.compile(r"[Mm]ost recent failure(?: reason)?: *(?:Lost task [^\n]*?\(TID \d+\) \([^()\n]*\): *)?")
_STAGE = re.compile(r"\bin stage (\d{1,9})\.\d|(?:ShuffleMap|Result)Stage (\d{1,9})\b")
_PYTHON_ERROR = re.compile(r"^(?!Traceback|Caused by)[A-Za-z_][\w.]*(?::.*)?$", re.MULTILINE)
_CAUSED = re.compile(r"^Caused by: (.*)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+\s*$")


class _SparkError(msgspec.Struct, rename="camel"):
    """An error as Spark 3 writes it."""

    error_class: str
    message_parameters: dict[str, str | None] = {}
    sql_state: str = ""


def readable(error: str) -> str:
    """The error without the text of the query that Spark appends; as Java says it where Spark 3 writes JSON."""
    error = error[:_MOST_READ]
    if re.match(r'\{\s*"errorClass"', error):
        try:
            its = msgspec.json.decode(error, type=_SparkError)
        except (msgspec.DecodeError, ValueError, RecursionError):  # it was cut, or somebody else wrote it
            return error
        texts = ", ".join(filter(None, its.message_parameters.values()))
        kind = its.error_class if its.message_parameters.keys() == {"message"} else f"[{its.error_class}]"
        error = f"{kind}: {texts}" if texts else kind
        error += f" SQLSTATE: {its.sql_state}" if its.sql_state else ""
    return error.partition("\n== SQL")[0]


def failure_of(error: str) -> Failure:
    """The first kind whose words it has; one without words of its own if there is none."""
    return next((each for each in _FAILURES if each.said.search(error)), _OTHER)


def first_words(error: str) -> str:
    """What went wrong, in one line: ``ValueError: cannot parse 123456``, without stacks and what only wraps it."""
    error = readable(error)
    _, is_python, stack = error.rpartition("Traceback (most recent call last)")
    raised = _PYTHON_ERROR.search(stack.partition("\n")[2]) if is_python else None
    caused = [each for each in _CAUSED.findall(error) if ": " in each]
    start = _TASK.search(error)
    text = raised[0] if raised else caused[-1] if caused else error[start.end() :] if start else error
    line = next((line for line in text.splitlines() if line.strip()), "for an unknown reason")
    return shortened(_STATE.sub("", line.strip()[: 4 * _LONGEST]).rstrip("."), _LONGEST)


def failed_at(view: View, failure: Failure, error: str) -> tuple[int | None, tuple[int, ...]]:
    """The stage that the error names, else the last one that failed by itself; its operators, those first that it may
    be of."""
    stage = _stage(view, error)
    nodes = () if stage is None else view.nodes_of(stage)
    its = [i for i in nodes if _is_of(view, i, failure.kinds)]
    all_such = [i for i in view.plan.nodes if _is_of(view, i, failure.kinds)]  # its metrics may not have arrived
    return stage, tuple(its or (all_such if len(all_such) == 1 else nodes[:1]))


def _stage(view: View, error: str) -> int | None:
    last = {row["stage_id"]: row for row in view.stored.stages}  # attempts are in order
    named = _STAGE.search(error)
    if named and (its := int(named[1] or named[2])) in last:
        return its
    failed = (i for i, row in last.items() if row["state"] == "failed" and not is_stop(row["failure"] or ""))
    return max(failed, default=None)


def _is_of(view: View, node_id: int, kinds: tuple[str, ...]) -> bool:
    name = view.plan.nodes[node_id].name
    return operators.of(name).kind in kinds or ("python" in kinds and operators.is_python(name))
