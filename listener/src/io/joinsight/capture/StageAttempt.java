package io.joinsight.capture;

import io.joinsight.sampling.TaskSamples;
import java.util.BitSet;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;

/** An attempt of a stage: its times, the totals of its tasks, and the distribution over tasks of four measures. */
final class StageAttempt {
  private static final int RUN_TIME = StageTotals.index("run_time_ms");
  private static final int CPU_TIME = StageTotals.index("cpu_time_ns");
  private static final int LOCAL_READ = StageTotals.index("shuffle_read_local_bytes");
  private static final int REMOTE_READ = StageTotals.index("shuffle_read_remote_bytes");
  private static final int ROWS_READ = StageTotals.index("shuffle_read_rows");
  private static final long NS_OF_MS = 1_000_000;
  private static final int TASK_IDS = 4; // rows of values, after the summaries
  private static final int LAUNCHES = 5;
  private static final int FINISHES = 6;
  private static final int EXECUTORS = 7; // their numbers in the work by executor
  private static final int ROWS = 8;
  private static final int ATTEMPT_BYTES = 600; // approximate
  private static final int SAMPLES_BYTES = 150; // approximate, for each key

  /** Names of the {@link #summary summaries} in the document. */
  static final String[] SUMMARIES = {"run_time", "cpu_time", "shuffle_read", "shuffle_read_records"};

  /** From this one on, they are left out if all tasks have 0: the stage reads no shuffle. */
  static final int FIRST_OF_SHUFFLE = 2;

  final int stageId;
  final int attempt;
  final String name;
  final int tasks;
  final int[] parents;
  final int rdd;
  final int profile; // id of its resource profile
  Long submittedAt;
  Long completedAt;
  String failure;
  boolean completed;
  int succeeded;
  int failed;
  int killed;
  int slots; // most that there were while it ran; 0: unknown
  /** In the order of {@link StageTotals}. */
  final long[] totals;

  // Of the summaries; task ids minus the first one; launches and finishes minus the first time. Null: approximate
  private LongMatrix values;
  private Histogram[] histograms; // of the summaries; null: exact
  private final long[] maxTasks = new long[SUMMARIES.length]; // of the histograms
  private long firstTaskId = -1;
  private long baseTime;
  private long firstLaunch = -1; // of all tasks
  private long lastFinish = -1; // of successful tasks
  private final BitSet done;
  private final WorkByExecutor work;
  private TaskSamples samples; // null: none
  private final Map<Long, Long> running = new LinkedHashMap<>(); // launches by task, the oldest first; few: one a slot

  /** {@code stage}: as its job announced it; of a later attempt, what its own event says comes later. */
  StageAttempt(Stage stage, int attempt, Memory memory) {
    this(
        stage.id, attempt, stage.name, stage.tasks, stage.parents, stage.rdd, stage.profile,
        new long[StageTotals.COUNT], new LongMatrix(ROWS, stage.tasks, memory), new BitSet(),
        new WorkByExecutor(memory));
    memory.add(ATTEMPT_BYTES + (long) Integer.BYTES * parents.length);
  }

