package io.joinsight;

import java.util.ArrayList;
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

    Plan(long at, SparkPlanInfo root) {
      this.at = at;
      this.root = root;
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
  final List<Plan> plans = new ArrayList<>();
  int plansDropped;
  final List<AnnouncedMetric> announcedAlone = new ArrayList<>();
  final Announced announced = new Announced();
  final Map<Integer, Job> jobs = new LinkedHashMap<>();
  final Set<Integer> stages = new LinkedHashSet<>();
  final Map<Long, StageAttempt> attempts = new LinkedHashMap<>();
  private long[] driverUpdates = new long[16];
  private int driverUpdateLength;

  /** The values as they were when the execution ended; null while it runs. */
  List<Measured> finalValues;

  int endEvents;
  boolean changed = true;
  boolean emitted;

  LiveExecution(long id) {
    this.id = id;
    this.rootId = id;
  }

  void addPlan(long at, SparkPlanInfo root) {
    if (plans.size() == MAX_PLANS) {
      plans.remove(MAX_PLANS / 2);
      plansDropped++;
    }
    plans.add(new Plan(at, root));
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

  boolean jobsEnded() {
    for (Job job : jobs.values()) if (job.endedAt == null) return false;
    return true;
  }

  static long attemptKey(int stageId, int attempt) {
    return ((long) stageId << 32) | attempt;
  }
}
