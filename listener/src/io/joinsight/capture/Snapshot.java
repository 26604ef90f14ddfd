package io.joinsight.capture;

import io.joinsight.redaction.Redaction;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** An execution's state at one moment, passed from the listener's thread to the sender's and changed by neither. */
public final class Snapshot {
  public final long executionId;
  public final boolean startSeen;
  final long rootId;
  final String state;
  final long startedAt;
  final Long endedAt;
  final Long reportedAt; // null: it has ended, or comes from a log
  final String error;
  final String description;
  final String callSite;
  final String statement;
  final String jobGroup;
  final String[] jobTags;
  final RequestedBy requestedBy;
  final String streamingQueryId;
  final String streamingBatchId;
  final Map<String, String> configuration;
  final Redaction redaction;
  final List<LiveExecution.Plan> plans;
  final int plansDropped;
  final List<JoinHint> joinHints;
  final List<PlanMetric> metricUpdates;
  final List<AccumulatorValues> values;
  final List<LiveExecution.Job> jobs = new ArrayList<>();
  final List<StageAttempt> stages = new ArrayList<>();
  final List<LiveExecution.Nested> nested = new ArrayList<>();
  public final List<Incomplete> incomplete = new ArrayList<>();
  public final long heapBytes; // approximate

  Snapshot(LiveExecution e, List<AccumulatorValues> values, Long reportedAt) {
    executionId = e.id;
    startSeen = e.startSeen;
    rootId = e.rootId;
    state = !e.ended() ? (e.lost ? "lost" : "running") : e.failure() == null ? "succeeded" : "failed";
    startedAt = e.startedAt;
    endedAt = e.endedAt;
    this.reportedAt = reportedAt;
    error = e.failure();
    description = e.description;
    callSite = e.callSite;
    statement = e.statement;
    jobGroup = e.jobGroup;
    jobTags = e.jobTags;
    requestedBy = e.requestedBy;
    streamingQueryId = e.streamingQueryId;
    streamingBatchId = e.streamingBatchId;
    configuration = e.configuration;
    redaction = e.redaction;
    plans = new ArrayList<>(e.plans);
    plansDropped = e.plansDropped;
    joinHints = e.joinHints;
    metricUpdates = new ArrayList<>(e.metricUpdates);
    this.values = values;
    for (LiveExecution.Job job : e.jobs.values()) jobs.add(job.copy());
    for (StageAttempt attempt : e.attempts.values()) stages.add(attempt.copy());
    for (LiveExecution.Nested each : e.nested.values()) nested.add(each.copy());
    if (!startSeen) incomplete.add(new Incomplete("start_not_seen"));
    for (StageAttempt a : stages) {
      if (a.completed && a.failure == null && a.succeeded < a.tasks) {
        int missing = a.tasks - a.succeeded;
        incomplete.add(new Incomplete("task_ends_not_seen", "missing", missing, "tasks", a.tasks, "stage", a.stageId));
      }
    }
    incomplete.addAll(e.gaps.values());
    long bytes = 1000 + e.textBytes();
    for (LiveExecution.Plan plan : plans) bytes += plan.heapBytes;
    for (AccumulatorValues each : values) bytes += each.heapBytes();
    for (StageAttempt attempt : stages) bytes += attempt.heapBytes();
    heapBytes = bytes;
    if (e.eventsDropped > 0) incomplete.add(new Incomplete("events_dropped", "events", e.eventsDropped));
    if (e.approximated) incomplete.add(new Incomplete("values_approximated"));
    if (e.abandoned) incomplete.add(new Incomplete("not_followed"));
    if (plansDropped > 0) incomplete.add(new Incomplete("plans_dropped", "plans", plansDropped));
  }

  public boolean isFinal() {
    return endedAt != null;
  }
}
