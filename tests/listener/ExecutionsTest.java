package io.joinsight.capture;

import io.joinsight.Check;
import io.joinsight.delivery.Settings;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;

/**
 * Ends executions in different ways, and checks that nothing keeps the values of their tasks alive afterwards; reports
 * the progress of a long one; loses an executor; ends one that was no longer followed; counts slots.
 */
public final class ExecutionsTest {
  private static final int TASKS = 1_000;
  private static final long METRIC = 7;
  private static final int COLLECTIONS = 100;

  private final Executions executions;
  private int reported;
  private int snapshots;
  private Snapshot last;

  private ExecutionsTest() {
    this(Long.MAX_VALUE);
  }

  private ExecutionsTest(long memoryLimit) {
    this(memoryLimit, new SparkConf(false));
  }

  private ExecutionsTest(long memoryLimit, SparkConf conf) {
    conf.set("spark.app.name", "test").set("spark.joinsight.url", "http://collector:1");
    Application application = new Application(new Settings(conf).application, true);
    executions = new Executions(application, memoryLimit, this::report);
  }

  public static void main(String[] args) throws Exception {
    for (boolean jobFirst : new boolean[] {true, false}) {
      ExecutionsTest test = new ExecutionsTest();
      WeakReference<StageValues> values = test.run(jobFirst);
      for (int i = 0; i < COLLECTIONS && values.get() != null; i++) {
        System.gc();
        Thread.sleep(10);
      }
      if (test.reported == 0) throw new AssertionError("nothing was reported");
      if (values.get() != null) throw new AssertionError("values are still there; the job ended first: " + jobFirst);
    }
    new ExecutionsTest().progress();
    new ExecutionsTest().lostExecutor();
    new ExecutionsTest(200_000).noLongerFollowed();
    new ExecutionsTest().oldestTask();
    new ExecutionsTest().nested();
    new ExecutionsTest().lateTask(10, 1);
    new ExecutionsTest().lateTask(10_000, 2); // no longer kept
    slots();
    System.out.println("ok");
  }

  /** Aggregates the values, as the sender does; they are dropped then. */
  private void report(Snapshot snapshot) {
    snapshots++;
    last = snapshot;
    for (AccumulatorValues each : snapshot.values) {
      if (each.aggregate().summary.count == TASKS) reported++;
    }
  }

  /** A command starts 1, which starts 2; then the command itself starts 3. Spark names the command for all of them. */
  private void nested() {
    for (long id : new long[] {0, 1, 2}) {
      executions.start(
          id, 0L, id, "query", "", Collections.emptyMap(), new String[0], null, new PlanNode("Range", "Range"));
    }
    executions.end(2, 12, "", null, Collections::emptyList);
    startedBy(last, "[]");
    executions.end(1, 13, "", null, Collections::emptyList);
    startedBy(last, "[2 2-12]");
    executions.start(
        3, 0L, 14, "query", "", Collections.emptyMap(), new String[0], null, new PlanNode("Range", "Range"));
    executions.end(3, 15, "", null, Collections::emptyList);
    executions.end(0, 16, "", null, Collections::emptyList);
    startedBy(last, "[1 1-13, 2 2-12, 3 14-15]");
    plannedBy();
  }

  /** Spark says that 4 began at 20 after it has planned it, by 6, which starts 7; what ran for it before is not its. */
  private void plannedBy() {
    for (long[] each : new long[][] {{5, 19}, {6, 21}, {7, 22}}) {
      executions.start(
          each[0], 4L, each[1], "query", "", Collections.emptyMap(), new String[0], null,
          new PlanNode("Range", "Range"));
      if (each[0] == 5) executions.end(5, 20, "", null, Collections::emptyList);
    }
    executions.end(7, 23, "", null, Collections::emptyList);
    executions.end(6, 24, "", null, Collections::emptyList);
    startedBy(last, "[7 22-23]");
    executions.start(
        4, 4L, 20, "query", "", Collections.emptyMap(), new String[0], null, new PlanNode("Range", "Range"));
    executions.end(4, 30, "", null, Collections::emptyList);
    startedBy(last, "[6 21-24, 7 22-23]");
  }

  private static void startedBy(Snapshot snapshot, String expected) {
    List<String> found = new ArrayList<>();
    for (LiveExecution.Nested each : snapshot.nested) found.add(each.id + " " + each.startedAt + "-" + each.endedAt);
    Check.check(found.toString().equals(expected), "it started " + found);
  }

