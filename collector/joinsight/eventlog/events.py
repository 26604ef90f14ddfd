"""The events of a log that matter here, and of each only the fields that do; msgspec skips the rest in C.

Names of fields are those that Spark's JsonProtocol writes. What an older or newer Spark leaves out has a default, so
that an event is unreadable only if what identifies it is missing.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

SQL = "org.apache.spark.sql.execution.ui.SparkListener"


class LogStart(Struct, gc=False):
    spark_version: str = field(name="Spark Version", default="")


class ApplicationStart(Struct, gc=False):
    name: str = field(name="App Name", default="")
    id: str | None = field(name="App ID", default=None)
    time: int = field(name="Timestamp", default=0)
    user: str = field(name="User", default="")
    attempt_id: str | None = field(name="App Attempt ID", default=None)


class ApplicationEnd(Struct, gc=False):
    time: int = field(name="Timestamp", default=0)


class EnvironmentUpdate(Struct):
    spark: dict[str, str] = field(name="Spark Properties", default_factory=dict)


class PlanMetric(Struct, frozen=True, gc=False):
    name: str
    id: int = field(name="accumulatorId")
    type: str = field(name="metricType")


class PlanInfo(Struct):
    """Spark's SparkPlanInfo: a node with all below it."""

    name: str = field(name="nodeName", default="")
    simple: str = field(name="simpleString", default="")
    children: list[PlanInfo] = []
    metadata: dict[str, str] = {}
    metrics: tuple[PlanMetric, ...] = ()


class ExecutionStart(Struct):
    execution_id: int = field(name="executionId")
    root_execution_id: int | None = field(name="rootExecutionId", default=None)
    description: str | None = None
    details: str | None = None
    plan: PlanInfo | None = field(name="sparkPlanInfo", default=None)
    time: int = 0
    modified: dict[str, str] = field(name="modifiedConfigs", default_factory=dict)
    job_tags: list[str] = field(name="jobTags", default_factory=list)
    job_group: str | None = field(name="jobGroupId", default=None)


class AdaptiveUpdate(Struct):
    execution_id: int = field(name="executionId")
    plan: PlanInfo | None = field(name="sparkPlanInfo", default=None)


class MetricUpdates(Struct):
    execution_id: int = field(name="executionId")
    metrics: list[PlanMetric] = field(name="sqlPlanMetrics", default_factory=list)


class DriverUpdates(Struct):
    execution_id: int = field(name="executionId")
    updates: list[tuple[int, int]] = field(name="accumUpdates", default_factory=list)


class ExecutionEnd(Struct, gc=False):
    execution_id: int = field(name="executionId")
    time: int = 0
    error: str | None = field(name="errorMessage", default=None)


class StageInfo(Struct, gc=False):
    id: int = field(name="Stage ID")
    attempt: int = field(name="Stage Attempt ID", default=0)
    name: str = field(name="Stage Name", default="")
    tasks: int = field(name="Number of Tasks", default=0)
    submitted_at: int | None = field(name="Submission Time", default=None)
    completed_at: int | None = field(name="Completion Time", default=None)
    failure: str | None = field(name="Failure Reason", default=None)


class JobProperties(Struct, gc=False):
    execution_id: str | None = field(name="spark.sql.execution.id", default=None)
    group: str | None = field(name="spark.jobGroup.id", default=None)
    tags: str | None = field(name="spark.job.tags", default=None)
    streaming_query_id: str | None = field(name="sql.streaming.queryId", default=None)
    streaming_batch_id: str | None = field(name="streaming.sql.batchId", default=None)


class JobStart(Struct):
    id: int = field(name="Job ID")
    time: int = field(name="Submission Time", default=0)
    stages: list[StageInfo] = field(name="Stage Infos", default_factory=list)
    properties: JobProperties | None = field(name="Properties", default=None)


class JobResult(Struct, gc=False):
    result: str = field(name="Result", default="")


class JobEnd(Struct):
    id: int = field(name="Job ID")
    time: int = field(name="Completion Time", default=0)
    result: JobResult | None = field(name="Job Result", default=None)


class StageSubmitted(Struct):
    stage: StageInfo = field(name="Stage Info")


class StageCompleted(Struct):
    stage: StageInfo = field(name="Stage Info")


