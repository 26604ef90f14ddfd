"""The contract between listener and collector: one *document* is one JSON object on one line.

An `Execution` is a snapshot of one SQL execution. It is self-contained (it names its application),
idempotent, and a later one of the same execution replaces an earlier one. An `Application` reports the start and end
of an application and what was delivered. The JSON Schema in ``schemas/`` is generated from these classes; the listener
and the collector are both tested against it.

Units: points in time are milliseconds since the epoch, durations and sizes have their unit in the name. A value that
was not measured is absent (``None``), never 0.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

SCHEMA_VERSION = 1

DOCTORS_QUERY = "joinsight doctor"
"""The description of the query that `joinsight doctor --spark` runs."""

MAX_LONG = 2**63 - 1

Count = Annotated[int, Meta(ge=0, le=MAX_LONG)]
"""A number of things, bytes or units of time: never negative, fits Java's long and PostgreSQL's bigint."""

Bytes = Annotated[Count, "bytes"]
Rows = Annotated[Count, "rows"]
Ms = Annotated[Count, "ms"]
Ns = Annotated[Count, "ns"]

Long = Annotated[int, Meta(ge=-(2**63), le=MAX_LONG)]

Int = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""An id or index that Spark keeps in a Java int."""

Time = Annotated[int, Meta(ge=0, le=253_402_300_799_999)]
"""Milliseconds since 1970-01-01T00:00Z, up to the year 9999."""

Sequence = Annotated[
    int, Meta(ge=1, le=MAX_LONG - 1, description="number of this document among those of its listener, from 1")
]
"""A range that ends after it must still fit PostgreSQL's bigint."""

Numbers = Annotated[
    list[tuple[Sequence, Sequence]],
    Meta(max_length=100_000, description="a set of document numbers as ranges: [[first, last], ...]"),
]

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Attempt = Annotated[str, Meta(max_length=64)]

SampleKey = Annotated[str, Meta(max_length=256)]

ExecutionState = Literal["running", "succeeded", "failed", "cancelled", "lost"]
JobState = Literal["running", "succeeded", "failed"]
StageState = Literal["pending", "running", "succeeded", "failed", "skipped"]
ApplicationState = Literal["running", "ended"]
EXECUTION_STATES: tuple[ExecutionState, ...] = get_args(ExecutionState)
ENDED: tuple[ExecutionState, ...] = ("succeeded", "failed", "cancelled")
"""States of executions whose end is known, unlike that of a lost one."""
NOT_RUN: tuple[StageState, ...] = ("pending", "skipped")
"""States of stages that ran no task."""
Origin = Literal["live", "event_log"]


class Metric(Struct, frozen=True):
    """A metric that a plan node declares (Spark: ``SQLMetricInfo``)."""

    name: str
    id: Count
    type: Annotated[str, Meta(description="sum, size, timing, nsTiming, average, v2Custom_<class>, or an unknown type")]


class PlanNode(Struct, frozen=True):
    """A node of one or more plan trees (Spark: ``SparkPlanInfo`` without its children)."""

    name: str
    simple: Annotated[str, Meta(description="Spark's simpleString")] = ""
    metadata: dict[str, str] = {}
    metrics: list[Metric] = []


class Plan(Struct, frozen=True):
    """The physical plan as Spark had it from one moment on; AQE makes several in one execution.

    A re-plan repeats most nodes, so a plan only refers to its nodes, in depth-first order, a parent before its
    child.
    """

    at_ms: Annotated[Time, Meta(description="when the driver learned of this plan")]
    nodes: Annotated[list[Int], Meta(description="indexes into the execution's nodes")]
    parents: Annotated[
        list[Annotated[int, Meta(ge=-1)]],
        Meta(description="for each of nodes, the index of its parent in nodes; -1 for the root"),
    ]


class JoinHint(Struct, frozen=True):
    """The strategy hints of a join, as Spark prints them: ``broadcast``, ``merge``, ``shuffle_hash``, ..."""

    metric: Annotated[Count, Meta(description="accumulator id of a metric of the join's node in any of the plans")]
    left: Annotated[str | None, Meta(description="of the left side; absent: none")] = None
    right: Annotated[str | None, Meta(description="of the right side; absent: none")] = None


