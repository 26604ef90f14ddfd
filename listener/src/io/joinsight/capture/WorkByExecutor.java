package io.joinsight.capture;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What the tasks of a stage attempt did on each executor, to find one that was slow for its work. */
final class WorkByExecutor {
  /** More executors are not told apart: a number for each fits the bits of a long. */
  static final int MAX = 64;

  private static final int WORK_BYTES = 200; // approximate, with its entry in the map

  private static final int RUN_TIME = StageTotals.index("run_time_ms");
  private static final int CPU_TIME = StageTotals.index("cpu_time_ns");
  private static final int INPUT_ROWS = StageTotals.index("input_rows");
  private static final int INPUT_BYTES = StageTotals.index("input_bytes");
  private static final int OUTPUT_ROWS = StageTotals.index("output_rows");
  private static final int LOCAL_READ = StageTotals.index("shuffle_read_local_bytes");
  private static final int REMOTE_READ = StageTotals.index("shuffle_read_remote_bytes");
  private static final int ROWS_READ = StageTotals.index("shuffle_read_rows");
  private static final int ROWS_WRITTEN = StageTotals.index("shuffle_write_rows");

  /** The sums over the tasks of an executor, or of all executors of a host. */
  private static final class Sums {
    final String executor; // null: all of the host
    final String host;
    long numbers; // a bit for each of its executors
    long tasks;
    long runTime;
    long cpuTime;
    long rowsRead;
    long bytesRead;
    long rowsWritten;

    Sums(String executor, String host) {
      this.executor = executor;
      this.host = host;
    }

    void add(Sums other) {
      numbers |= other.numbers;
      tasks += other.tasks;
      runTime += other.runTime;
      cpuTime += other.cpuTime;
      rowsRead += other.rowsRead;
      bytesRead += other.bytesRead;
      rowsWritten += other.rowsWritten;
    }
  }

  /** An executor, or a host with several executors, that was slow. */
  static final class Slow {
    final String executor; // null: the whole host
    final String host;
    final long tasks;
    final long runTime;
    final long cpuTime; // nanoseconds
    long median;
    long medianOfOthers;
    long excess; // run time beyond what the others took for the same work
    private final long numbers;

    private Slow(Sums work, double excess) {
      executor = work.executor;
      host = work.host;
      tasks = work.tasks;
      runTime = Math.max(0, work.runTime);
      cpuTime = Math.max(0, work.cpuTime);
      numbers = work.numbers;
      this.excess = (long) excess;
    }
  }

  private final Memory memory; // null in copies, which are not counted
  private Map<String, Sums> byExecutor = new LinkedHashMap<>(); // null: there are too many

  /** Adds its heap use to {@code memory}; the owner subtracts it. */
  WorkByExecutor(Memory memory) {
    this.memory = memory;
  }

  WorkByExecutor copy() {
    WorkByExecutor copy = new WorkByExecutor(null);
    if (byExecutor == null) {
      copy.byExecutor = null;
      return copy;
    }
    for (Sums work : byExecutor.values()) {
      Sums its = new Sums(work.executor, work.host);
      its.add(work);
      copy.byExecutor.put(work.executor, its);
    }
    return copy;
  }

  long heapBytes() {
    return byExecutor == null ? 0 : (long) WORK_BYTES * byExecutor.size();
  }

  /** Adds a task that succeeded; returns a number for its executor. */
  int add(String executor, String host, long[] task) {
    if (byExecutor == null) return 0;
    Sums work = byExecutor.get(executor);
    if (work == null) {
      int number = byExecutor.size();
      if (number == MAX || executor == null || executor.isEmpty() || host == null || host.isEmpty()) {
        memory.add(-heapBytes());
        byExecutor = null;
        return 0;
      }
      work = new Sums(executor, host);
      work.numbers = 1L << number;
      byExecutor.put(executor, work);
      memory.add(WORK_BYTES);
    }
    work.tasks++;
    work.runTime += task[RUN_TIME];
    work.cpuTime += task[CPU_TIME];
    work.rowsRead += task[INPUT_ROWS] + task[ROWS_READ];
    work.bytesRead += task[INPUT_BYTES] + task[LOCAL_READ] + task[REMOTE_READ];
    work.rowsWritten += task[OUTPUT_ROWS] + task[ROWS_WRITTEN];
    return Long.numberOfTrailingZeros(work.numbers);
  }

  /** The number of executors with tasks that succeeded; 0: none, or unknown. */
  int executors() {
    return byExecutor == null ? 0 : byExecutor.size();
  }

  /** The number of their hosts. */
  int hosts() {
    return byExecutor == null ? 0 : byHost().size();
  }

  private Map<String, Sums> byHost() {
    Map<String, Sums> hosts = new LinkedHashMap<>();
    for (Sums work : byExecutor.values()) {
      hosts.computeIfAbsent(work.host, host -> new Sums(null, host)).add(work);
    }
    return hosts;
  }

  /**
   * The executor, or the host with several executors, that took the most run time beyond what the others took for the
   * same work; null if none did, or if it is unknown. A long task alone does not make it slow: the medians tell. {@code
   * numbers}: of the executors of the tasks, in the order of {@code runTimes}.
   */
  Slow slowest(int[] numbers, long[] runTimes) {
    if (executors() < 2) return null;
    Sums all = new Sums(null, "");
    for (Sums work : byExecutor.values()) all.add(work);
    List<Sums> candidates = new ArrayList<>(byExecutor.values());
    for (Sums host : byHost().values())
      if (Long.bitCount(host.numbers) > 1) candidates.add(host);
    Sums slowest = null;
    double most = 0;
    for (Sums work : candidates) {
      double excess = excess(work, all);
      if (!(excess > most)) continue; // or not a number
      most = excess;
      slowest = work;
    }
    if (slowest == null) return null;
    Slow slow = new Slow(slowest, most);
    slow.median = median(numbers, runTimes, slow.numbers);
    slow.medianOfOthers = median(numbers, runTimes, ~slow.numbers);
    slow.excess = Math.min(slow.excess, slow.tasks * (slow.median - slow.medianOfOthers));
    return slow.excess > 0 ? slow : null;
  }

  /** Its run time less what the others would take for as many tasks, rows and bytes, whichever is the most. */
  private static double excess(Sums work, Sums all) {
    double share = ratio(work.tasks, all.tasks);
    share = Math.max(share, ratio(work.rowsRead, all.rowsRead));
    share = Math.max(share, ratio(work.bytesRead, all.bytesRead));
    share = Math.max(share, ratio(work.rowsWritten, all.rowsWritten));
    return work.runTime - share * (all.runTime - work.runTime);
  }

  /** How much more of something there is than elsewhere; infinite if there is none elsewhere. */
  private static double ratio(long here, long all) {
    return here == 0 ? 0 : (double) here / (all - here);
  }

  private static long median(int[] numbers, long[] runTimes, long executors) {
    long[] its = new long[runTimes.length];
    int n = 0;
    for (int i = 0; i < runTimes.length; i++)
      if ((executors >>> numbers[i] & 1) != 0) its[n++] = runTimes[i];
    Arrays.sort(its, 0, n);
    return n == 0 ? 0 : its[n / 2];
  }
}