  /** An hour with something new every ten seconds: each is reported at first, later one a minute, and the last one. */
  private void progress() {
    executions.start(
        0, 0L, 1, "query", "", Collections.emptyMap(), new String[0], null, new PlanNode("Range", "Range"));
    long last = 0;
    long longest = 0;
    for (long second = 10; second <= 3_600; second += 10) {
      executions.metricUpdates(0, 1, Collections.emptyList());
      int before = snapshots;
      executions.emitProgress(Long.MAX_VALUE + 1_000_000_000 * second); // the clock of nanoseconds may overflow
      if (snapshots == before) continue;
      longest = Math.max(longest, second - last);
      last = second;
      if (second == 110 && snapshots != 11) throw new AssertionError(snapshots + " in the first 110 seconds");
    }
    if (longest != 60 || snapshots != 75) throw new AssertionError(snapshots + ", pauses of up to " + longest + " s");
    executions.metricUpdates(0, 1, Collections.emptyList());
    executions.emitChanged();
    executions.emitChanged();
    if (snapshots != 76) throw new AssertionError("the last change was reported " + (snapshots - 75) + " times");
  }

  /** Job 2, of execution 0, with this stage. */
  private void jobStart(long time, Stage stage) {
    Map<String, String> properties = Collections.singletonMap(Executions.EXECUTION_ID, "0");
    executions.jobStart(2, time, properties::get, Arrays.asList(stage));
  }

  /** The stage runs only the task whose output is missing; another task of it is lost and runs again. */
  private void lostExecutor() {
    start(0);
    Stage announced = new Stage(3, 0, "stage", 4);
    jobStart(1, announced);
    Stage submitted = new Stage(3, 0, "stage", 1);
    executions.stageSubmitted(submitted);
    long[] totals = new long[StageTotals.COUNT];
    executions.taskEnded(3, 0, 0, 7, "1", "a", 1, 2, true, false, false, totals);
    executions.taskEnded(3, 0, 0, 7, "1", "a", 1, 2, true, false, true, null);
    executions.taskEnded(3, 0, 0, 8, "1", "a", 3, 4, true, false, false, totals);
    executions.stageCompleted(submitted);
    executions.jobEnd(2, 5, true, null);
    executions.end(0, 6, null, null, ArrayList::new);
    StageAttempt stage = last.stages.get(0);
    Check.check(last.incomplete.isEmpty(), "incomplete, though each task has ended");
    Check.check(
        stage.tasks == 1 && stage.succeeded == 1 && stage.failed == 1,
        stage.succeeded + " of " + stage.tasks + " tasks succeeded, " + stage.failed + " failed");
  }

  /** A task whose end comes after its executor's is of that one's node, if no more than so many were removed since. */
  private void lateTask(int others, int hosts) {
    start(0);
    Stage stage = new Stage(3, 0, "stage", 2);
    jobStart(1, stage);
    executions.stageSubmitted(stage);
    executions.executorAdded("1", 1, 0, "node");
    executions.executorAdded("2", 1, 0, "node");
    executions.executorRemoved("2");
    for (int i = 0; i < others; i++) {
      executions.executorAdded("other " + i, 1, 0, "other");
      executions.executorRemoved("other " + i);
    }
    long[] totals = new long[StageTotals.COUNT];
    executions.taskEnded(3, 0, 0, 7, "1", "10.0.0.1", 1, 2, true, false, false, totals);
    executions.taskEnded(3, 0, 1, 8, "2", "10.0.0.2", 1, 3, true, false, false, totals);
    executions.stageCompleted(stage);
    executions.jobEnd(2, 5, true, null);
    executions.end(0, 6, null, null, ArrayList::new);
    int found = last.stages.get(0).hosts();
    Check.check(found == hosts, found + " hosts instead of " + hosts);
  }

  /** At the memory limit the oldest execution is dropped; its end is reported with what was known. */
  private void noLongerFollowed() {
    start(0);
    for (int id = 1; last == null; id++) start(id);
    Check.check(last.executionId == 0 && last.state.equals("running"), "the oldest execution was not dropped first");
    jobStart(7, new Stage(3, 0, "stage", 4));
    executions.end(0, 9, "broken", null, ArrayList::new);
    Check.check(last.executionId == 0 && last.state.equals("failed") && last.endedAt == 9, "its end is not reported");
    Check.check(last.plans.size() == 1 && last.jobs.isEmpty(), "it has other plans and jobs than when it was dropped");
    Check.check(last.incomplete.get(0).code.equals("not_followed"), "it is not marked");
    int before = snapshots;
    executions.end(0, 10, null, null, ArrayList::new);
    executions.emitChanged();
    Check.check(last.executionId != 0 || snapshots == before, "its end is reported twice");
  }