class Accumulator(Struct, frozen=True):
    """The values of one accumulator in this execution, over its tasks and driver updates.

    Only values that Spark counts are included: 0 and more for ``size``, ``timing``, ``nsTiming``; above 0 for
    ``average``; all for ``sum``. ``average`` values are Spark's: ten times the average. A task that reported nothing
    counts as 0, as in Spark's UI.
    """

    id: Count
    type: str
    count: Annotated[Count, Meta(description="how many values count; 0: announced by tasks, measured by none")]
    sum: Long | None = None
    min: Long | None = None
    median: Annotated[Long | None, Meta(description="Spark's: the element at count/2 of the sorted values")] = None
    p95: Annotated[Long | None, Meta(description="the element at count*95/100 of the sorted values")] = None
    max: Long | None = None
    max_stage: Annotated[Int | None, Meta(description="stage of the largest value; absent: the driver")] = None
    max_stage_attempt: Int | None = None
    max_task: Count | None = None
    stages: Annotated[list[Int], Meta(description="stages whose tasks measured something; empty: the driver")] = []
    text: Annotated[
        str | None, Meta(description="v2Custom only: the values as formatted by the metric's own class")
    ] = None
    approximate: Annotated[
        bool, Meta(description="median and p95 are within 1 %, because a memory limit was reached")
    ] = False
    positive: Annotated[
        Count | None, Meta(description="how many values are above 0; absent: all, none, or from an older listener")
    ] = None
    positive_median: Annotated[Long | None, Meta(description="the median of these, approximate if the median is")] = (
        None
    )


class Job(Struct, frozen=True):
    """A Spark job of the execution."""

    id: Int
    submitted_at_ms: Time
    stages: list[Int]
    state: JobState = "running"
    ended_at_ms: Time | None = None


class Nested(Struct, frozen=True):
    """An execution that this one started: the query of a command, or one of the function of ``foreachBatch``."""

    id: Count
    started_at_ms: Time
    ended_at_ms: Time | None = None


class Spread(Struct, frozen=True):
    """The distribution of a value over the successful tasks of a stage attempt."""

    min: Count
    median: Count
    p95: Count
    max: Count
    max_task: Count
    p25: Count | None = None
    p75: Count | None = None


class Slowest(Struct, frozen=True):
    """The executor that was slow for its work, or the host that was, if it has several executors.

    It took the most run time beyond what the others took for as many tasks, rows read, bytes read and rows written,
    whichever is the most.
    """

    host: Annotated[Name, Meta(description="host")]
    tasks: Annotated[Int, Meta(description="successful tasks")]
    run_time_ms: Annotated[Ms, Meta(description="their run time")]
    cpu_time_ms: Annotated[Ms, Meta(description="their CPU time")]
    median_ms: Annotated[Ms, Meta(description="their median run time")]
    others_median_ms: Annotated[Ms, Meta(description="median run time of all other tasks")]
    excess_ms: Annotated[
        Ms,
        Meta(
            description="run time beyond what the others took for the same work; at most the difference of the medians"
            " for each of its tasks"
        ),
    ]
    executor: Annotated[Name | None, Meta(description="executor id; none: all executors of the host")] = None


def _total(description: str, spark: str, of_task: str | None = None) -> Meta:
    """`spark`: its name in Spark's ``StageData``; `of_task`: its name in ``TaskMetrics``, if different."""
    return Meta(description=description, extra={"spark": spark, "of_task": of_task or spark})


def _of_tasks(description: str, spark: str) -> Meta:
    """A total that Spark's ``StageData`` lacks; `spark`: its name in ``TaskData``."""
    return Meta(description=description, extra={"of_tasks": spark})


