package io.joinsight.capture;

import static io.joinsight.Check.check;

/** Finds executors and hosts that are slow for their work, and no others. */
public final class WorkByExecutorTest {
  private static final int RUN_TIME = StageTotals.index("run_time_ms");
  private static final int ROWS = StageTotals.index("shuffle_read_rows");
  private static final int WRITTEN = StageTotals.index("shuffle_write_rows");

  private final Memory memory = new Memory(Long.MAX_VALUE);
  private final StageAttempt stage = new StageAttempt(new Stage(1, 0, "stage", 1_000), 0, memory);
  private int tasks;

  public static void main(String[] arguments) {
    // Three executors on two hosts, one of which takes three times as long for the same work
    WorkByExecutorTest slow = new WorkByExecutorTest();
    for (int i = 0; i < 4; i++) slow.run("1", "a", 100, 10, 0).run("2", "a", 100, 10, 0).run("3", "b", 300, 10, 0);
    check(slow.stage.executors() == 3 && slow.stage.hosts() == 2, "executors and hosts");
    slow.found("3", "b", 4, 1200, 800);

    // Both executors of a host
    WorkByExecutorTest host = new WorkByExecutorTest();
    for (int i = 0; i < 4; i++) host.run("1", "a", 300, 10, 0).run("2", "a", 310, 10, 0).run("3", "b", 100, 10, 0);
    host.found(null, "a", 8, 2440, 1640);

    // It read as many more rows, or wrote them, as it took longer
    WorkByExecutorTest skewed = new WorkByExecutorTest();
    for (int i = 0; i < 4; i++) skewed.run("1", "a", 100, 10, 0).run("2", "b", 300, 30, 0);
    skewed.foundNone("skew");
    WorkByExecutorTest exploding = new WorkByExecutorTest();
    for (int i = 0; i < 4; i++) exploding.run("1", "a", 100, 10, 10).run("2", "b", 300, 10, 30);
    exploding.foundNone("rows that are written");
    // Only its tasks read anything
    WorkByExecutorTest alone = new WorkByExecutorTest();
    alone.run("1", "a", 0, 0, 0).run("2", "b", 300, 10, 0);
    alone.foundNone("work that no other did");

    // One of its tasks is long: half of them are not
    WorkByExecutorTest straggler = new WorkByExecutorTest();
    for (int i = 0; i < 4; i++) straggler.run("1", "a", 100, 10, 0).run("2", "b", i == 0 ? 5_000 : 100, 10, 0);
    straggler.foundNone("a straggler");

    // Failed tasks and twins do not count; nor does anything of one executor alone
    WorkByExecutorTest single = new WorkByExecutorTest();
    single.run("1", "a", 100, 10, 0);
    single.end(0, "2", "b", 900, 10, 0, true);
    single.end(1, "2", "b", 900, 10, 0, false);
    check(single.stage.executors() == 1 && single.stage.hosts() == 1, "those with tasks that succeeded");
    single.foundNone("a single one");

    // As many as a long has bits; with one more it is unknown
    WorkByExecutorTest many = new WorkByExecutorTest();
    for (int i = 0; i < WorkByExecutor.MAX; i++) many.run("" + i, "h" + i % 8, i == 63 ? 900 : 100, 10, 0);
    check(many.stage.executors() == 64 && many.stage.hosts() == 8, "the most");
    many.found("63", "h7", 1, 900, 800);
    many.run("64", "h0", 100, 10, 0);
    many.foundNone("too many");
    check(many.stage.executors() == 0 && many.stage.hosts() == 0, "too many");
    many.run("0", "h0", 100, 10, 0);
    System.out.println("ok");
  }

  private WorkByExecutorTest run(String executor, String host, long runTime, long rows, long written) {
    return end(tasks++, executor, host, runTime, rows, written, true);
  }

  private WorkByExecutorTest end(
      int index, String executor, String host, long runTime, long rows, long written, boolean success) {
    long[] task = new long[StageTotals.COUNT];
    task[RUN_TIME] = runTime;
    task[ROWS] = rows;
    task[WRITTEN] = written;
    stage.taskEnded(index, index, executor, host, 1, 1 + runTime, success, false, task);
    check(memory.used() == stage.heapBytes(), "memory " + memory.used() + " for " + stage.heapBytes());
    return this;
  }

  private void found(String executor, String host, long tasks, long runTime, long excess) {
    for (StageAttempt each : new StageAttempt[] {stage, stage.copy()}) {
      WorkByExecutor.Slow slow = each.slowest();
      check(slow != null, "nothing was found for " + executor);
      String is = slow.executor + " " + slow.host + " " + slow.tasks + " " + slow.runTime + " " + slow.excess;
      check(is.equals(executor + " " + host + " " + tasks + " " + runTime + " " + excess), is);
    }
  }

  private void foundNone(String what) {
    check(stage.slowest() == null, what + " makes an executor slow");
  }
}
