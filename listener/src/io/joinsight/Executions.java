package io.joinsight;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveSQLMetricUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Product;
import scala.collection.mutable.ArrayBuffer;

/**
 * The running executions, kept up to date event by event under the rules of Spark's own UI store.
 *
 * <p>Called by the listener's thread alone, so there are no locks. Whatever an execution's end or a request for progress
 * yields goes as a {@link Snapshot} to the consumer.
 */
final class Executions {
  /** Of the memory for running executions, those that are over may take this part more; and each of them, of it. */
  private static final int KEPT_PART = 4;

  /** About what a plan holds on the heap beside its texts: a node, and a metric with its place in Announced. */
  private static final int PLAN_NODE_BYTES = 150;

  private static final int METRIC_BYTES = 60;

  /** A stage that takes less is not worth an approximation, whose histograms take memory, too. */
  private static final int LEAST_TO_APPROXIMATE = 512 * 1024;

  private static final int METRIC_UPDATES = 1; // SparkListenerSQLAdaptiveSQLMetricUpdates.sqlPlanMetrics
  private static final int DRIVER_UPDATES = 1; // SparkListenerDriverAccumUpdates.accumUpdates
  private static final int HEARTBEAT_UPDATES = 1; // SparkListenerExecutorMetricsUpdate.accumUpdates

  private final Consumer<Snapshot> out;
  private final Settings settings;
  private final Memory memory;
  private final Map<Long, LiveExecution> live = new LinkedHashMap<>();
  private final Map<Integer, StageValues> stageValues = new LinkedHashMap<>();
  private final Map<Integer, LiveExecution> executionOfStage = new LinkedHashMap<>();
  private final Map<Integer, LiveExecution> executionOfJob = new LinkedHashMap<>();
  private final BitSet over = new BitSet(); // by execution id, so that what comes late is not taken for a new execution

  /** Of these the last ones, whole: jobs may start long after their query's end (toLocalIterator, a kept DataFrame). */
  private final Map<Long, LiveExecution> kept = new LinkedHashMap<>();
  private long keptBytes; // about: added up again when it reaches the limit

  // The stage of the last task event: many follow each other.
  private int lastStage = -1;
  private StageValues lastValues;
  private StageAttempt lastAttempt;

  Executions(Settings settings, Consumer<Snapshot> out) {
    this.settings = settings;
    this.out = out;
    memory = new Memory(settings.memoryLimit / 2);
  }

  // SQL events

  void start(SparkListenerSQLExecutionStart event) throws Throwable {
    LiveExecution e = getOrCreate(event.executionId(), event.time());
    e.startSeen = true;
    if (!e.emitted) e.startedAt = event.time(); // else it is a part of its key by now
    Option<?> root = event.rootExecutionId();
    e.rootId = root.isEmpty() ? e.id : ((Number) root.get()).longValue();
    e.description = event.description();
    e.callSite = event.details();
    Map<String, String> modified = SparkAccess.strings(event.modifiedConfigs());
    e.redaction = settings.redaction.ofSession(modified);
    e.configuration = settings.sessionConfiguration(modified, e.redaction);
    String[] tags = SparkAccess.jobTags(event);
    if (tags.length > 0) e.jobTags = tags;
    String group = SparkAccess.jobGroup(event);
    if (group != null) e.jobGroup = group;
    plan(e, event.time(), event.sparkPlanInfo());
  }

  void adaptiveUpdate(SparkListenerSQLAdaptiveExecutionUpdate event) throws Throwable {
    if (isOver(event.executionId())) return;
    long now = System.currentTimeMillis();
    plan(getOrCreate(event.executionId(), now), now, event.sparkPlanInfo());
  }

  void metricUpdates(SparkListenerSQLAdaptiveSQLMetricUpdates event) {
    if (isOver(event.executionId())) return;
    LiveExecution e = getOrCreate(event.executionId(), System.currentTimeMillis());
    for (scala.collection.Iterator<?> i = SparkAccess.elements(event, METRIC_UPDATES); i.hasNext(); ) {
      Product metric = (Product) i.next(); // SQLPlanMetric(name, accumulatorId, metricType)
      String name = String.valueOf(metric.productElement(0));
      long id = ((Number) metric.productElement(1)).longValue();
      String type = String.valueOf(metric.productElement(2));
      e.announced.add(id, type);
      e.announcedAlone.add(new LiveExecution.AnnouncedMetric(name, id, type));
    }
    e.changed = true;
  }