class StageTotals(Struct, frozen=True, kw_only=True):
    """Totals over the tasks of a stage attempt; table `stage` has a column for each. None: an earlier listener."""

    run_time_ms: Annotated[Ms, _total("executor run time", "executorRunTime")] = 0
    cpu_time_ns: Annotated[Ns, _total("executor CPU time", "executorCpuTime")] = 0
    gc_time_ms: Annotated[Ms, _total("JVM garbage collection while its tasks ran", "jvmGcTime")] = 0
    deserialize_time_ms: Annotated[Ms, _total("executor deserialize time", "executorDeserializeTime")] = 0
    result_bytes: Annotated[Bytes, _total("size of the results sent to the driver", "resultSize")] = 0
    memory_spilled_bytes: Annotated[
        Bytes, _total("bytes of deserialized data that were spilled", "memoryBytesSpilled")
    ] = 0
    disk_spilled_bytes: Annotated[Bytes, _total("bytes written to disk by spilling", "diskBytesSpilled")] = 0
    peak_memory_bytes: Annotated[Bytes, _total("largest peak execution memory of a task", "peakExecutionMemory")] = 0
    input_bytes: Annotated[Bytes, _total("bytes read from sources", "inputBytes", "inputMetrics.bytesRead")] = 0
    input_rows: Annotated[Rows, _total("rows read from sources", "inputRecords", "inputMetrics.recordsRead")] = 0
    output_bytes: Annotated[Bytes, _total("bytes written to sinks", "outputBytes", "outputMetrics.bytesWritten")] = 0
    output_rows: Annotated[Rows, _total("rows written to sinks", "outputRecords", "outputMetrics.recordsWritten")] = 0
    shuffle_read_local_bytes: Annotated[
        Bytes, _total("shuffle bytes read locally", "shuffleLocalBytesRead", "shuffleReadMetrics.localBytesRead")
    ] = 0
    shuffle_read_remote_bytes: Annotated[
        Bytes,
        _total("shuffle bytes read over the network", "shuffleRemoteBytesRead", "shuffleReadMetrics.remoteBytesRead"),
    ] = 0
    shuffle_read_rows: Annotated[
        Rows, _total("shuffle rows read", "shuffleReadRecords", "shuffleReadMetrics.recordsRead")
    ] = 0
    shuffle_fetch_wait_ms: Annotated[
        Ms, _total("time tasks waited for shuffle blocks", "shuffleFetchWaitTime", "shuffleReadMetrics.fetchWaitTime")
    ] = 0
    shuffle_write_bytes: Annotated[
        Bytes, _total("shuffle bytes written", "shuffleWriteBytes", "shuffleWriteMetrics.bytesWritten")
    ] = 0
    shuffle_write_rows: Annotated[
        Rows, _total("shuffle rows written", "shuffleWriteRecords", "shuffleWriteMetrics.recordsWritten")
    ] = 0
    shuffle_write_time_ns: Annotated[
        Ns, _total("time tasks took to write shuffles", "shuffleWriteTime", "shuffleWriteMetrics.writeTime")
    ] = 0
    result_serialization_time_ms: Annotated[
        Ms | None, _total("time to serialize the results of tasks", "resultSerializationTime")
    ] = None
    getting_result_time_ms: Annotated[
        Ms | None, _of_tasks("time the driver took to fetch results from executors", "gettingResultTime")
    ] = None
    scheduler_delay_ms: Annotated[
        Ms | None,
        _of_tasks("scheduler delay: the rest of the tasks' durations, such as sending tasks", "schedulerDelay"),
    ] = None
    task_duration_ms: Annotated[Ms | None, _of_tasks("time from the launch to the finish of tasks", "duration")] = None


class Stage(StageTotals, frozen=True):
    """An attempt of a stage, with the totals of the tasks that reported metrics (failed and killed ones too)."""

    id: Int
    attempt: Int
    name: str
    tasks: Annotated[Int, Meta(description="number of tasks of the attempt")]
    state: StageState
    succeeded_tasks: Int = 0
    failed_tasks: Int = 0
    killed_tasks: Int = 0
    submitted_at_ms: Time | None = None
    completed_at_ms: Time | None = None
    failure: str | None = None
    parents: Annotated[list[Int], Meta(description="ids of the stages whose shuffles it reads")] = []
    rdd: Annotated[
        Int | None, Meta(description="id of the RDD that it computes: a skipped stage has that of the stage that ran")
    ] = None
    first_launch_at_ms: Annotated[Time | None, Meta(description="when its first task was launched")] = None
    last_finish_at_ms: Annotated[Time | None, Meta(description="when the last of its successful tasks finished")] = None
    oldest_launch_at_ms: Annotated[
        Time | None,
        Meta(
            description="while it runs, the launch of the task that has run longest of those that still run; absent:"
            " none is known to, or from a log or an older listener"
        ),
    ] = None
    oldest_task: Annotated[Count | None, Meta(description="the id of this task")] = None
    slots: Annotated[
        Int | None, Meta(description="most tasks that the executors could run at once while it ran; absent: unknown")
    ] = None
    width: Annotated[Int | None, Meta(description="most tasks that ran at once; absent: unknown")] = None
    tail_at_ms: Annotated[
        Time | None,
        Meta(description="since when, after the last launch, at most half of its width ran; absent: never, or unknown"),
    ] = None
    executors: Annotated[
        Int | None, Meta(description="number of executors with successful tasks; absent: none, or more than 64")
    ] = None
    hosts: Annotated[Int | None, Meta(description="number of the hosts of these executors; absent: as executors")] = (
        None
    )
    slowest: Annotated[Slowest | None, Meta(description="absent: none was slow, or unknown")] = None
    run_time: Annotated[Spread | None, Meta(description="milliseconds per task")] = None
    cpu_time: Annotated[Spread | None, Meta(description="executor CPU time, milliseconds per task")] = None
    shuffle_read: Annotated[Spread | None, Meta(description="bytes per task, local and remote")] = None
    shuffle_read_records: Annotated[Spread | None, Meta(description="rows a task")] = None
    samples: Annotated[
        dict[SampleKey, Count],
        Meta(
            max_length=501,
            description="how often tasks were seen at what: number of samples by `group`, `group codegen` or `group"
            " codegen function` of generated code, or `operator name`, and ` +work`; docs/task-time.md lists them",
        ),
    ] = {}


