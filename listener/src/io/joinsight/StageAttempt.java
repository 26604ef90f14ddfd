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

  /** Names of {@link #spreads}, as in the document. */
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
  final Packed[] spreads;
  private final Packed taskIds;
  private long firstTaskId = -1;
  private final BitSet done;

  StageAttempt(int stageId, int attempt, String name, int tasks) {
    this(stageId, attempt, name, tasks, new long[TOTALS.length], new Packed[SPREADS.length], new Packed(tasks), new BitSet());
    for (int i = 0; i < spreads.length; i++) spreads[i] = new Packed(tasks);
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

  StageAttempt copy() {
    Packed[] spreadCopies = new Packed[spreads.length];
    for (int i = 0; i < spreads.length; i++) spreadCopies[i] = spreads[i].copy();
    StageAttempt copy =
        new StageAttempt(
            stageId, attempt, name, tasks, totals.clone(), spreadCopies, taskIds.copy(), (BitSet) done.clone());
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
      taskIds.set(index, taskId - firstTaskId);
      spreads[0].set(index, Math.max(0, runTime));
      spreads[1].set(index, Math.max(0, local + remote));
      spreads[2].set(index, Math.max(0, rows));
    }
  }

  /** The values of a spread for the tasks that succeeded, in the order of {@link #successfulTaskIds()}. */
  long[] successful(int spread) {
    return pick(spreads[spread], 0);
  }

  long[] successfulTaskIds() {
    return pick(taskIds, firstTaskId);
  }

  private long[] pick(Packed values, long base) {
    long[] picked = new long[done.cardinality()];
    int n = 0;
    for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) picked[n++] = base + values.get(i);
    return picked;
  }
}