  /** Those that follow the end of the query count while its jobs run: Spark's UI shows them if it is quick enough. */
  void driverUpdates(SparkListenerDriverAccumUpdates event) {
    LiveExecution e = live.get(event.executionId());
    if (e == null || e.finalValues != null) return;
    for (scala.collection.Iterator<?> i = SparkAccess.elements(event, DRIVER_UPDATES); i.hasNext(); ) {
      scala.Tuple2<?, ?> pair = (scala.Tuple2<?, ?>) i.next();
      e.addDriverUpdate(((Number) pair._1()).longValue(), ((Number) pair._2()).longValue());
    }
    e.changed = true;
  }

  void end(SparkListenerSQLExecutionEnd event) {
    LiveExecution e = live.get(event.executionId());
    if (e == null || e.ended()) return;
    e.endedAt = event.time();
    Option<String> error = event.errorMessage();
    e.error = error.isEmpty() || error.get().isEmpty() ? null : error.get();
    e.endEvents++;
    if (e.error == null && !e.plans.isEmpty()) e.joinHints = JoinHint.of(event.qe());
    countDrops(e);
    freeze(e);
    if (isOver(e)) e.finalValues = values(e);
    emit(e);
    if (isOver(e)) remove(e);
  }

  private void plan(LiveExecution e, long at, SparkPlanInfo root) throws Throwable {
    e.changed = true;
    long bytes = 0;
    ArrayList<SparkPlanInfo> open = new ArrayList<>(); // plans can be thousands of levels deep: no recursion
    open.add(root);
    while (!open.isEmpty()) {
      SparkPlanInfo node = open.remove(open.size() - 1);
      bytes += PLAN_NODE_BYTES + node.simpleString().length();
      for (scala.collection.Iterator<?> i = SparkAccess.metrics(node); i.hasNext(); ) {
        SQLMetricInfo metric = (SQLMetricInfo) i.next();
        e.announced.add(metric.accumulatorId(), metric.metricType());
        bytes += METRIC_BYTES;
      }
      for (scala.collection.Iterator<?> i = SparkAccess.children(node); i.hasNext(); ) {
        open.add((SparkPlanInfo) i.next());
      }
    }
    e.addPlan(new LiveExecution.Plan(at, root, bytes), memory);
    if (memory.isOver()) relieve();
  }

  private boolean isOver(long id) {
    return over.get((int) id) && !live.containsKey(id); // unless a late job made it live again
  }

  private static boolean isOver(LiveExecution e) {
    return e.endEvents > e.jobs.size();
  }

  private LiveExecution getOrCreate(long id, long now) {
    LiveExecution e = live.get(id);
    if (e == null) {
      e = new LiveExecution(id);
      e.startedAt = now;
      e.redaction = settings.redaction;
      e.eventsDroppedBefore = SparkAccess.droppedEvents();
      memory.add(LiveExecution.BYTES);
      live.put(id, e);
    }
    return e;
  }

  // Jobs and stages

