package io.joinsight;

import java.util.BitSet;
import org.apache.spark.executor.InputMetrics;
import org.apache.spark.executor.OutputMetrics;
import org.apache.spark.executor.ShuffleReadMetrics;
import org.apache.spark.executor.ShuffleWriteMetrics;
import org.apache.spark.executor.TaskMetrics;

/** An attempt of a stage: when it ran, the totals of its tasks, and how three of them spread over the tasks. */
final class StageAttempt {
  /** Names of {@link #totals}, as in the document. */
  static final String[] TOTALS = {
    "run_time_ms", "cpu_time_ns", "gc_time_ms", "deserialize_time_ms", "result_bytes",
    "memory_spilled_bytes", "disk_spilled_bytes", "peak_memory_bytes",
    "input_bytes", "input_rows", "output_bytes", "output_rows",
    "shuffle_read_local_bytes", "shuffle_read_remote_bytes", "shuffle_read_rows", "shuffle_fetch_wait_ms",
    "shuffle_write_bytes", "shuffle_write_rows", "shuffle_write_time_ns",
  };

  private static final int PEAK_MEMORY = 7;
  private static final int TASK_IDS = 3; // row of values, behind the spreads
  private static final int ATTEMPT_BYTES = 600; // about

  /** Names of the {@link #spread}s, as in the document. */
  static final String[] SPREADS = {"run_time", "shuffle_read", "shuffle_read_records"};

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
  final long[] totals;
  private Table values; // of the spreads, and the tasks' ids less the first one's; null: approximated
  private Histogram[] histograms; // of the spreads; null: exact
  private final long[] maxTasks = new long[SPREADS.length]; // of the histograms
  private long firstTaskId = -1;
  private final BitSet done;

  StageAttempt(int stageId, int attempt, String name, int tasks, Memory memory) {
    this(stageId, attempt, name, tasks, new long[TOTALS.length], new Table(SPREADS.length + 1, tasks, memory), new BitSet());
    memory.add(ATTEMPT_BYTES);
  }

  private StageAttempt(int stageId, int attempt, String name, int tasks, long[] totals, Table values, BitSet done) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
    this.totals = totals;
    this.values = values;
    this.done = done;
  }

  long heapBytes() {
    return ATTEMPT_BYTES + (values != null ? values.heapBytes() : (long) SPREADS.length * Histogram.BYTES);
  }

  boolean isApproximate() {
    return values == null;
  }

  /** From now on only the distributions of the spreads are kept. */
  void approximate(Memory memory) {
    memory.add(-heapBytes());
    histograms = new Histogram[SPREADS.length];
    for (int spread = 0; spread < SPREADS.length; spread++) {
      histograms[spread] = new Histogram();
      for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) record(spread, values.get(spread, i), taskId(i));
    }
    values = null;
    memory.add(heapBytes());
  }

  private void record(int spread, long value, long taskId) {
    if (histograms[spread].count() == 0 || value > histograms[spread].max()) maxTasks[spread] = taskId;
    histograms[spread].add(value);
  }

  StageAttempt copy() {
    StageAttempt copy =
        new StageAttempt(
            stageId, attempt, name, tasks, totals.clone(), values == null ? null : values.copy(), (BitSet) done.clone());
    if (histograms != null) {
      copy.histograms = new Histogram[SPREADS.length];
      for (int i = 0; i < SPREADS.length; i++) {
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

  /** Adds a task that ended; {@code metrics} is null when the executor was lost with it. */
  void taskEnded(int index, long taskId, boolean success, boolean wasKilled, TaskMetrics metrics) {
    boolean first = success && index >= 0 && index < tasks && !done.get(index);
    if (success) {
      if (first) succeeded++; // a speculative twin or a resubmitted task succeeds twice
    } else if (wasKilled) {
      killed++;
    } else {
      failed++;
    }
    if (metrics == null) return;
    ShuffleReadMetrics read = metrics.shuffleReadMetrics();
    ShuffleWriteMetrics write = metrics.shuffleWriteMetrics();
    InputMetrics input = metrics.inputMetrics();
    OutputMetrics output = metrics.outputMetrics();
    long runTime = metrics.executorRunTime();
    long local = read.localBytesRead();
    long remote = read.remoteBytesRead();
    long rows = read.recordsRead();
    long[] t = totals;
    int i = 0;
    t[i++] += runTime;
    t[i++] += metrics.executorCpuTime();
    t[i++] += metrics.jvmGCTime();
    t[i++] += metrics.executorDeserializeTime();
    t[i++] += metrics.resultSize();
    t[i++] += metrics.memoryBytesSpilled();
    t[i++] += metrics.diskBytesSpilled();
    t[PEAK_MEMORY] = Math.max(t[PEAK_MEMORY], metrics.peakExecutionMemory());
    i = PEAK_MEMORY + 1;
    t[i++] += input.bytesRead();
    t[i++] += input.recordsRead();
    t[i++] += output.bytesWritten();
    t[i++] += output.recordsWritten();
    t[i++] += local;
    t[i++] += remote;
    t[i++] += rows;
    t[i++] += read.fetchWaitTime();
    t[i++] += write.bytesWritten();
    t[i++] += write.recordsWritten();
    t[i] += write.writeTime();
    if (first) {
      done.set(index);
      if (firstTaskId < 0) firstTaskId = taskId;
      if (values != null) values.set(TASK_IDS, index, taskId - firstTaskId);
      spread(0, index, taskId, runTime);
      spread(1, index, taskId, local + remote);
      spread(2, index, taskId, rows);
    }
  }

  private void spread(int spread, int index, long taskId, long value) {
    if (values != null) values.set(spread, index, Math.max(0, value));
    else record(spread, Math.max(0, value), taskId);
  }

  /** A spread over the tasks that succeeded; null if none did. */
  Spread spread(int spread) {
    if (isApproximate()) return Spread.of(histograms[spread]);
    long[] ended = new long[done.cardinality()];
    int n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) ended[n++] = values.get(spread, i);
    return Spread.of(ended, n);
  }

  /** The task of a spread's largest value, the first of equal ones; some task must have succeeded. */
  long maxTask(int spread) {
    if (isApproximate()) return maxTasks[spread];
    int largest = done.nextSetBit(0);
    for (int i = largest; i >= 0; i = done.nextSetBit(i + 1)) {
      if (values.get(spread, i) > values.get(spread, largest)) largest = i;
    }
    return taskId(largest);
  }

  private long taskId(int index) {
    return firstTaskId + values.get(TASK_IDS, index);
  }
}
