package io.joinsight.capture;

import io.joinsight.sampling.StartedTasks;
import io.joinsight.sampling.TaskSamples;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The state of the running executions, updated by each event under the rules of Spark's own UI store. Events come from
 * a running driver through {@link SparkEvents}, or from an event log through {@link LogEvents}.
 *
 * <p>Called by one thread only, so there are no locks. An execution goes to the consumer as a {@link Snapshot} when it
 * ends and when progress is requested.
 */
public final class Executions {
  /**
   * Finished executions may take 1/4 of the memory limit for running ones in addition, and each of them 1/4 of that.
   */
  private static final int FINISHED_PART = 4;

  /** Approximate heap use of a plan's node without its text, and of a metric with its entry in RegisteredMetrics. */
  private static final int PLAN_NODE_BYTES = 150;

  private static final int METRIC_BYTES = 90;

  /** The last statements of a Thrift server; an execution starts soon after its statement. */
  private static final int MAX_STATEMENTS = 1_000;
  private static final int MAX_EARLY = 100;
  private static final int MAX_LAST_NODES = 1_000;

  /** Approximating a smaller stage would save little, because histograms take memory, too. */
  private static final int MIN_BYTES_TO_APPROXIMATE = 512 * 1024;

  /** Local properties of jobs that are used. */
  public static final String EXECUTION_ID = StartedTasks.EXECUTION_ID;

  private static final String JOB_GROUP = "spark.jobGroup.id";
  private static final String JOB_TAGS = "spark.job.tags";
  private static final String STREAMING_QUERY = "sql.streaming.queryId";
  private static final String STREAMING_BATCH = "streaming.sql.batchId";
  public static final List<String> PROPERTIES =
      Arrays.asList(EXECUTION_ID, JOB_GROUP, JOB_TAGS, STREAMING_QUERY, STREAMING_BATCH);

  private final Consumer<Snapshot> out;
  private final Application application;
  private final Memory memory;
  private final TaskSlots slots;
  private final Map<String, String> nodes = new HashMap<>(); // by executor
  /** Those of the executors that were removed last, whose tasks may end later. */
  private final Map<String, String> lastNodes = new BoundedMap<>(MAX_LAST_NODES);
  private final Map<Long, LiveExecution> live = new LinkedHashMap<>();
  private final Map<Integer, StageValues> stageValues = new LinkedHashMap<>();
  private final Map<Integer, LiveExecution> executionOfStage = new LinkedHashMap<>();
  private final Map<Integer, LiveExecution> executionOfJob = new LinkedHashMap<>();
  private final Map<String, RequestedBy> statements = new BoundedMap<>(MAX_STATEMENTS);
  /** What executions started before their own start came, which Spark may tell after planning; by both ids. */
  private final Map<Long, Map<Long, LiveExecution.Nested>> early = new BoundedMap<>(MAX_EARLY);
  private final BitSet finishedIds = new BitSet(); // so that late events are not taken for a new execution

  /**
   * The last of these, whole: jobs may start long after their query's end (toLocalIterator, a DataFrame in use). Also
   * executions that are no longer followed, until they end.
   */
  private final Map<Long, LiveExecution> finished = new LinkedHashMap<>();
  private long finishedBytes; // approximate; computed again when it reaches the limit

  // The stage of the last task event, cached because consecutive events often have the same stage; see forgetStage
  private int lastStage = -1;
  private StageValues lastValues;
  private StageAttempt lastAttempt;
  private LiveExecution lastExecution;
  private boolean lastIsFinished; // killed tasks end after their execution

  /** {@code memoryLimit}: approximate limit in bytes for the heap that running executions take. */
  public Executions(Application application, long memoryLimit, Consumer<Snapshot> out) {
    this.application = application;
    this.out = out;
    memory = new Memory(memoryLimit);
    slots = new TaskSlots(application);
  }

