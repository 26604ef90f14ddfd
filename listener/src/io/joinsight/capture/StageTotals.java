package io.joinsight.capture;

import java.util.function.LongBinaryOperator;
import java.util.function.ToLongFunction;
import org.apache.spark.executor.TaskMetrics;

/** The totals over the tasks of a stage, each declared completely in one line. */
public final class StageTotals {
  private static final class Total {
    final String name;
    final String inEventLogs;
    final LongBinaryOperator add;
    final ToLongFunction<TaskMetrics> read;

    Total(String name, String inEventLogs, LongBinaryOperator add, ToLongFunction<TaskMetrics> read) {
      this.name = name;
      this.inEventLogs = inEventLogs;
      this.add = add;
      this.read = read;
    }
  }

  // The name in the document, the name in (an object of) an event log's "Task Metrics", and Spark's getter
  private static final Total[] TOTALS = {
      sum("run_time_ms", "Executor Run Time", TaskMetrics::executorRunTime),
      sum("cpu_time_ns", "Executor CPU Time", TaskMetrics::executorCpuTime),
      sum("gc_time_ms", "JVM GC Time", TaskMetrics::jvmGCTime),
      sum("deserialize_time_ms", "Executor Deserialize Time", TaskMetrics::executorDeserializeTime),
      sum("result_bytes", "Result Size", TaskMetrics::resultSize),
      sum("memory_spilled_bytes", "Memory Bytes Spilled", TaskMetrics::memoryBytesSpilled),
      sum("disk_spilled_bytes", "Disk Bytes Spilled", TaskMetrics::diskBytesSpilled),
      largest("peak_memory_bytes", "Peak Execution Memory", TaskMetrics::peakExecutionMemory),
      sum("input_bytes", "Bytes Read", task -> task.inputMetrics().bytesRead()),
      sum("input_rows", "Records Read", task -> task.inputMetrics().recordsRead()),
      sum("output_bytes", "Bytes Written", task -> task.outputMetrics().bytesWritten()),
      sum("output_rows", "Records Written", task -> task.outputMetrics().recordsWritten()),
      sum("shuffle_read_local_bytes", "Local Bytes Read", task -> task.shuffleReadMetrics().localBytesRead()),
      sum("shuffle_read_remote_bytes", "Remote Bytes Read", task -> task.shuffleReadMetrics().remoteBytesRead()),
      sum("shuffle_read_rows", "Total Records Read", task -> task.shuffleReadMetrics().recordsRead()),
      sum("shuffle_fetch_wait_ms", "Fetch Wait Time", task -> task.shuffleReadMetrics().fetchWaitTime()),
      sum("shuffle_write_bytes", "Shuffle Bytes Written", task -> task.shuffleWriteMetrics().bytesWritten()),
      sum("shuffle_write_rows", "Shuffle Records Written", task -> task.shuffleWriteMetrics().recordsWritten()),
      sum("shuffle_write_time_ns", "Shuffle Write Time", task -> task.shuffleWriteMetrics().writeTime()),
      sum("result_serialization_time_ms", "Result Serialization Time", TaskMetrics::resultSerializationTime),
      ofTimes("getting_result_time_ms"),
      ofTimes("scheduler_delay_ms"),
      ofTimes("task_duration_ms"),
  };

  public static final int COUNT = TOTALS.length;
  private static final int METRICS = COUNT - 3; // the others are made of the driver's times

  /** From this one on, 0 is measured, and an absent one is not: earlier listeners lack them. */
  static final int FIRST_WITH_ZERO = index("result_serialization_time_ms");

  private static final int RUN_TIME = index("run_time_ms");
  private static final int DESERIALIZE = index("deserialize_time_ms");
  private static final int SERIALIZE = index("result_serialization_time_ms");
  private static final int GETTING_RESULT = index("getting_result_time_ms");
  private static final int DELAY = index("scheduler_delay_ms");
  private static final int DURATION = index("task_duration_ms");

  private StageTotals() {}

  private static Total sum(String name, String inEventLogs, ToLongFunction<TaskMetrics> read) {
    return new Total(name, inEventLogs, Long::sum, read);
  }

  private static Total largest(String name, String inEventLogs, ToLongFunction<TaskMetrics> read) {
    return new Total(name, inEventLogs, Math::max, read);
  }

  private static Total ofTimes(String name) {
    return sum(name, null, null); // a third function to add with would cost 50 ns a task
  }

  /** A total's name in the document. */
  static String name(int i) {
    return TOTALS[i].name;
  }

  /** The index of a total, by its name in the document. */
  static int index(String name) {
    for (int i = 0; i < COUNT; i++)
      if (TOTALS[i].name.equals(name)) return i;
    throw new IllegalArgumentException(name);
  }

  /** The names in event logs, in the order of the totals; a task has no other number with one of these names. */
  public static String[] namesInEventLogs() {
    String[] names = new String[METRICS];
    for (int i = 0; i < METRICS; i++) names[i] = TOTALS[i].inEventLogs;
    return names;
  }

  /** Reads a task's metrics into {@code task}. */
  static void read(TaskMetrics metrics, long[] task) {
    for (int i = 0; i < METRICS; i++) task[i] = TOTALS[i].read.applyAsLong(metrics);
  }

  /**
   * Adds what Spark's UI makes of the driver's times to a task's metrics. {@code gettingResultAt}: when the driver began
   * to fetch the result; 0: it came with the task's end.
   */
  public static void addTimes(long[] task, long launchedAt, long gettingResultAt, long finishedAt) {
    task[DURATION] = Math.max(0, finishedAt - launchedAt);
    task[GETTING_RESULT] = gettingResultAt > 0 ? Math.max(0, finishedAt - gettingResultAt) : 0;
    long explained = task[RUN_TIME] + task[DESERIALIZE] + task[SERIALIZE] + task[GETTING_RESULT];
    task[DELAY] = Math.max(0, task[DURATION] - explained);
  }

  /** Adds a task's numbers to {@code totals}. */
  static void add(long[] totals, long[] task) {
    for (int i = 0; i < COUNT; i++) totals[i] = TOTALS[i].add.applyAsLong(totals[i], task[i]);
  }
}