  private StageAttempt(
      int stageId, int attempt, String name, int tasks, int[] parents, int rdd, int profile, long[] totals,
      LongMatrix values, BitSet done, WorkByExecutor work) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
    this.parents = parents;
    this.rdd = rdd;
    this.profile = profile;
    this.totals = totals;
    this.values = values;
    this.done = done;
    this.work = work;
  }

  long heapBytes() {
    return ATTEMPT_BYTES + (long) Integer.BYTES * parents.length + (long) SAMPLES_BYTES * samples().size()
        + work.heapBytes() + (values != null ? values.heapBytes() : (long) SUMMARIES.length * Histogram.BYTES);
  }

  boolean isApproximate() {
    return values == null;
  }

  /** Replaces the values by histograms. */
  void approximate(Memory memory) {
    memory.add(-heapBytes());
    histograms = new Histogram[SUMMARIES.length];
    for (int summary = 0; summary < SUMMARIES.length; summary++) {
      histograms[summary] = new Histogram();
      for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1))
        addToHistogram(summary, values.get(summary, i), taskId(i));
    }
    values = null;
    memory.add(heapBytes());
  }

  private void addToHistogram(int summary, long value, long taskId) {
    if (histograms[summary].count() == 0 || value > histograms[summary].max()) maxTasks[summary] = taskId;
    histograms[summary].add(value);
  }

  StageAttempt copy() {
    StageAttempt copy = new StageAttempt(
        stageId, attempt, name, tasks, parents, rdd, profile, totals.clone(), values == null ? null : values.copy(),
        (BitSet) done.clone(), work.copy());
    if (histograms != null) {
      copy.histograms = new Histogram[SUMMARIES.length];
      for (int i = 0; i < SUMMARIES.length; i++) {
        (copy.histograms[i] = new Histogram()).addAll(histograms[i]);
        copy.maxTasks[i] = maxTasks[i];
      }
    }
    copy.submittedAt = submittedAt;
    copy.completedAt = completedAt;
    copy.failure = failure;
    copy.completed = completed;
    copy.succeeded = succeeded;
    copy.failed = failed;
    copy.killed = killed;
    copy.slots = slots;
    copy.firstTaskId = firstTaskId;
    copy.baseTime = baseTime;
    copy.firstLaunch = firstLaunch;
    copy.lastFinish = lastFinish;
    copy.samples = samples == null ? null : samples.copy();
    if (!running.isEmpty()) copy.running.put(oldestTask(), oldestLaunch());
    return copy;
  }

  void taskStarted(long taskId, long launchedAt) {
    running.put(taskId, launchedAt);
  }

  /** Adds a task that ended; {@code task}: its numbers in the order of StageTotals, null if it has no metrics. */
  void taskEnded(
      int index, long taskId, String executor, String host, long launchedAt, long finishedAt, boolean success,
      boolean wasKilled, long[] task) {
    running.remove(taskId);
    boolean first = success && index >= 0 && index < tasks && !done.get(index);
    if (firstLaunch < 0 || launchedAt < firstLaunch) firstLaunch = launchedAt;
    if (first && finishedAt > lastFinish) lastFinish = finishedAt;
    if (success) {
      if (first) succeeded++; // a speculative twin or a resubmitted task succeeds twice
    } else if (wasKilled) {
      killed++;
    } else {
      failed++;
    }
    if (task == null) return;
    StageTotals.add(totals, task);
    if (first) {
      done.set(index);
      if (firstTaskId < 0) {
        firstTaskId = taskId;
        baseTime = launchedAt;
      }
      int number = work.add(executor, host, task);
      if (values != null) {
        values.set(EXECUTORS, index, number);
        values.set(TASK_IDS, index, taskId - firstTaskId);
        values.set(LAUNCHES, index, launchedAt - baseTime);
        values.set(FINISHES, index, finishedAt - baseTime);
      }
      add(0, index, taskId, task[RUN_TIME]);
      add(1, index, taskId, task[CPU_TIME] / NS_OF_MS);
      add(2, index, taskId, task[LOCAL_READ] + task[REMOTE_READ]);
      add(3, index, taskId, task[ROWS_READ]);
    }
  }

  private void add(int summary, int index, long taskId, long value) {
    if (values != null) values.set(summary, index, Math.max(0, value));
    else addToHistogram(summary, Math.max(0, value), taskId);
  }

  void addSamples(TaskSamples more) {
    if (samples == null) samples = new TaskSamples(stageId, attempt);
    samples.addAll(more);
  }

  /** How often its tasks were seen at what, by {@link Stacks#key}. */
  Map<String, Long> samples() {
    return samples == null ? Collections.emptyMap() : samples.counts();
  }

  /** The distribution over the tasks that succeeded; null if none did. */
  Summary summary(int summary) {
    if (isApproximate()) return Summary.of(histograms[summary]);
    long[] ended = new long[done.cardinality()];
    int n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) ended[n++] = values.get(summary, i);
    return Summary.of(ended, n);
  }

  /** The task with the largest value, the first if several have it; at least one task must have succeeded. */
  long maxTask(int summary) {
    if (isApproximate()) return maxTasks[summary];
    int largest = done.nextSetBit(0);
    for (int i = largest; i >= 0; i = done.nextSetBit(i + 1)) {
      if (values.get(summary, i) > values.get(summary, largest)) largest = i;
    }
    return taskId(largest);
  }

  /** When the first of its tasks was launched; −1 if none has ended. */
  long firstLaunch() {
    return firstLaunch;
  }

  /** The task that has run longest of those that still run; −1 if none is known to run. */
  long oldestTask() {
    return running.isEmpty() ? -1 : running.keySet().iterator().next();
  }

  /** When it was launched. */
  long oldestLaunch() {
    return running.get(oldestTask());
  }

  /** When the last of its tasks that succeeded finished; −1 if none did. */
  long lastFinish() {
    return lastFinish;
  }

  /** How its slots filled and emptied; null if no task succeeded, or if the values are approximate. */
  Occupancy occupancy() {
    int n = done.cardinality();
    if (n == 0 || isApproximate()) return null;
    long[] launches = new long[n];
    long[] freed = new long[n];
    long[] finishes = new long[n];
    n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) {
      launches[n] = values.get(LAUNCHES, i);
      finishes[n] = values.get(FINISHES, i);
      freed[n] = Math.min(finishes[n], launches[n] + values.get(0, i));
      n++;
    }
    return new Occupancy(baseTime, launches, freed, finishes);
  }

  /** The number of executors with tasks that succeeded; 0: none, or unknown. */
  int executors() {
    return work.executors();
  }

  /** The number of their hosts. */
  int hosts() {
    return work.hosts();
  }

  /** The executor or host that was slow for its work; null if there is none, or if it is unknown. */
  WorkByExecutor.Slow slowest() {
    if (isApproximate() || work.executors() < 2) return null;
    int[] numbers = new int[done.cardinality()];
    long[] runTimes = new long[numbers.length];
    int n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) {
      numbers[n] = (int) values.get(EXECUTORS, i);
      runTimes[n++] = values.get(0, i);
    }
    return work.slowest(numbers, runTimes);
  }

  private long taskId(int index) {
    return firstTaskId + values.get(TASK_IDS, index);
  }
}
