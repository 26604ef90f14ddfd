package io.joinsight;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** An execution as it was at one moment: what the listener's thread hands to the sender's thread, changed by neither. */
final class Snapshot {
  /** What is left of a snapshot that was dropped. */
  static final class Name {
    final long executionId;
    final boolean isFinal;

    Name(long executionId, boolean isFinal) {
      this.executionId = executionId;
      this.isFinal = isFinal;
    }
  }

  final long executionId;
  final long rootId;
  final String state;
  final long startedAt;
  final Long endedAt;
  final String error;
  final String description;
  final String callSite;
  final String jobGroup;
  final String[] jobTags;
  final String streamingQueryId;
  final String streamingBatchId;
  final Map<String, String> configuration;
  final Redaction redaction;
  final List<LiveExecution.Plan> plans;
  final int plansDropped;
  final List<JoinHint> joinHints;
  final List<LiveExecution.AnnouncedMetric> announcedAlone;
  final List<Measured> values;
  final List<LiveExecution.Job> jobs = new ArrayList<>();
  final List<StageAttempt> stages = new ArrayList<>();
  final List<String> incomplete = new ArrayList<>();
  final long heapBytes; // about

  Snapshot(LiveExecution e, List<Measured> values) {
    executionId = e.id;
    rootId = e.rootId;
    state = !e.ended() ? "running" : e.error == null ? "succeeded" : "failed";
    startedAt = e.startedAt;
    endedAt = e.endedAt;
    error = e.error;
    description = e.description;
    callSite = e.callSite;
    jobGroup = e.jobGroup;
    jobTags = e.jobTags;
    streamingQueryId = e.streamingQueryId;
    streamingBatchId = e.streamingBatchId;
    configuration = e.configuration;
    redaction = e.redaction;
    plans = new ArrayList<>(e.plans);
    plansDropped = e.plansDropped;
    joinHints = e.joinHints;
    announcedAlone = new ArrayList<>(e.announcedAlone);
    this.values = values;
    for (LiveExecution.Job job : e.jobs.values()) jobs.add(job.copy());
    for (StageAttempt attempt : e.attempts.values()) stages.add(attempt.copy());
    if (!e.startSeen) incomplete.add("its start was not seen");
    for (StageAttempt a : stages) {
      if (a.completed && a.failure == null && a.succeeded < a.tasks) {
        incomplete.add((a.tasks - a.succeeded) + " of " + a.tasks + " task ends of stage " + a.stageId + " were not seen");
      }
    }
    long bytes = 1000;
    for (LiveExecution.Plan plan : plans) bytes += plan.heapBytes;
    for (Measured measured : values) bytes += measured.heapBytes();
    for (StageAttempt attempt : stages) bytes += attempt.heapBytes();
    heapBytes = bytes;
    if (e.eventsDropped > 0) incomplete.add("Spark dropped " + e.eventsDropped + " events while it ran");
    if (e.approximated) incomplete.add("values of large stages were approximated at the listener's memory limit");
    if (e.abandoned) incomplete.add("it was no longer followed, at the listener's memory limit");
    if (plansDropped > 0) incomplete.add(plansDropped + " of its re-plans were not kept");
  }

  boolean isFinal() {
    return endedAt != null;
  }
}
