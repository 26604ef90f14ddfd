package io.joinsight;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Random;
import java.util.function.IntFunction;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.Success$;
import org.apache.spark.TaskState;
import org.apache.spark.executor.ExecutorMetrics;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.ReplayListenerBus;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.TaskLocality;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.sql.execution.ui.SQLAppStatusListener;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.status.AppStatusListener;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.util.AccumulatorMetadata;
import org.apache.spark.util.kvstore.InMemoryStore;
import scala.Option;
import scala.Tuple4;
import scala.collection.immutable.Seq;

/**
 * For bench/crowd.py, with numbers as arguments: executors, tasks that each runs, metrics of each task, rounds, and rates
 * of tasks a second.
 *
 * <p>Feeds the heartbeats of the executors to a listener of Joinsight and to those of Spark's UI; prints a line for each:
 * its name, the CPU of the thread for a heartbeat in microseconds, and the heap that its state takes in bytes; the same
 * for each of a million tasks. Then posts starts and ends of tasks to the bus of a Spark context at these rates; prints a
 * line for each: the rate, that at which it could post, and the events that the queue of Spark's UI dropped without a
 * listener of Joinsight, with one, and the events that the queue with it dropped.
 */
public final class CrowdProbe {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Its doPostEvent hands an event to the right method of a listener, as the live bus does. */
  private static final ReplayListenerBus DISPATCH = new ReplayListenerBus();

  private static final List<String> LISTENERS = Arrays.asList("joinsight", "SQLAppStatusListener", "AppStatusListener");
  private static final int WARM_UPS = 3;
  private static final int TASKS = 1_000_000;
  private static final int CHUNK = 10_000; // tasks whose events are made at once
  private static final long DRAIN_MS = 600_000;
  private static final int SECONDS = 3;
  private static final String UI = "appStatus"; // queues of the bus
  private static final String SHARED = "shared";
  private static final long STARTED_AT = System.currentTimeMillis();

  private final int executors;
  private final int cores;
  private final int metrics;

  private CrowdProbe(int executors, int cores, int metrics) {
    this.executors = executors;
    this.cores = cores;
    this.metrics = metrics;
  }

  public static void main(String[] a) throws Exception {
    CrowdProbe crowd = new CrowdProbe(Integer.parseInt(a[0]), Integer.parseInt(a[1]), Integer.parseInt(a[2]));
    for (String name : LISTENERS) System.out.println(crowd.heartbeats(name, Integer.parseInt(a[3])));
    for (String name : LISTENERS) {
      crowd.tasks(name, CHUNK); // warms up
      System.out.println(crowd.tasks(name, TASKS));
    }
    SparkConf conf = new SparkConf(false).setMaster("local[1]").setAppName("crowd").set("spark.ui.enabled", "false");
    SparkContext context = new SparkContext(conf.set("spark.driver.host", "127.0.0.1"));
    crowd.post(context, CHUNK); // warms up
    for (int i = 4; i < a.length; i++) System.out.println(crowd.queues(context, Integer.parseInt(a[i])));
    System.exit(0); // Joinsight's threads still wait for a collector
  }

  // Listeners

  private String heartbeats(String name, int rounds) throws Exception {
    List<SparkListenerEvent> beats = heartbeats();
    long before = usedHeap();
    SparkListenerInterface listener = listener(name);
    feed(listener, query(executors * cores));
    feed(listener, starts(0, executors * cores));
    long cpu = 0;
    for (int round = -WARM_UPS; round < rounds; round++) {
      long took = feed(listener, beats);
      if (round >= 0) cpu += took;
    }
    long held = usedHeap() - before;
    feed(listener, beats.subList(0, 1)); // so that it was still reachable where its heap was measured
    return name + " " + cpu / 1e3 / rounds / executors + " " + held;
  }

