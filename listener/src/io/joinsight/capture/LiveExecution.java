package io.joinsight.capture;

import io.joinsight.redaction.Redaction;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The state of a running SQL execution, from its events so far. Used by the listener's thread only. */
final class LiveExecution {
  static final class Job {
    final int id;
    final long submittedAt;
    final int[] stages;
    String state = "running";
    Long endedAt;

    Job(int id, long submittedAt, int[] stages) {
      this.id = id;
      this.submittedAt = submittedAt;
      this.stages = stages;
    }

    Job copy() {
      Job copy = new Job(id, submittedAt, stages);
      copy.state = state;
      copy.endedAt = endedAt;
      return copy;
    }
  }

  /** An execution that this one started: a command's query, or what the function of foreachBatch runs. */
  static final class Nested {
    final long id;
    final long startedAt;
    Long endedAt;

    Nested(long id, long startedAt) {
      this.id = id;
      this.startedAt = startedAt;
    }

    Nested copy() {
      Nested copy = new Nested(id, startedAt);
      copy.endedAt = endedAt;
      return copy;
    }
  }

  static final class Plan {
    final long at;
    final PlanNode root;
    final long heapBytes; // approximate

    Plan(long at, PlanNode root, long heapBytes) {
      this.at = at;
      this.root = root;
      this.heapBytes = heapBytes;
    }
  }

  /** Plans kept in a document: the first ones and the newest ones, half each; those between are only counted. */
  static final int MAX_PLANS = 50;

  /** Nested executions kept in a document: the first ones. */
  static final int MAX_NESTED = 1000;

  /** The longest pause between two documents of a running execution that changes, in nanoseconds. */
  private static final long MAX_PAUSE = 60_000_000_000L;

  static final int BYTES = 2000; // approximate, without plans and stages
  private static final long JOB_BYTES = 150; // approximate
  private static final long NESTED_BYTES = 100; // approximate

  final long id;
  long rootId;
  long outerId; // the execution in which this one began; its own id if it is the outermost
  long startedAt;
  Long endedAt;
  String error;
  boolean endTellsError; // with an empty text if it succeeded; logs of Spark before 3.4 do not have it
  String jobError; // of the first job that failed
  boolean startSeen;
  String description = "";
  String callSite = "";
  String statement; // its SQL text; null: it has none, or has not ended
  String jobGroup;
  String[] jobTags = new String[0];
  RequestedBy requestedBy = RequestedBy.UNKNOWN;
  String streamingQueryId;
  String streamingBatchId;
  Map<String, String> configuration = new LinkedHashMap<>();
  Redaction redaction; // the session's, once the start event has come
  final List<Plan> plans = new ArrayList<>();
  int plansDropped;
  List<JoinHint> joinHints = Collections.emptyList(); // known at the end
  final List<PlanMetric> metricUpdates = new ArrayList<>();
  final RegisteredMetrics registered = new RegisteredMetrics();
  final Map<Integer, Job> jobs = new LinkedHashMap<>();
  final Map<Long, Nested> nested = new LinkedHashMap<>();
  final Set<Integer> stages = new LinkedHashSet<>();
  final Map<Long, StageAttempt> attempts = new LinkedHashMap<>();
  private long[] driverUpdates = new long[16];
  private int driverUpdateLength;

  /** The tasks' values at the query's end, by stage; null before, and once its jobs have ended too. */
  Map<Integer, StageValues> valuesAtEnd;

  /** The values once the query and its jobs have ended; null before. */
  List<AccumulatorValues> finalValues;

  int endEvents;
  boolean changed = true;
  boolean emitted;
  boolean approximated;
  boolean abandoned;
  boolean lost; // its event log is complete, but has no end of this execution
  boolean reported; // emitted after its query and all its jobs had ended
  final Map<String, Incomplete> gaps = new LinkedHashMap<>(); // gaps in its event log, by text
  Long eventsDroppedBefore; // Spark's count when this execution's first event came
  long eventsDropped;