  /** The most that a stage has from its submission to its completion; 0: unknown. */
  private static void slots() {
    check(2, "2", 0, "", test -> test.executions.executorAdded("2", 2, 0, null)); // 3 cores and 2: a slot each
    check(4, "", 0, "", test -> test.executions.executorAdded("2", 1, 0, null));
    check(3, "", 0, "", test -> test.executions.executorAdded("1", 2, 0, null)); // the same again
    check(3, "", 0, "", test -> test.executions.executorRemoved("1"));
    check(3, "", 0, "", test -> test.executions.executorAdded("2", 8, 1, null)); // of another resource profile
    check(0, "", 1, "", test -> {}); // the stage is
    check(0, "", 0, "spark.task.resource.gpu.amount", test -> {});
    check(0, "x", 0, "", test -> {});
    check(3, "", 0, "", test -> test.executions.executorsMissed());
    check(Integer.MAX_VALUE, "", 0, "", test -> test.executions.executorAdded("2", Integer.MAX_VALUE, 0, null));
    ExecutionsTest unseen = new ExecutionsTest();
    unseen.executions.executorsMissed();
    check(0, unseen, 0, test -> test.executions.executorAdded("2", 1, 0, null));
  }

  private static void check(int slots, String cpus, int profile, String resource, Consumer<ExecutionsTest> meanwhile) {
    SparkConf conf = new SparkConf(false);
    if (!cpus.isEmpty()) conf.set("spark.task.cpus", cpus);
    if (!resource.isEmpty()) conf.set(resource, "1");
    check(slots, new ExecutionsTest(Long.MAX_VALUE, conf), profile, meanwhile);
  }

  private static void check(int slots, ExecutionsTest test, int profile, Consumer<ExecutionsTest> meanwhile) {
    test.executions.executorAdded("1", 3, 0, null);
    test.start(0);
    Stage stage = new Stage(3, 0, "stage", 1);
    stage.profile = profile;
    test.jobStart(1, stage);
    test.executions.stageSubmitted(stage);
    meanwhile.accept(test);
    test.executions.taskEnded(3, 0, 0, 7, "1", "a", 1, 2, true, false, false, new long[StageTotals.COUNT]);
    test.executions.stageCompleted(stage);
    test.executions.executorAdded("late", 100, 0, null);
    test.executions.jobEnd(2, 5, true, null);
    test.executions.end(0, 6, null, null, ArrayList::new);
    int found = test.last.stages.get(0).slots;
    Check.check(found == slots, found + " slots instead of " + slots);
  }

  /** The task that has run longest of those that still run, in reports of the progress only. */
  private void oldestTask() {
    start(0);
    Stage stage = new Stage(3, 0, "stage", 3);
    jobStart(1, stage);
    executions.stageSubmitted(stage);
    for (int i = 0; i < 3; i++) executions.taskStart(3, 0, 10 + i, i, 100 + i);
    executions.taskEnded(3, 0, 0, 10, "1", "a", 100, 105, true, false, false, null);
    executions.taskEnded(3, 0, 2, 12, "1", "a", 102, 105, true, false, false, null);
    executions.emitChanged();
    StageAttempt seen = last.stages.get(0);
    Check.check(last.reportedAt != null, "no time of the report");
    Check.check(seen.oldestTask() == 11 && seen.oldestLaunch() == 101, "not the task that runs");
    executions.taskEnded(3, 0, 1, 11, "1", "a", 101, 106, true, false, false, null);
    executions.stageCompleted(stage);
    Check.check(seen.oldestTask() == 11, "a snapshot has changed");
    executions.jobEnd(2, 6, true, null);
    executions.end(0, 6, "", null, ArrayList::new);
    Check.check(last.reportedAt == null && last.stages.get(0).oldestTask() < 0, "it has ended");
  }

  private void start(int id) {
    executions.start(
        id, (long) id, 1, "query", "", Collections.emptyMap(), new String[0], null, new PlanNode("Range", "Range"));
  }

  private WeakReference<StageValues> run(boolean jobFirst) {
    PlanNode plan = new PlanNode("Range", "Range (0, 1000)");
    plan.metrics.add(new PlanMetric("number of output rows", METRIC, "sum"));
    executions.start(0, 0L, 1, "query", "", Collections.emptyMap(), new String[0], null, plan);
    Stage stage = new Stage(3, 0, "stage", TASKS);
    jobStart(1, stage);
    executions.stageSubmitted(stage);
    WeakReference<StageValues> values = null;
    for (int i = 0; i < TASKS; i++) {
      executions.taskStart(stage.id, 0, i, i, 1);
      StageValues of = executions.taskEnded(stage.id, 0, i, i, "1", "a", 1, 2, true, false, false, null);
      of.update(0, METRIC, i, i, 1);
      executions.taskReported(of, i, true);
      values = new WeakReference<>(of);
    }
    executions.stageCompleted(stage);
    if (jobFirst) executions.jobEnd(2, 3, true, null);
    executions.end(0, 3, "", null, ArrayList::new);
    if (!jobFirst) executions.jobEnd(2, 3, true, null);
    return values;
  }
}