  private String tasks(String name, int tasks) throws Exception {
    long before = usedHeap();
    SparkListenerInterface listener = listener(name);
    feed(listener, query(tasks));
    long cpu = 0;
    for (int from = 0; from < tasks; from += CHUNK) {
      List<SparkListenerEvent> starts = starts(from, from + CHUNK);
      List<SparkListenerEvent> ends = ends(from, from + CHUNK, this::values);
      cpu += feed(listener, starts) + feed(listener, ends);
    }
    long held = usedHeap() - before;
    feed(listener, starts(0, 1));
    return name + " " + cpu / 1e3 / tasks + " " + held;
  }

  /** Returns the CPU that it took, in nanoseconds. */
  private static long feed(SparkListenerInterface listener, List<SparkListenerEvent> events) {
    long started = THREADS.getCurrentThreadCpuTime();
    for (SparkListenerEvent event : events) DISPATCH.doPostEvent(listener, event);
    return THREADS.getCurrentThreadCpuTime() - started;
  }

  private static SparkListenerInterface listener(String name) {
    SparkConf conf =
        new SparkConf(false).set("spark.app.name", "crowd").set("spark.joinsight.url", "http://127.0.0.1:9");
    conf.set("spark.joinsight.spool", "none").set("spark.joinsight.progressInterval", "1h");
    if (name.equals("joinsight")) return new JoinsightListener(conf);
    ElementTrackingStore store = new ElementTrackingStore(new InMemoryStore(), conf);
    if (name.equals("SQLAppStatusListener")) return new SQLAppStatusListener(conf, store, true);
    return new AppStatusListener(store, conf, true, Option.empty(), Option.empty());
  }

  // Queues

  private String queues(SparkContext context, int rate) throws Exception {
    long before = dropped(context, UI);
    double posted = post(context, rate);
    long without = dropped(context, UI);
    SparkListenerInterface listener = listener("joinsight");
    feed(listener, query(0).subList(0, 1)); // the application's start
    context.addSparkListener(listener);
    long ours = dropped(context, SHARED);
    post(context, rate);
    context.removeSparkListener(listener);
    return rate + " " + posted + " " + (without - before) + " " + (dropped(context, UI) - without) + " "
        + (dropped(context, SHARED) - ours);
  }

  /** Posts a query and its tasks, as many a second as {@code rate}; returns how many it could post. */
  private double post(SparkContext context, int rate) throws Exception {
    LiveListenerBus bus = context.listenerBus();
    int tasks = rate * SECONDS;
    TaskMetrics values = values(1); // all tasks share them: else they would take gigabytes
    List<SparkListenerEvent> starts = starts(0, tasks);
    List<SparkListenerEvent> ends = ends(0, tasks, task -> values);
    List<SparkListenerEvent> query = query(tasks);
    for (SparkListenerEvent event : query.subList(1, query.size())) bus.post(event);
    bus.waitUntilEmpty(DRAIN_MS);
    long started = System.nanoTime();
    for (int task = 0; task < tasks; task++) {
      while (System.nanoTime() - started < 1e9 * task / rate) Thread.onSpinWait();
      bus.post(starts.get(task));
      bus.post(ends.get(task));
    }
    double seconds = (System.nanoTime() - started) / 1e9;
    bus.waitUntilEmpty(DRAIN_MS);
    return tasks / seconds;
  }

  private static long dropped(SparkContext context, String queue) {
    String name = "queue." + queue + ".numDroppedEvents";
    return context.listenerBus().metrics().metricRegistry().counter(name).getCount();
  }

  // Events