  void jobStart(SparkListenerJobStart event) {
    Properties properties = event.properties();
    String executionId = properties == null ? null : properties.getProperty("spark.sql.execution.id");
    if (executionId == null) return;
    long id = Long.parseLong(executionId);
    LiveExecution e = live.get(id);
    if (e == null && isOver(id)) {
      e = kept.remove(id);
      if (e == null) return;
      keptBytes -= e.bytesWithoutValues();
      live.put(id, e); // its values stay as they are, the job is added
      memory.add(e.heapBytes());
    }
    if (e == null) e = getOrCreate(id, event.time());
    String group = properties.getProperty("spark.jobGroup.id");
    if (e.jobGroup == null && group != null) e.jobGroup = group;
    String tags = properties.getProperty("spark.job.tags");
    if (e.jobTags.length == 0 && tags != null && !tags.isEmpty()) e.jobTags = tags.split(",");
    e.streamingQueryId = properties.getProperty("sql.streaming.queryId");
    e.streamingBatchId = properties.getProperty("streaming.sql.batchId");

    boolean measured = !e.announced.isEmpty();
    Announced announced = SparkAccess.STAGES_SEE_LATER_METRICS ? e.announced : e.announced.snapshot();
    List<Integer> stages = new ArrayList<>();
    for (scala.collection.Iterator<?> i = SparkAccess.stageInfos(event); i.hasNext(); ) {
      StageInfo stage = (StageInfo) i.next();
      int stageId = stage.stageId();
      stages.add(stageId);
      if (measured) put(new StageValues(stageId, 0, stage.numTasks(), announced, memory));
      executionOfStage.put(stageId, e);
      e.attempts.computeIfAbsent(
          LiveExecution.attemptKey(stageId, 0),
          key -> new StageAttempt(stageId, 0, stage.name(), stage.numTasks(), memory));
    }
    e.stages.addAll(stages);
    int[] ids = stages.stream().mapToInt(Integer::intValue).toArray();
    e.jobs.put(event.jobId(), new LiveExecution.Job(event.jobId(), event.time(), ids));
    executionOfJob.put(event.jobId(), e);
    e.changed = true;
    lastStage = -1;
  }

  void jobEnd(SparkListenerJobEnd event) {
    LiveExecution e = executionOfJob.remove(event.jobId());
    if (e == null) return;
    LiveExecution.Job job = e.jobs.get(event.jobId());
    job.state = event.jobResult() == JobSucceeded$.MODULE$ ? "succeeded" : "failed";
    job.endedAt = event.time();
    e.endEvents++;
    e.changed = true;
    if (!isOver(e)) return;
    if (e.finalValues == null) { // the job outlived its query: say how it ended
      e.finalValues = values(e);
      emit(e);
    } // else it came late, perhaps as one of thousands: they are reported with the progress
    remove(e);
  }

  void stageSubmitted(SparkListenerStageSubmitted event) {
    StageInfo info = event.stageInfo();
    LiveExecution e = executionOfStage.get(info.stageId());
    if (e == null) return;
    StageAttempt attempt =
        e.attempts.computeIfAbsent(
            LiveExecution.attemptKey(info.stageId(), info.attemptNumber()),
            key -> new StageAttempt(info.stageId(), info.attemptNumber(), info.name(), info.numTasks(), memory));
    attempt.submittedAt = time(info.submissionTime());
    StageValues values = stageValues.get(info.stageId());
    if (values != null && values.attempt != info.attemptNumber()) {
      put(values.forAttempt(info.attemptNumber()));
    }
    e.changed = true;
    lastStage = -1;
  }

  void stageCompleted(SparkListenerStageCompleted event) {
    StageInfo info = event.stageInfo();
    LiveExecution e = executionOfStage.get(info.stageId());
    if (e == null) return;
    StageAttempt attempt = e.attempts.get(LiveExecution.attemptKey(info.stageId(), info.attemptNumber()));
    if (attempt == null) return;
    attempt.completed = true;
    attempt.submittedAt = time(info.submissionTime());
    attempt.completedAt = time(info.completionTime());
    attempt.failure = info.failureReason().isEmpty() ? null : info.failureReason().get();
    e.changed = true;
  }

  private void put(StageValues values) {
    StageValues old = stageValues.put(values.stageId, values);
    if (old != null) memory.add(-old.heapBytes());
  }

  private static Long time(Option<?> value) {
    return value.isEmpty() ? null : (Long) ((Number) value.get()).longValue();
  }

  // Tasks

  void taskStart(SparkListenerTaskStart event) {
    StageValues values = valuesOf(event.stageId());
    if (values != null && values.attempt == event.stageAttemptId()) {
      values.started(event.taskInfo().taskId(), event.taskInfo().index());
    }
  }

