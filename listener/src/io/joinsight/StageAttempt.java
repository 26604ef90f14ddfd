package io.joinsight;

import java.util.BitSet;

/** An attempt of a stage: its times, the totals of its tasks, and the distribution over tasks of three measures. */
final class StageAttempt {
  private static final int RUN_TIME = StageTotals.index("run_time_ms");
  private static final int LOCAL_READ = StageTotals.index("shuffle_read_local_bytes");
  private static final int REMOTE_READ = StageTotals.index("shuffle_read_remote_bytes");
  private static final int ROWS_READ = StageTotals.index("shuffle_read_rows");
  private static final int TASK_IDS = 3; // row of values, after the summaries
  private static final int ATTEMPT_BYTES = 600; // approximate

  /** Names of the {@link #summary summaries} in the document. */
  static final String[] SUMMARIES = {"run_time", "shuffle_read", "shuffle_read_records"};

  final int stageId;
  final int attempt;
  final String name;
  final int tasks;
  Long submittedAt;
  Long completedAt;
  String failure;
  boolean completed;
  int succeeded;
  int failed;
  int killed;
  /** In the order of {@link StageTotals}. */
  final long[] totals;

  private LongMatrix values; // of the summaries, and task ids minus the first one; null: approximate
  private Histogram[] histograms; // of the summaries; null: exact
  private final long[] maxTasks = new long[SUMMARIES.length]; // of the histograms
  private long firstTaskId = -1;
  private final BitSet done;

  StageAttempt(int stageId, int attempt, String name, int tasks, Memory memory) {
    this(
        stageId, attempt, name, tasks, new long[StageTotals.COUNT], new LongMatrix(SUMMARIES.length + 1, tasks, memory),
        new BitSet());
    memory.add(ATTEMPT_BYTES);
  }

  private StageAttempt(
      int stageId, int attempt, String name, int tasks, long[] totals, LongMatrix values, BitSet done) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
    this.totals = totals;
    this.values = values;
    this.done = done;
  }

  long heapBytes() {
    return ATTEMPT_BYTES + (values != null ? values.heapBytes() : (long) SUMMARIES.length * Histogram.BYTES);
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
        stageId, attempt, name, tasks, totals.clone(), values == null ? null : values.copy(), (BitSet) done.clone());
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
    copy.firstTaskId = firstTaskId;
    return copy;
  }

  /** Adds a task that ended; {@code task}: its numbers in the order of StageTotals, null if it has no metrics. */
  void taskEnded(int index, long taskId, boolean success, boolean wasKilled, long[] task) {
    boolean first = success && index >= 0 && index < tasks && !done.get(index);
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
      if (firstTaskId < 0) firstTaskId = taskId;
      if (values != null) values.set(TASK_IDS, index, taskId - firstTaskId);
      add(0, index, taskId, task[RUN_TIME]);
      add(1, index, taskId, task[LOCAL_READ] + task[REMOTE_READ]);
      add(2, index, taskId, task[ROWS_READ]);
    }
  }

  private void add(int summary, int index, long taskId, long value) {
    if (values != null) values.set(summary, index, Math.max(0, value));
    else addToHistogram(summary, Math.max(0, value), taskId);
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

  private long taskId(int index) {
    return firstTaskId + values.get(TASK_IDS, index);
  }
}