  /**
   * {@code profile}: the id of its resource profile. {@code node}: the attribute of this name, which counts as its host,
   * because Spark's name of a host is an address of a pod on Kubernetes; may be null.
   */
  public void executorAdded(String executor, int cores, int profile, String node) {
    slots.added(executor, cores, profile);
    if (node != null && !node.isEmpty()) nodes.put(executor, node);
  }

  public void executorRemoved(String executor) {
    slots.removed(executor);
    String node = nodes.remove(executor);
    if (node != null) lastNodes.put(executor, node);
  }

  private String hostOf(String executor, String host) {
    String node = nodes.get(executor);
    return node != null ? node : lastNodes.getOrDefault(executor, host);
  }

  /** Notes that it is unknown which executors there are. */
  void executorsMissed() {
    slots.miss();
  }

  private void countSlots(StageAttempt attempt) {
    if (attempt.completed || attempt.profile != TaskSlots.DEFAULT_PROFILE) return;
    attempt.slots = Math.max(attempt.slots, slots.count());
  }

  /** A Thrift server starts a statement, with a job group of its own. */
  public void statementStarted(String group, String user, String sessionId) {
    if (group != null) statements.put(group, RequestedBy.statement(user, sessionId, group));
  }

  // SQL events

  /** {@code rootId}, {@code group} and {@code plan} may be null. */
  public void start(
      long id, Long rootId, long time, String description, String callSite, Map<String, String> modified, String[] tags,
      String group, PlanNode plan) {
    LiveExecution e = getOrCreate(id, time);
    e.startSeen = true;
    if (!e.emitted) e.startedAt = time; // it is part of the key of emitted documents
    e.rootId = rootId == null ? id : rootId;
    LiveExecution root = e.rootId == id ? null : live.get(e.rootId);
    if (root != null) {
      e.outerId = root.innermost();
      root.addNested(id, time);
    } else if (e.rootId != id && !isFinished(e.rootId)) {
      Map<Long, LiveExecution.Nested> its = early.computeIfAbsent(e.rootId, each -> new LinkedHashMap<>());
      e.outerId = LiveExecution.innermost(e.rootId, its.values());
      if (its.size() < LiveExecution.MAX_NESTED) its.put(id, new LiveExecution.Nested(id, time));
    }
    if (e.outerId != e.rootId && e.outerId != id && live.containsKey(e.outerId)) {
      live.get(e.outerId).addNested(id, time);
    }
    Map<Long, LiveExecution.Nested> before = early.remove(id);
    if (before != null) {
      for (LiveExecution.Nested each : before.values()) {
        if (each.startedAt >= time) e.nested.put(each.id, each); // else it is not of its time
      }
    }
    e.description = description;
    e.callSite = callSite;
    e.redaction = application.settings.redaction.ofSession(modified);
    e.configuration = application.settings.sessionConfiguration(modified, e.redaction);
    if (tags.length > 0) e.jobTags = tags;
    if (group != null) e.jobGroup = group;
    setRequestedBy(e);
    if (plan != null) plan(e, time, plan);
  }

  private static void endNested(LiveExecution in, long id, long time) {
    if (in != null && in.nested.containsKey(id)) in.nested.get(id).endedAt = time;
  }

  private void setRequestedBy(LiveExecution e) {
    e.requestedBy = RequestedBy.of(e.jobTags, statements.get(e.jobGroup));
  }

  public void adaptiveUpdate(long id, long now, PlanNode plan) {
    if (!isFinished(id)) plan(getOrCreate(id, now), now, plan);
  }

  public void metricUpdates(long id, long now, List<PlanMetric> metrics) {
    if (isFinished(id)) return;
    LiveExecution e = getOrCreate(id, now);
    for (PlanMetric metric : metrics) e.registered.add(metric.id, metric.type);
    e.metricUpdates.addAll(metrics);
    e.changed = true;
  }

