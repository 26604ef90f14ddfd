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
  private final Packed[] spreads; // a null: approximated
  private final Histogram[] histograms = new Histogram[SPREADS.length];
  private final long[] maxTasks = new long[SPREADS.length]; // of the histograms
  private Packed taskIds;
  private long firstTaskId = -1;
  private final BitSet done;

  StageAttempt(int stageId, int attempt, String name, int tasks, Memory memory) {
    this(stageId, attempt, name, tasks, new long[TOTALS.length], new Packed[SPREADS.length], new Packed(tasks, memory), new BitSet());
    for (int i = 0; i < spreads.length; i++) spreads[i] = new Packed(tasks, memory);
    memory.add(ATTEMPT_BYTES);
  }

  private StageAttempt(
      int stageId, int attempt, String name, int tasks, long[] totals, Packed[] spreads, Packed taskIds, BitSet done) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
    this.totals = totals;
    this.spreads = spreads;
    this.taskIds = taskIds;
    this.done = done;
  }

  long heapBytes() {
    long bytes = ATTEMPT_BYTES;
    if (taskIds != null) bytes += taskIds.heapBytes();
    for (Packed spread : spreads) if (spread != null) bytes += spread.heapBytes();
    for (Histogram histogram : histograms) if (histogram != null) bytes += Histogram.BYTES;
    return bytes;
  }

  boolean isApproximate() {
    return taskIds == null;
  }

  /** From now on only the distributions of the spreads are kept. */
  void approximate(Memory memory) {
    memory.add(-heapBytes());
    long[] ids = pick(taskIds, firstTaskId);
    for (int i = 0; i < spreads.length; i++) {
      histograms[i] = new Histogram();
      long[] values = pick(spreads[i], 0);
      for (int n = 0; n < values.length; n++) record(i, values[n], ids[n]);
      spreads[i] = null;
    }
    taskIds = null;
    memory.add(heapBytes());
  }

  private void record(int spread, long value, long taskId) {
    if (histograms[spread].count() == 0 || value > histograms[spread].max()) maxTasks[spread] = taskId;
    histograms[spread].add(value);
  }

  StageAttempt copy() {
    Packed[] spreadCopies = new Packed[spreads.length];
    StageAttempt copy =
        new StageAttempt(
            stageId, attempt, name, tasks, totals.clone(), spreadCopies, taskIds == null ? null : taskIds.copy(),
            (BitSet) done.clone());
    for (int i = 0; i < spreads.length; i++) {
      if (spreads[i] != null) spreadCopies[i] = spreads[i].copy();
      else (copy.histograms[i] = new Histogram()).addAll(histograms[i]);
      copy.maxTasks[i] = maxTasks[i];
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
      if (taskIds != null) taskIds.set(index, taskId - firstTaskId);
      spread(0, index, taskId, runTime);
      spread(1, index, taskId, local + remote);
      spread(2, index, taskId, rows);
    }
  }

  private void spread(int spread, int index, long taskId, long value) {
    if (spreads[spread] != null) spreads[spread].set(index, Math.max(0, value));
    else record(spread, Math.max(0, value), taskId);
  }

  /** A spread over the tasks that succeeded; null if none did. */
  Spread spread(int spread) {
    if (isApproximate()) return Spread.of(histograms[spread]);
    long[] values = pick(spreads[spread], 0);
    return Spread.of(values, values.length);
  }

  /** The task of a spread's largest value, the first of equal ones; some task must have succeeded. */
  long maxTask(int spread) {
    if (isApproximate()) return maxTasks[spread];
    Packed values = spreads[spread];
    int largest = done.nextSetBit(0);
    for (int i = largest; i >= 0; i = done.nextSetBit(i + 1)) if (values.get(i) > values.get(largest)) largest = i;
    return firstTaskId + taskIds.get(largest);
  }

  private long[] pick(Packed values, long base) {
    long[] picked = new long[done.cardinality()];
    int n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) picked[n++] = base + values.get(i);
    return picked;
  }
}