  private Long firstProgress; // nanoseconds, as lastProgress; null: none yet
  private long lastProgress;

  LiveExecution(long id) {
    this.id = id;
    this.rootId = id;
    this.outerId = id;
  }

  void addPlan(Plan plan, Memory memory) {
    if (plans.size() == MAX_PLANS) {
      memory.add(-plans.remove(MAX_PLANS / 2).heapBytes);
      plansDropped++;
    }
    plans.add(plan);
    memory.add(plan.heapBytes);
  }

  /** Drops all plans except the first and the last; returns false if there are no others. */
  boolean dropPlans(Memory memory) {
    if (plans.size() < 3) return false;
    List<Plan> between = plans.subList(1, plans.size() - 1);
    for (Plan plan : between) memory.add(-plan.heapBytes);
    plansDropped += between.size();
    between.clear();
    return true;
  }

  /** Approximate heap use, without the values of its running tasks. */
  long heapBytes() {
    long bytes = BYTES;
    for (Plan plan : plans) bytes += plan.heapBytes;
    for (StageAttempt attempt : attempts.values()) bytes += attempt.heapBytes();
    return bytes + bytesAtEnd();
  }

  long bytesAtEnd() {
    long bytes = 0;
    if (valuesAtEnd != null)
      for (StageValues values : valuesAtEnd.values()) bytes += values.heapBytes();
    return bytes;
  }

  /** Approximate heap use once it has finished. */
  long bytesWhenFinished() {
    long bytes = bytesWithoutValues();
    for (AccumulatorValues values : finalValues) bytes += values.heapBytes();
    return bytes;
  }

  long bytesWithoutValues() {
    long parts = JOB_BYTES * jobs.size() + NESTED_BYTES * nested.size();
    return heapBytes() + textBytes() + parts + Long.BYTES * driverUpdates.length;
  }

  /** Approximate heap use of its texts. */
  long textBytes() {
    return description.length() + callSite.length() + (error == null ? 0 : error.length())
        + (jobError == null ? 0 : jobError.length()) + (statement == null ? 0 : statement.length());
  }

  /** The last started of the executions nested in this one that run, or this one. */
  long innermost() {
    return innermost(id, nested.values());
  }

  static long innermost(long id, Iterable<Nested> nested) {
    long found = id;
    for (Nested each : nested) {
      if (each.endedAt == null) found = each.id;
    }
    return found;
  }

  void addNested(long nestedId, long at) {
    if (nested.size() < MAX_NESTED) nested.put(nestedId, new Nested(nestedId, at));
  }

  /** Adds a value: a later update of the same accumulator does not replace an earlier one. */
  void addDriverUpdate(long accumulator, long value) {
    if (driverUpdateLength == driverUpdates.length) {
      driverUpdates = java.util.Arrays.copyOf(driverUpdates, 2 * driverUpdateLength);
    }
    driverUpdates[driverUpdateLength++] = accumulator;
    driverUpdates[driverUpdateLength++] = value;
  }

  /** Pairs of accumulator id and value, in the order of arrival. */
  long[] driverUpdates() {
    return java.util.Arrays.copyOf(driverUpdates, driverUpdateLength);
  }

  /**
   * Whether to report its progress at this time, in nanoseconds; if so, it counts as reported. The pauses are a tenth of
   * the time since it was first reported, for each document costs the collector as much as the last one.
   */
  boolean isProgressDue(long now) {
    if (firstProgress == null) firstProgress = now;
    else if (now - lastProgress < Math.min(MAX_PAUSE, (now - firstProgress) / 10)) return false;
    lastProgress = now;
    return true;
  }

  /** Why it failed; null if it did not. As in Spark's UI, its jobs tell where its end does not. */
  String failure() {
    return ended() && !endTellsError ? jobError : error;
  }

  boolean ended() {
    return endedAt != null;
  }
}