  /**
   * Adds a value of the driver. After the end of the query it counts as long as jobs run, as in Spark's UI if the value
   * comes early enough.
   */
  public void driverUpdate(long id, long accumulator, long value) {
    LiveExecution e = live.get(id);
    if (e == null || e.finalValues != null) return;
    e.addDriverUpdate(accumulator, value);
    e.changed = true;
  }

  /**
   * {@code error}: empty if the query succeeded, null if it is not known; only then {@code joinHints} is called.
   * {@code statement}: null if it has none.
   */
  public void end(long id, long time, String error, String statement, Supplier<List<JoinHint>> joinHints) {
    LiveExecution e = live.get(id);
    boolean isFollowed = e != null;
    if (!isFollowed) e = finished.get(id);
    if (e == null || e.ended()) return;
    e.endedAt = time;
    endNested(live.get(e.rootId), id, time);
    endNested(live.get(e.outerId), id, time);
    Map<Long, LiveExecution.Nested> its = early.get(e.rootId);
    if (its != null && its.containsKey(id)) its.get(id).endedAt = time;
    e.error = error == null || error.isEmpty() ? null : error;
    e.endTellsError = error != null;
    e.endEvents++;
    e.statement = statement;
    if (e.error == null && !e.plans.isEmpty()) e.joinHints = joinHints.get();
    if (!isFollowed) {
      emit(e);
      return;
    }
    countDrops(e);
    freeze(e);
    // The History Server, unlike the UI, shows the values at the query's end
    if (isFinished(e) || !application.isLive) e.finalValues = values(e);
    if (isFinished(e)) {
      report(e);
      remove(e);
    } else if (application.isLive) {
      emit(e);
    }
  }

  private void plan(LiveExecution e, long at, PlanNode root) {
    e.changed = true;
    long bytes = 0;
    ArrayList<PlanNode> open = new ArrayList<>(); // plans can be thousands of levels deep: no recursion
    open.add(root);
    while (!open.isEmpty()) {
      PlanNode node = open.remove(open.size() - 1);
      bytes += PLAN_NODE_BYTES + node.simple.length() + METRIC_BYTES * node.metrics.size();
      for (PlanMetric metric : node.metrics) e.registered.add(metric.id, metric.type);
      open.addAll(node.children);
    }
    e.addPlan(new LiveExecution.Plan(at, root, bytes), memory);
    if (memory.isExceeded()) shedMemory();
  }

  private boolean isFinished(long id) {
    return finishedIds.get((int) id) && !live.containsKey(id); // a late job makes an execution live again
  }

  private static boolean isFinished(LiveExecution e) {
    return e.endEvents > e.jobs.size();
  }

  private LiveExecution getOrCreate(long id, long now) {
    LiveExecution e = live.get(id);
    if (e == null) {
      e = new LiveExecution(id);
      e.startedAt = now;
      e.redaction = application.settings.redaction;
      e.eventsDroppedBefore = application.droppedEvents();
      memory.add(LiveExecution.BYTES);
      live.put(id, e);
    }
    return e;
  }

  // Jobs and stages

  /** {@code properties}: returns a local property of the job, null if it is not set. */
  public void jobStart(int jobId, long time, Function<String, String> properties, List<Stage> stages) {
    String executionId = properties.apply(EXECUTION_ID);
    if (executionId == null) return;
    long id = Long.parseLong(executionId);
    LiveExecution e = live.get(id);
    if (e == null && isFinished(id)) {
      e = finished.get(id);
      if (e == null || e.abandoned) return;
      finished.remove(id);
      finishedBytes -= e.bytesWithoutValues();
      live.put(id, e); // the job is added, the values stay unchanged
      memory.add(e.heapBytes());
    }
    if (e == null) e = getOrCreate(id, time);
    String group = properties.apply(JOB_GROUP);
    if (e.jobGroup == null && group != null) e.jobGroup = group;
    String tags = properties.apply(JOB_TAGS);
    if (e.jobTags.length == 0 && tags != null && !tags.isEmpty()) e.jobTags = tags.split(",");
    if (e.jobs.isEmpty()) setRequestedBy(e); // before 4.0, events of executions have no job group
    e.streamingQueryId = properties.apply(STREAMING_QUERY);
    e.streamingBatchId = properties.apply(STREAMING_BATCH);

    boolean measured = !e.registered.isEmpty();
    RegisteredMetrics registered = application.stagesSeeLaterMetrics() ? e.registered : e.registered.snapshot();
    int[] ids = new int[stages.size()];
    for (int i = 0; i < ids.length; i++) {
      Stage stage = stages.get(i);
      ids[i] = stage.id;
      if (measured) put(new StageValues(stage.id, 0, stage.tasks, registered, memory));
      executionOfStage.put(stage.id, e);
      e.stages.add(stage.id);
      e.attempts.computeIfAbsent(TaskSamples.attemptKey(stage.id, 0), key -> new StageAttempt(stage, 0, memory));
    }
    e.jobs.put(jobId, new LiveExecution.Job(jobId, time, ids));
    executionOfJob.put(jobId, e);
    e.changed = true;
    forgetStage();
  }

