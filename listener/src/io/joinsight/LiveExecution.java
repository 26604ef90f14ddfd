package io.joinsight;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.execution.SparkPlanInfo;

/** A SQL execution while it runs, as the events told it so far. Touched by the listener's thread only. */
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

  static final class Plan {
    final long at;
    final SparkPlanInfo root;
    final long heapBytes; // about

    Plan(long at, SparkPlanInfo root, long heapBytes) {
      this.at = at;
      this.root = root;
      this.heapBytes = heapBytes;
    }
  }

  static final class AnnouncedMetric {
    final String name;
    final long id;
    final String type;

    AnnouncedMetric(String name, long id, String type) {
      this.name = name;
      this.id = id;
      this.type = type;
    }
  }

  /** Re-plans kept in a document: the first half of them and the newest; what lies between is counted only. */
  static final int MAX_PLANS = 50;

  static final int BYTES = 2000; // about, without its plans and stages
  private static final long JOB_BYTES = 150; // about

  final long id;
  long rootId;
  long startedAt;
  Long endedAt;
  String error;
  boolean startSeen;
  String description = "";
  String callSite = "";
  String jobGroup;
  String[] jobTags = new String[0];
  String streamingQueryId;
  String streamingBatchId;
  Map<String, String> configuration = new LinkedHashMap<>();
  Redaction redaction; // of its session, once its start was seen
  final List<Plan> plans = new ArrayList<>();
  int plansDropped;
  List<JoinHint> joinHints = Collections.emptyList(); // known at the end
  final List<AnnouncedMetric> announcedAlone = new ArrayList<>();
  final Announced announced = new Announced();
  final Map<Integer, Job> jobs = new LinkedHashMap<>();
  final Set<Integer> stages = new LinkedHashSet<>();
  final Map<Long, StageAttempt> attempts = new LinkedHashMap<>();
  private long[] driverUpdates = new long[16];
  private int driverUpdateLength;

  /** What tasks had reported when the query ended, by stage; null before, and when its jobs have ended too. */
  Map<Integer, StageValues> valuesAtEnd;

  /** The values when the query and its jobs had ended; null before. */
  List<Measured> finalValues;

  int endEvents;
  boolean changed = true;
  boolean emitted;
  boolean approximated;
  boolean abandoned;
  Long eventsDroppedBefore; // of all that Spark dropped, before this one was heard of
  long eventsDropped;

  LiveExecution(long id) {
    this.id = id;
    this.rootId = id;
  }

  void addPlan(Plan plan, Memory memory) {
    if (plans.size() == MAX_PLANS) {
      memory.add(-plans.remove(MAX_PLANS / 2).heapBytes);
      plansDropped++;
    }
    plans.add(plan);
    memory.add(plan.heapBytes);
  }

  /** Drops all plans but the first and the last; false if there are no others. */
  boolean dropPlans(Memory memory) {
    if (plans.size() < 3) return false;
    List<Plan> between = plans.subList(1, plans.size() - 1);
    for (Plan plan : between) memory.add(-plan.heapBytes);
    plansDropped += between.size();
    between.clear();
    return true;
  }

  /** About what it keeps on the heap, without what its tasks measure while it runs. */
  long heapBytes() {
    long bytes = BYTES;
    for (Plan plan : plans) bytes += plan.heapBytes;
    for (StageAttempt attempt : attempts.values()) bytes += attempt.heapBytes();
    return bytes + bytesAtEnd();
  }

  long bytesAtEnd() {
    long bytes = 0;
    if (valuesAtEnd != null) for (StageValues values : valuesAtEnd.values()) bytes += values.heapBytes();
    return bytes;
  }

  /** About what it keeps on the heap when it is over. */
  long bytesWhenOver() {
    long bytes = bytesWithoutValues();
    for (Measured measured : finalValues) bytes += measured.heapBytes();
    return bytes;
  }

  long bytesWithoutValues() {
    long texts = description.length() + callSite.length() + (error == null ? 0 : error.length());
    return heapBytes() + texts + JOB_BYTES * jobs.size() + Long.BYTES * driverUpdates.length;
  }

  /** Several driver updates of one accumulator are several values: none replaces another. */
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

  boolean ended() {
    return endedAt != null;
  }

  static long attemptKey(int stageId, int attempt) {
    return ((long) stageId << 32) | attempt;
  }
}