  void taskEnd(SparkListenerTaskEnd event) throws Throwable {
    TaskInfo task = event.taskInfo();
    if (task == null) return;
    int stageId = event.stageId();
    StageValues values = valuesOf(stageId);
    TaskMetrics metrics = event.taskMetrics();
    int index = task.index();
    long taskId = task.taskId();
    boolean success = task.successful();
    StageAttempt attempt = attemptOf(stageId, event.stageAttemptId());
    if (attempt != null) attempt.taskEnded(index, taskId, success, task.killed(), metrics);
    if (values == null || values.attempt != event.stageAttemptId()) return;
    values.stopped(taskId);
    if (!values.accepts(index) || (values.isApproximate() && !success)) return;
    if (metrics != null) {
      ArrayBuffer<AccumulatorV2<?, ?>> accumulators = SparkAccess.externalAccumulators(metrics);
      values.expect(accumulators.size());
      int position = 0;
      for (int i = 0, n = accumulators.size(); i < n; i++) {
        Object accumulator = accumulators.apply(i);
        if (accumulator instanceof SQLMetric) {
          SQLMetric metric = (SQLMetric) accumulator;
          values.update(position++, metric.id(), index, taskId, SparkAccess.raw(metric));
        }
      }
    } else {
      update(values, index, taskId, SparkAccess.accumulables(task));
    }
    if (success) values.succeeded(index);
    if (lastExecution != null) lastExecution.changed = true;
    if (memory.isOver()) relieve();
  }

  void heartbeat(SparkListenerExecutorMetricsUpdate event) {
    for (scala.collection.Iterator<?> i = SparkAccess.elements(event, HEARTBEAT_UPDATES); i.hasNext(); ) {
      Product update = (Product) i.next(); // (taskId, stageId, stageAttemptId, accumulables)
      long taskId = ((Number) update.productElement(0)).longValue();
      StageValues values = valuesOf(((Number) update.productElement(1)).intValue());
      if (values == null || values.attempt != ((Number) update.productElement(2)).intValue()) continue;
      int index = values.indexOf(taskId);
      if (!values.accepts(index) || values.isApproximate()) continue;
      update(values, index, taskId, SparkAccess.elements(update, 3));
      if (lastExecution != null) lastExecution.changed = true;
    }
  }

  private static void update(StageValues values, int index, long taskId, scala.collection.Iterator<?> accumulables) {
    while (accumulables.hasNext()) {
      AccumulableInfo info = (AccumulableInfo) accumulables.next();
      if (SparkAccess.hasUpdate(info)) values.update(info, index, taskId);
    }
  }

  private LiveExecution lastExecution;

  private StageValues valuesOf(int stageId) {
    if (stageId != lastStage) remember(stageId);
    return lastValues;
  }

  private StageAttempt attemptOf(int stageId, int attempt) {
    if (stageId != lastStage) remember(stageId);
    if (lastAttempt != null && lastAttempt.attempt == attempt) return lastAttempt;
    if (lastExecution == null) return null;
    lastAttempt = lastExecution.attempts.get(LiveExecution.attemptKey(stageId, attempt));
    return lastAttempt;
  }

  private void remember(int stageId) {
    lastStage = stageId;
    lastValues = stageValues.get(stageId);
    lastExecution = executionOfStage.get(stageId);
    lastAttempt = null;
  }

  // Results

  /** Hands out what every execution is by now, if anything changed since the last time. */
  void emitProgress() {
    for (LiveExecution e : live.values()) if (e.changed) emit(e);
    for (LiveExecution e : kept.values()) if (e.changed) emit(e);
  }

  private void emit(LiveExecution e) {
    if (!e.ended()) countDrops(e);
    out.accept(new Snapshot(e, e.finalValues != null ? e.finalValues : values(e)));
    e.changed = false;
    e.emitted = true;
  }

  private static void countDrops(LiveExecution e) {
    Long dropped = SparkAccess.droppedEvents();
    if (dropped != null && e.eventsDroppedBefore != null) e.eventsDropped = dropped - e.eventsDroppedBefore;
  }

  /** Its query has ended: what tasks report from now on is not in its values. */
  private void freeze(LiveExecution e) {
    e.valuesAtEnd = new LinkedHashMap<>();
    for (int stageId : e.stages) {
      StageValues stage = stageValues.get(stageId);
      if (stage != null) e.valuesAtEnd.put(stageId, usedByAnother(stageId, e) ? stage.copy() : stage);
    }
    dropStages(e);
    memory.add(e.bytesAtEnd());
  }