  /** {@code message}: why it failed; may be null. */
  public void jobEnd(int jobId, long time, boolean succeeded, String message) {
    LiveExecution e = executionOfJob.remove(jobId);
    if (e == null) return;
    LiveExecution.Job job = e.jobs.get(jobId);
    job.state = succeeded ? "succeeded" : "failed";
    if (!succeeded && e.jobError == null) e.jobError = message == null ? "Job " + jobId + " failed" : message;
    job.endedAt = time;
    e.endEvents++;
    e.changed = true;
    if (!isFinished(e)) return;
    if (e.finalValues == null) e.finalValues = values(e);
    if (!e.reported) report(e); // late jobs may be thousands, so they are reported with the progress
    remove(e);
  }

  public void stageSubmitted(Stage stage) {
    LiveExecution e = executionOfStage.get(stage.id);
    if (e == null) return;
    long key = TaskSamples.attemptKey(stage.id, stage.attempt);
    StageAttempt attempt = e.attempts.get(key);
    // A job announces all tasks of a stage; Spark submits only those whose output is missing, after an executor was lost
    if (attempt == null || attempt.tasks != stage.tasks) {
      if (attempt != null) memory.add(-attempt.heapBytes());
      attempt = new StageAttempt(stage, stage.attempt, memory);
      e.attempts.put(key, attempt);
    }
    attempt.submittedAt = stage.submittedAt;
    countSlots(attempt);
    StageValues values = stageValues.get(stage.id);
    if (values != null && values.attempt != stage.attempt) put(values.forAttempt(stage.attempt));
    e.changed = true;
    forgetStage();
  }

  public void stageCompleted(Stage stage) {
    LiveExecution e = executionOfStage.get(stage.id);
    if (e == null) return;
    StageAttempt attempt = e.attempts.get(TaskSamples.attemptKey(stage.id, stage.attempt));
    if (attempt == null) return;
    countSlots(attempt);
    attempt.completed = true;
    attempt.submittedAt = stage.submittedAt;
    attempt.completedAt = stage.completedAt;
    attempt.failure = stage.failure;
    e.changed = true;
  }

  private void put(StageValues values) {
    StageValues old = stageValues.put(values.stageId, values);
    if (old != null) memory.add(-old.heapBytes());
  }

  // Tasks

  void taskStart(int stageId, int stageAttempt, long taskId, int index, long launchedAt) {
    StageValues values = valuesOf(stageId, stageAttempt);
    if (values != null) values.started(taskId, index);
    StageAttempt attempt = attemptOf(stageId, stageAttempt);
    if (attempt != null) attempt.taskStarted(taskId, launchedAt);
  }