  /** The start of an application, and of one query, whose only stage has these tasks. */
  private List<SparkListenerEvent> query(int tasks) {
    List<SparkListenerEvent> events = new ArrayList<>();
    events.add(new SparkListenerApplicationStart(
        "crowd", Option.apply("crowd"), STARTED_AT, "me", Option.empty(), Option.empty(), Option.empty()));
    List<SQLMetricInfo> infos = new ArrayList<>();
    for (int m = 0; m < metrics; m++) infos.add(new SQLMetricInfo("metric " + m, m, "sum"));
    SparkPlanInfo plan =
        new SparkPlanInfo("Range", "Range", seq(), new scala.collection.immutable.HashMap<>(), seq(infos));
    events.add(new SparkListenerSQLExecutionStart(
        0, Option.empty(), "query", "call site", "", plan, STARTED_AT, new scala.collection.immutable.HashMap<>(),
        new scala.collection.immutable.HashSet<>(), Option.empty(), Option.empty()));
    Properties properties = new Properties();
    properties.setProperty("spark.sql.execution.id", "0");
    StageInfo stage =
        new StageInfo(0, 0, "stage", tasks, seq(), seq(), "", new TaskMetrics(), seq(), Option.empty(), 0, false, 0);
    events.add(new SparkListenerJobStart(0, STARTED_AT, seq(stage), properties));
    events.add(new SparkListenerStageSubmitted(stage, properties));
    return events;
  }

  private List<SparkListenerEvent> starts(int from, int to) {
    List<SparkListenerEvent> starts = new ArrayList<>();
    for (int task = from; task < to; task++) starts.add(new SparkListenerTaskStart(0, 0, info(task)));
    return starts;
  }

  private List<SparkListenerEvent> ends(int from, int to, IntFunction<TaskMetrics> values) {
    List<SparkListenerEvent> ends = new ArrayList<>();
    for (int task = from; task < to; task++) {
      TaskInfo info = info(task);
      info.markFinished(TaskState.FINISHED(), info.launchTime() + 1);
      TaskMetrics ofTask = values.apply(task);
      ends.add(new SparkListenerTaskEnd(0, 0, "ResultTask", Success$.MODULE$, info, new ExecutorMetrics(), ofTask));
    }
    return ends;
  }

  private TaskInfo info(int task) {
    String executor = Integer.toString(task / cores % executors);
    return new TaskInfo(task, task, 0, task, STARTED_AT + task / 10, executor, "host", TaskLocality.ANY(), false);
  }

  /** Values of a task: metrics of one bit to twenty. */
  private TaskMetrics values(int task) {
    Random random = new Random(task);
    TaskMetrics values = new TaskMetrics();
    for (int m = 0; m < metrics; m++) {
      SQLMetric metric = new SQLMetric("sum", 0);
      metric.metadata_$eq(AccumulatorMetadata.apply(m, Option.empty(), false));
      metric.set(random.nextInt(2 << m % 20));
      values.registerAccumulator(metric);
    }
    return values;
  }

  private List<SparkListenerEvent> heartbeats() {
    List<AccumulableInfo> values = new ArrayList<>();
    for (int m = 0; m < metrics; m++) {
      values.add(new AccumulableInfo(
          m, Option.apply("metric " + m), Option.apply((Object) (1000L + m)), Option.empty(), true, true,
          Option.apply("sql")));
    }
    Seq<AccumulableInfo> ofTask = seq(values); // all tasks share them: else they would take gigabytes
    List<SparkListenerEvent> beats = new ArrayList<>();
    for (int executor = 0; executor < executors; executor++) {
      List<Tuple4<Object, Object, Object, Seq<AccumulableInfo>>> tasks = new ArrayList<>();
      for (int core = 0; core < cores; core++) {
        tasks.add(new Tuple4<>((long) executor * cores + core, 0, 0, ofTask));
      }
      beats.add(new SparkListenerExecutorMetricsUpdate(
          Integer.toString(executor), seq(tasks), new scala.collection.immutable.HashMap<>()));
    }
    return beats;
  }

  private static long usedHeap() throws InterruptedException {
    for (int i = 0; i < 5; i++) {
      System.gc();
      Thread.sleep(100);
    }
    return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
  }

  @SafeVarargs
  @SuppressWarnings("varargs") // a list of them is all that is made
  private static <T> Seq<T> seq(T... elements) {
    return seq(Arrays.asList(elements));
  }

  private static <T> Seq<T> seq(List<T> elements) {
    return scala.jdk.javaapi.CollectionConverters.asScala(elements).toSeq();
  }
}