  /** The values of all announced accumulators, changed by no task any more. */
  private List<Measured> values(LiveExecution e) {
    Map<Long, Measured> byId = new LinkedHashMap<>();
    for (int stageId : e.stages) {
      StageValues read = e.valuesAtEnd != null ? e.valuesAtEnd.get(stageId) : stageValues.get(stageId);
      if (read == null) continue;
      if (e.valuesAtEnd == null) read = read.copy();
      for (int i = 0; i < read.slots(); i++) {
        String type = e.announced.type(read.id(i));
        if (type == null || !read.hasValue(i)) continue;
        byId.computeIfAbsent(read.id(i), id -> new Measured(id, type)).add(read, i);
      }
    }
    long[] updates = e.driverUpdates();
    for (int i = 0; i < updates.length; i += 2) {
      long value = updates[i + 1];
      String type = e.announced.type(updates[i]);
      if (type != null) byId.computeIfAbsent(updates[i], id -> new Measured(id, type)).addDriver(value);
    }
    return byId.isEmpty() ? Collections.emptyList() : new ArrayList<>(byId.values());
  }

  private boolean usedByAnother(int stageId, LiveExecution e) {
    for (LiveExecution other : live.values()) if (other != e && other.stages.contains(stageId)) return true;
    return false;
  }

  private void dropStages(LiveExecution e) {
    for (int stageId : e.stages) {
      if (usedByAnother(stageId, e)) continue;
      StageValues old = stageValues.remove(stageId);
      if (old != null) memory.add(-old.heapBytes());
    }
    lastStage = -1;
  }

  private void remove(LiveExecution e) {
    forget(e);
    keep(e);
  }

  /** Keeps it whole for jobs that come late, and as many of those before it as there is room for. */
  private void keep(LiveExecution e) {
    long limit = memory.limit / KEPT_PART;
    long bytes = e.bytesWithoutValues(); // those are in the account of the mailbox until they are summed up
    if (bytes > limit / KEPT_PART) {
      if (e.changed) emit(e);
      return;
    }
    keptBytes += bytes;
    if (keptBytes > limit) {
      keptBytes = bytes;
      for (LiveExecution each : kept.values()) keptBytes += each.bytesWhenOver();
      if (keptBytes > limit) makeRoom(limit - limit / KEPT_PART); // for many: adding up takes time
    }
    kept.put(e.id, e);
  }

  private void makeRoom(long limit) {
    for (Iterator<LiveExecution> i = kept.values().iterator(); i.hasNext() && keptBytes > limit; ) {
      LiveExecution oldest = i.next();
      if (oldest.changed) emit(oldest);
      keptBytes -= oldest.bytesWhenOver();
      i.remove();
    }
  }

  private void forget(LiveExecution e) {
    dropStages(e);
    memory.add(-e.heapBytes());
    e.valuesAtEnd = null;
    live.remove(e.id);
    over.set((int) e.id);
    for (int stageId : e.stages) executionOfStage.remove(stageId, e);
    for (Iterator<LiveExecution> i = executionOfJob.values().iterator(); i.hasNext(); ) if (i.next() == e) i.remove();
    lastStage = -1;
  }

  // Memory

  /**
   * Makes room: of the largest stages only distributions are kept, then plans between the first and the last one go,
   * then the executions that run longest. Each of them is marked as incomplete.
   */
  private void relieve() {
    while (memory.isOver() && (approximateLargest() || dropPlans() || dropOldest())) {}
  }

  private boolean approximateLargest() {
    LiveExecution owner = null;
    int largest = -1;
    long most = LEAST_TO_APPROXIMATE;
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
    for (LiveExecution e : live.values()) if (e.stages.contains(largest)) e.approximated = true;
    return true;
  }

  private boolean dropPlans() {
    boolean any = false;
    for (LiveExecution e : live.values()) any |= e.dropPlans(memory);
    return any;
  }

  private boolean dropOldest() {
    if (live.size() < 2) return false;
    LiveExecution oldest = live.values().iterator().next();
    oldest.abandoned = true;
    emit(oldest);
    forget(oldest);
    return true;
  }
}