class Listener(Struct, frozen=True):
    """The listener that created the document."""

    id: Annotated[Name, Meta(description="a UUID, new for every SparkContext")]
    version: Name
    spark_version: Name


class _Document(Struct, frozen=True, kw_only=True, tag_field="kind"):
    schema_version: Literal[1]
    origin: Origin
    listener: Listener
    sequence: Sequence
    supersedes: Annotated[
        Numbers,
        Meta(
            description="earlier documents of the same execution, or of the application, that are not known to have"
            " arrived: this one makes them superfluous"
        ),
    ] = []
    application_id: Name
    attempt_id: Annotated[Attempt, Meta(description="YARN cluster mode: 1, 2, ...; elsewhere empty")] = ""
    application_name: str
    job_name: Annotated[str, Meta(description="spark.joinsight.jobName, else the application's name")]


class Application(_Document, frozen=True, kw_only=True, tag="application"):
    """An application attempt: sent when it starts and ends, and in between as a heartbeat that reports deliveries.

    Every document is eventually delivered, superseded, dropped or refused, or lost with its driver.
    """

    state: ApplicationState
    started_at_ms: Time
    ended_at_ms: Time | None = None
    user: str = ""
    master: str = ""
    tags: dict[str, str] = {}
    configuration: Annotated[dict[str, str], Meta(description="allow-listed settings of the SparkConf")] = {}
    documents_made: Annotated[Count, Meta(description="number of documents created so far")] = 0
    dropped: Annotated[
        dict[str, Numbers], Meta(description="documents dropped in the driver so far, by cause: memory, spool, failure")
    ] = {}
    refused: Annotated[Numbers, Meta(description="documents that the collector permanently refused so far")] = []
    listener_failures: Annotated[Count, Meta(description="exceptions caught in callbacks")] = 0
    events_dropped: Annotated[
        Count | None, Meta(description="events that Spark dropped before its listeners saw them; absent: unknown")
    ] = None


class Execution(_Document, frozen=True, kw_only=True, tag="execution"):
    """A SQL execution at the time the document was created."""

    execution_id: Count
    root_execution_id: Count
    state: ExecutionState
    started_at_ms: Time
    ended_at_ms: Time | None = None
    reported_at_ms: Annotated[
        Time | None,
        Meta(
            description="while it runs, when the driver made this document, in its clock; absent: it has ended, or from"
            " a log or an older listener"
        ),
    ] = None
    description: str = ""
    call_site: Annotated[str, Meta(description="Spark's long call site")] = ""
    statement: Annotated[
        str | None,
        Meta(description="the SQL text that the whole query was made of; absent while it runs and in event logs"),
    ] = None
    error: str | None = None
    job_group: str | None = None
    job_tags: list[str] = []
    user: Annotated[str | None, Meta(description="who asked a Spark Connect or Thrift server for it")] = None
    session_id: Annotated[str | None, Meta(description="that server's session; of others, Spark's since 4.0")] = None
    operation_id: Annotated[str | None, Meta(description="that server's operation or statement")] = None
    user_tags: Annotated[list[str], Meta(description="the job tags that the user set, as the user wrote them")] = []
    streaming_query_id: str | None = None
    streaming_batch_id: Count | None = None
    tags: dict[str, str] = {}
    configuration: Annotated[dict[str, str], Meta(description="allow-listed settings of the session")] = {}
    nodes: Annotated[list[PlanNode], Meta(description="the distinct nodes of all plans")] = []
    plans: Annotated[
        list[Plan],
        Meta(description="oldest first, the last one is the final plan; re-plans without changes are omitted"),
    ] = []
    plans_dropped: Annotated[Count, Meta(description="re-plans that were not kept, at the limit")] = 0
    announced: Annotated[
        list[Metric], Meta(description="metrics declared without a plan (subqueries, cached plans)")
    ] = []
    join_hints: Annotated[list[JoinHint], Meta(description="one entry for each join with hints")] = []
    accumulators: list[Accumulator] = []
    jobs: list[Job] = []
    stages: list[Stage] = []
    nested: Annotated[list[Nested], Meta(description="executions that it, or one of these, started")] = []
    incomplete: Annotated[list[str], Meta(description="why the numbers may be partial; empty: they are complete")] = []
    incomplete_codes: Annotated[
        list[str],
        Meta(description="the same as codes, each once (docs/guarantees.md#completeness); empty: none were given"),
    ] = []


Document = Application | Execution

__all__ = [
    "MAX_LONG",
    "SCHEMA_VERSION",
    "Accumulator",
    "Application",
    "Document",
    "Execution",
    "Job",
    "JoinHint",
    "Listener",
    "Metric",
    "Nested",
    "Numbers",
    "Plan",
    "PlanNode",
    "Slowest",
    "Spread",
    "Stage",
]