  /**
   * Records the end of a task; {@code executor} and {@code host}: where it ran; {@code totals} are in the order of {@link StageTotals}, null if the task has no metrics.
   * {@code wasLost}: it had succeeded before, and its executor was lost with its output, so Spark runs it again. The
   * caller writes the task's accumulators to the returned values and then calls {@link #taskReported}; null if the
   * task's values do not count.
   */
  public StageValues taskEnded(
      int stageId, int stageAttempt, int index, long taskId, String executor, String host, long launchedAt,
      long finishedAt, boolean success, boolean wasKilled, boolean wasLost, long[] totals) {
    StageValues values = valuesOf(stageId, stageAttempt);
    StageAttempt attempt = attemptOf(stageId, stageAttempt);
    if (attempt != null) {
      countSlots(attempt);
      if (lastIsFinished) memory.add(attempt.heapBytes()); // it was subtracted when the execution finished
      attempt.taskEnded(
          index, taskId, executor, hostOf(executor, host), launchedAt, finishedAt, success && !wasLost, wasKilled,
          totals);
      if (lastIsFinished) memory.add(-attempt.heapBytes());
      if (lastIsFinished) lastExecution.changed = true;
    }
    if (values == null) return null;
    values.stopped(taskId);
    return values.accepts(index) && (success || !values.isApproximate()) ? values : null;
  }

  public void taskReported(StageValues values, int index, boolean success) {
    if (success) values.succeeded(index);
    if (lastExecution != null) lastExecution.changed = true;
    if (memory.isExceeded()) shedMemory();
  }

  /** The values to write a heartbeat to, at the task's {@link StageValues#indexOf}; null if they do not count. */
  StageValues heartbeat(int stageId, int stageAttempt, long taskId) {
    StageValues values = valuesOf(stageId, stageAttempt);
    if (values == null || !values.accepts(values.indexOf(taskId)) || values.isApproximate()) return null;
    if (lastExecution != null) lastExecution.changed = true;
    return values;
  }

  /** Whether no execution runs. */
  public boolean isIdle() {
    return live.isEmpty();
  }

  /** Adds samples of a stage's tasks, which may come after the end of their execution. */
  public void samples(TaskSamples samples) {
    StageAttempt attempt = attemptOf(samples.stageId, samples.attempt);
    if (attempt == null) return;
    long bytes = attempt.heapBytes();
    attempt.addSamples(samples);
    if (!lastIsFinished) memory.add(attempt.heapBytes() - bytes);
    lastExecution.changed = true;
  }

  private StageValues valuesOf(int stageId, int attempt) {
    if (stageId != lastStage) cacheStage(stageId);
    return lastValues == null || lastValues.attempt != attempt ? null : lastValues;
  }

  private StageAttempt attemptOf(int stageId, int attempt) {
    if (stageId != lastStage) cacheStage(stageId);
    if (lastAttempt != null && lastAttempt.attempt == attempt) return lastAttempt;
    if (lastExecution == null) return null;
    lastAttempt = lastExecution.attempts.get(TaskSamples.attemptKey(stageId, attempt));
    return lastAttempt;
  }

  private void cacheStage(int stageId) {
    lastStage = stageId;
    lastValues = stageValues.get(stageId);
    lastExecution = executionOfStage.get(stageId);
    lastIsFinished = lastExecution != null && !live.containsKey(lastExecution.id);
    lastAttempt = null;
  }

  /** Its values may take megabytes, so nothing here may refer to them when their execution has ended. */
  private void forgetStage() {
    lastStage = -1;
    lastValues = null;
    lastAttempt = null;
    lastExecution = null;
  }

  // Results

  /** Whether jobs run whose execution has ended: Spark reports the end of a query's last job after that of the query. */
  public boolean awaitJobs() {
    for (LiveExecution e : live.values())
      if (e.ended()) return true;
    return false;
  }

  /** Emits each execution that changed since it was last emitted. */
  public void emitChanged() {
    for (LiveExecution e : live.values())
      if (e.changed) emit(e);
    emitChangedAfterTheirEnd();
  }