class Accumulable(Struct, gc=False):
    """What a task says of an accumulator. Of SQL metrics the update is a number in a string."""

    id: int = field(name="ID")
    update: Any = field(name="Update", default=None)
    metadata: str | None = field(name="Metadata", default=None)


class TaskInfo(Struct, gc=False):
    id: int = field(name="Task ID")
    index: int = field(name="Index")
    finished_at: int = field(name="Finish Time", default=0)
    failed: bool = field(name="Failed", default=False)
    killed: bool = field(name="Killed", default=False)
    accumulables: list[Accumulable] = field(name="Accumulables", default_factory=list)


class ShuffleRead(Struct, gc=False):
    fetch_wait: int = field(name="Fetch Wait Time", default=0)
    remote_bytes: int = field(name="Remote Bytes Read", default=0)
    local_bytes: int = field(name="Local Bytes Read", default=0)
    rows: int = field(name="Total Records Read", default=0)


class ShuffleWrite(Struct, gc=False):
    bytes: int = field(name="Shuffle Bytes Written", default=0)
    time: int = field(name="Shuffle Write Time", default=0)
    rows: int = field(name="Shuffle Records Written", default=0)


class Input(Struct, gc=False):
    bytes: int = field(name="Bytes Read", default=0)
    rows: int = field(name="Records Read", default=0)


class Output(Struct, gc=False):
    bytes: int = field(name="Bytes Written", default=0)
    rows: int = field(name="Records Written", default=0)


class TaskMetrics(Struct, gc=False):
    deserialize_time: int = field(name="Executor Deserialize Time", default=0)
    run_time: int = field(name="Executor Run Time", default=0)
    cpu_time: int = field(name="Executor CPU Time", default=0)
    peak_memory: int = field(name="Peak Execution Memory", default=0)
    result_size: int = field(name="Result Size", default=0)
    gc_time: int = field(name="JVM GC Time", default=0)
    memory_spilled: int = field(name="Memory Bytes Spilled", default=0)
    disk_spilled: int = field(name="Disk Bytes Spilled", default=0)
    shuffle_read: ShuffleRead = field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    shuffle_write: ShuffleWrite = field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)
    input: Input = field(name="Input Metrics", default_factory=Input)
    output: Output = field(name="Output Metrics", default_factory=Output)


class TaskEnd(Struct, gc=False):
    stage: int = field(name="Stage ID")
    attempt: int = field(name="Stage Attempt ID", default=0)
    task: TaskInfo | None = field(name="Task Info", default=None)
    metrics: TaskMetrics | None = field(name="Task Metrics", default=None)


Event = (
    LogStart
    | ApplicationStart
    | ApplicationEnd
    | EnvironmentUpdate
    | ExecutionStart
    | AdaptiveUpdate
    | MetricUpdates
    | DriverUpdates
    | ExecutionEnd
    | JobStart
    | JobEnd
    | StageSubmitted
    | StageCompleted
)
"""All but the ends of tasks, which come by the thousand and are read apart."""

TASK_END = b"SparkListenerTaskEnd"
_TYPES: dict[str, type[Event]] = {
    "SparkListenerLogStart": LogStart,
    "SparkListenerApplicationStart": ApplicationStart,
    "SparkListenerApplicationEnd": ApplicationEnd,
    "SparkListenerEnvironmentUpdate": EnvironmentUpdate,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    f"{SQL}SQLExecutionStart": ExecutionStart,
    f"{SQL}SQLAdaptiveExecutionUpdate": AdaptiveUpdate,
    f"{SQL}SQLAdaptiveSQLMetricUpdates": MetricUpdates,
    f"{SQL}DriverAccumUpdates": DriverUpdates,
    f"{SQL}SQLExecutionEnd": ExecutionEnd,
}
DECODERS: dict[bytes, msgspec.json.Decoder[Any]] = {
    name.encode(): msgspec.json.Decoder(its_type) for name, its_type in _TYPES.items()
}
TASK_ENDS: msgspec.json.Decoder[TaskEnd] = msgspec.json.Decoder(TaskEnd)


class Named(Struct, gc=False):
    """An event of any kind."""

    event: str = field(name="Event")


NAMES: msgspec.json.Decoder[Named] = msgspec.json.Decoder(Named)