  /** The same, but leaves out those that run for long and were emitted lately; {@code now} in nanoseconds. */
  public void emitProgress(long now) {
    for (LiveExecution e : live.values())
      if (e.changed && e.isProgressDue(now)) emit(e);
    emitChangedAfterTheirEnd();
  }

  private void emitChangedAfterTheirEnd() {
    for (LiveExecution e : finished.values())
      if (e.changed) emit(e);
  }

  /** Notes that a part of the log is missing here, so the numbers of running executions may be partial. */
  public void gap(Incomplete reason) {
    slots.miss();
    for (LiveExecution e : live.values()) e.gaps.putIfAbsent(reason.text, reason);
  }

  /** Emits what remains at the end of a log. {@code isOpen}: its application may still be running. */
  public void finish(boolean isOpen, Incomplete why) {
    emitChangedAfterTheirEnd();
    for (LiveExecution e : live.values()) {
      e.lost = !isOpen;
      if (e.endEvents <= e.jobs.size()) e.gaps.put(why.text, why);
      emit(e);
    }
  }

  private void report(LiveExecution e) {
    e.reported = true;
    emit(e);
  }

  private void emit(LiveExecution e) {
    if (!e.ended()) countDrops(e);
    Long now = application.isLive && !e.ended() ? (Long) System.currentTimeMillis() : null;
    out.accept(new Snapshot(e, e.finalValues != null ? e.finalValues : values(e), now));
    e.changed = false;
    e.emitted = true;
  }

  private void countDrops(LiveExecution e) {
    Long dropped = application.droppedEvents();
    if (dropped != null && e.eventsDroppedBefore != null) e.eventsDropped = dropped - e.eventsDroppedBefore;
  }

  /** Fixes the values at the query's end; later reports of tasks do not change them. */
  private void freeze(LiveExecution e) {
    e.valuesAtEnd = new LinkedHashMap<>();
    for (int stageId : e.stages) {
      StageValues stage = stageValues.get(stageId);
      if (stage != null) e.valuesAtEnd.put(stageId, usedByAnother(stageId, e) ? stage.copy() : stage);
    }
    dropStages(e);
    memory.add(e.bytesAtEnd());
  }

  /** Copies of the values of all registered accumulators, which tasks no longer change. */
  private List<AccumulatorValues> values(LiveExecution e) {
    Map<Long, AccumulatorValues> byId = new LinkedHashMap<>();
    for (int stageId : e.stages) {
      StageValues read = e.valuesAtEnd != null ? e.valuesAtEnd.get(stageId) : stageValues.get(stageId);
      if (read == null) continue;
      if (e.valuesAtEnd == null) read = read.copy();
      for (int i = 0; i < read.slots(); i++) {
        String type = e.registered.type(read.id(i));
        if (type == null || !read.hasValue(i)) continue;
        byId.computeIfAbsent(read.id(i), id -> new AccumulatorValues(id, type)).add(read, i);
      }
    }
    long[] updates = e.driverUpdates();
    for (int i = 0; i < updates.length; i += 2) {
      long value = updates[i + 1];
      String type = e.registered.type(updates[i]);
      if (type != null) byId.computeIfAbsent(updates[i], id -> new AccumulatorValues(id, type)).addDriver(value);
    }
    return byId.isEmpty() ? Collections.emptyList() : new ArrayList<>(byId.values());
  }

  private boolean usedByAnother(int stageId, LiveExecution e) {
    for (LiveExecution other : live.values())
      if (other != e && other.stages.contains(stageId)) return true;
    return false;
  }

  private void dropStages(LiveExecution e) {
    for (int stageId : e.stages) {
      if (usedByAnother(stageId, e)) continue;
      StageValues old = stageValues.remove(stageId);
      if (old != null) memory.add(-old.heapBytes());
    }
    forgetStage();
  }

  private void remove(LiveExecution e) {
    removeLive(e);
    keep(e);
  }

  /** Keeps a finished execution whole for late jobs, and as many earlier ones as the limit allows. */
  private void keep(LiveExecution e) {
    long limit = memory.limit / FINISHED_PART;
    long bytes = e.bytesWithoutValues(); // the queue's limit includes the values until they are aggregated
    if (bytes > limit / FINISHED_PART) {
      evict(e);
      return;
    }
    finishedBytes += bytes;
    if (finishedBytes > limit) {
      finishedBytes = bytes;
      for (LiveExecution each : finished.values()) finishedBytes += each.bytesWhenFinished();
      if (finishedBytes > limit) makeRoom(limit - limit / FINISHED_PART); // for several, because the sum takes time
    }
    finished.put(e.id, e);
  }

  private void makeRoom(long limit) {
    for (Iterator<LiveExecution> i = finished.values().iterator(); i.hasNext() && finishedBytes > limit;) {
      LiveExecution oldest = i.next();
      finishedBytes -= oldest.bytesWhenFinished();
      i.remove();
      evict(oldest);
    }
  }

  private void evict(LiveExecution e) {
    if (e.changed) emit(e);
    for (int stageId : e.stages) executionOfStage.remove(stageId, e);
    forgetStage();
  }

  private void removeLive(LiveExecution e) {
    dropStages(e);
    memory.add(-e.heapBytes());
    e.valuesAtEnd = null;
    live.remove(e.id);
    finishedIds.set((int) e.id);
    for (Iterator<LiveExecution> i = executionOfJob.values().iterator(); i.hasNext();)
      if (i.next() == e) i.remove();
    forgetStage();
  }

  // Memory

  /**
   * Frees memory: reduces the largest stages to distributions, then drops plans between the first and the last one,
   * then the longest-running executions. Each execution that this affects is marked as incomplete.
   */
  private void shedMemory() {
    while (memory.isExceeded() && (approximateLargest() || dropPlans() || dropOldest())) {}
  }

  private boolean approximateLargest() {
    LiveExecution owner = null;
    int largest = -1;
    long most = MIN_BYTES_TO_APPROXIMATE;
    for (LiveExecution e : live.values()) {
      for (StageAttempt attempt : e.attempts.values()) {
        StageValues values = stageValues.get(attempt.stageId);
        long bytes = attempt.isApproximate() ? 0 : attempt.heapBytes();
        if (values != null && !values.isApproximate()) bytes += values.heapBytes();
        if (bytes <= most) continue;
        owner = e;
        largest = attempt.stageId;
        most = bytes;
      }
    }
    if (owner == null) return false;
    for (StageAttempt attempt : owner.attempts.values()) {
      if (attempt.stageId == largest && !attempt.isApproximate()) attempt.approximate(memory);
    }
    StageValues values = stageValues.get(largest);
    if (values != null && !values.isApproximate()) values.approximate();
    for (LiveExecution e : live.values())
      if (e.stages.contains(largest)) e.approximated = true;
    return true;
  }

  private boolean dropPlans() {
    boolean any = false;
    for (LiveExecution e : live.values()) any |= e.dropPlans(memory);
    return any;
  }

  /** Reports all running executions as no longer followed. */
  public void abandonAll() {
    while (!live.isEmpty()) abandonOldest();
  }

  /** The state with which to go on after events were missed: of what ran before, later events are ignored. */
  public Executions afterGap() {
    Executions next = new Executions(application, memory.limit, out);
    next.finishedIds.or(finishedIds);
    for (long id : live.keySet()) next.finishedIds.set((int) id);
    next.nodes.putAll(nodes);
    next.lastNodes.putAll(lastNodes);
    return next;
  }

  private boolean dropOldest() {
    if (live.size() < 2) return false;
    abandonOldest();
    return true;
  }

  private void abandonOldest() {
    LiveExecution oldest = live.values().iterator().next();
    oldest.abandoned = true;
    oldest.finalValues = values(oldest);
    emit(oldest);
    removeLive(oldest);
    for (int stageId : oldest.stages) executionOfStage.remove(stageId, oldest);
    keep(oldest); // until its end, which is reported with what is known now
  }
}
