package io.joinsight.bench;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import io.joinsight.JoinsightListener;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkFirehoseListener;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.io.ZStdCompressionCodec;
import org.apache.spark.scheduler.EventLoggingListener;
import org.apache.spark.scheduler.ReplayListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerInterface;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.Option;

/** What bench/overhead.py needs inside the driver's JVM: clocks, an empty listener, and a recorder that replays. */
public final class Probe {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

  /** Its doPostEvent hands an event to the right method of a listener, as the live bus does. */
  private static final ReplayListenerBus DISPATCH = new ReplayListenerBus();

  private Probe() {}

  /** Does nothing: what is left is the cost of the bus's queue and its thread. */
  private static final class Empty extends SparkListener {}

  /** Times the listener it wraps in a real job, keeps the events, and feeds them again to fresh listeners. */
  public static final class Recorder extends SparkFirehoseListener {
    private final SparkContext context;
    private final SparkListenerInterface listener;
    private final Times live = new Times();
    private final Times reading = new Times();
    private final Random chance = new Random(0); // in turns, it might be always the first task of a stage
    private long read;
    private List<SparkListenerEvent> events = new ArrayList<>();
    private long sqlAccumulators;

    /** Attached when made; {@link #stop} before anything is asked. */
    public Recorder(SparkContext context, SparkConf conf) {
      this.context = context;
      listener = new JoinsightListener(conf);
      context.addSparkListener(this);
    }

    public void stop() {
      context.removeSparkListener(this);
      end(listener);
    }

    @Override
    public void onEvent(SparkListenerEvent event) {
      boolean readFirst = event instanceof SparkListenerTaskEnd && chance.nextBoolean();
      if (readFirst) read((SparkListenerTaskEnd) event);
      deliver(event, listener, readFirst ? null : live); // what was just read is in the caches
      events.add(event);
      if (event instanceof SparkListenerTaskEnd) sqlAccumulators += count((SparkListenerTaskEnd) event);
    }

    /** What any listener pays that reads the SQL metrics of a task. */
    private void read(SparkListenerTaskEnd event) {
      long start = System.nanoTime();
      TaskMetrics metrics = event.taskMetrics();
      for (int i = 0; metrics != null && i < metrics._externalAccums().size(); i++) {
        Object accumulator = metrics._externalAccums().apply(i);
        if (accumulator instanceof SQLMetric)
          read += ((SQLMetric) accumulator).id() + ((SQLMetric) accumulator).value();
      }
      reading.add(System.nanoTime() - start);
    }

    /** Everything that a recording can tell, by name: times in ns, sizes in bytes. Afterwards the events are gone. */
    public Map<String, Number> results(SparkConf conf, int passes, boolean running) throws InterruptedException {
      Map<String, Number> results = new TreeMap<>();
      int tasks = live.length + reading.length;
      results.put("tasks", tasks);
      results.put("sql_metrics_per_task", (double) sqlAccumulators / Math.max(1, tasks));
      live.summary("live", results);
      reading.summary("reading", results);
      results.put("read", read); // so that the reading is not optimised away
      replay(conf, passes, results);
      held(conf, running, results);
      return results;
    }

    /** Replays to two new listeners in each pass, one timed call by call; the first half of the passes warm up. */
    private void replay(SparkConf conf, int passes, Map<String, Number> results) {
      Times times = new Times();
      long cpu = 0;
      long allocated = 0;
      for (int pass = 0; pass < passes; pass++) {
        boolean measured = pass >= passes / 2;
        SparkListenerInterface timed = new JoinsightListener(conf);
        for (SparkListenerEvent event : events) deliver(event, timed, measured ? times : null);
        end(timed);
        SparkListenerInterface plain = new JoinsightListener(conf);
        long thread = Thread.currentThread().getId();
        long cpuBefore = THREADS.getCurrentThreadCpuTime();
        long allocatedBefore = THREADS.getThreadAllocatedBytes(thread);
        for (SparkListenerEvent event : events) deliver(event, plain, null);
        if (measured) {
          cpu += THREADS.getCurrentThreadCpuTime() - cpuBefore;
          allocated += THREADS.getThreadAllocatedBytes(thread) - allocatedBefore;
        }
        end(plain);
      }
      times.summary("replay", results);
      results.put("replay_cpu_ns_per_task", (double) cpu / times.length);
      results.put("replay_allocated_bytes_per_task", (double) allocated / times.length);
    }

    /**
     * Heap that a listener alone keeps alive after these events, and its maps' sizes: with {@code running} before it
     * hears that an execution ended, and in any case after that.
     */
    private void held(SparkConf conf, boolean running, Map<String, Number> results) throws InterruptedException {
      usedHeap(); // the job's own garbage first
      SparkListenerInterface fresh = new JoinsightListener(conf);
      List<SparkListenerEvent> ends = feed(fresh, running);
      events = new ArrayList<>();
      mapSizes(fresh, "entries_", results);
      Thread.sleep(2000); // the sender sends, and forgets
      long before = usedHeap();
      for (SparkListenerEvent event : ends) deliver(event, fresh, null);
      Thread.sleep(2000);
      mapSizes(fresh, "entries_after_", results);
      long after = usedHeap();
      end(fresh); // stops its threads, which refer to it
      fresh = null;
      long without = usedHeap();
      results.put("held_bytes", before - without);
      results.put("held_after_bytes", after - without);
    }

    /** Returns the events that were held back. */
    private List<SparkListenerEvent> feed(SparkListenerInterface fresh, boolean running) {
      List<SparkListenerEvent> ends = new ArrayList<>();
      for (SparkListenerEvent event : events) {
        if (running && event instanceof SparkListenerSQLExecutionEnd) ends.add(event);
        else deliver(event, fresh, null);
      }
      return ends;
    }
  }

  private static final class Times {
    long[] ns = new long[1 << 16];
    int length;

    void add(long value) {
      if (length == ns.length) ns = Arrays.copyOf(ns, 2 * length);
      ns[length++] = value;
    }

    void summary(String name, Map<String, Number> results) {
      long[] sorted = Arrays.copyOf(ns, length);
      Arrays.sort(sorted);
      results.put(name + "_mean_ns", Arrays.stream(sorted).average().orElse(0));
      results.put(name + "_median_ns", length == 0 ? 0 : sorted[length / 2]);
      results.put(name + "_p99_ns", length == 0 ? 0 : sorted[(int) (length * 99L / 100)]);
    }
  }

  private static void deliver(SparkListenerEvent event, SparkListenerInterface listener, Times times) {
    if (times != null && event instanceof SparkListenerTaskEnd) {
      SparkListenerTaskEnd taskEnd = (SparkListenerTaskEnd) event;
      long start = System.nanoTime();
      listener.onTaskEnd(taskEnd);
      times.add(System.nanoTime() - start);
    } else {
      DISPATCH.doPostEvent(listener, event);
    }
  }

  private static int count(SparkListenerTaskEnd event) {
    TaskMetrics metrics = event.taskMetrics();
    int n = 0;
    for (int i = 0; metrics != null && i < metrics._externalAccums().size(); i++) {
      if ((Object) metrics._externalAccums().apply(i) instanceof SQLMetric) n++;
    }
    return n;
  }

  /** Adds what a condition measures; null for none. The event log is one plain file in {@code folder}. */
  public static SparkListenerInterface attach(SparkContext context, String condition, SparkConf conf, String folder) {
    SparkListenerInterface listener;
    if (condition.equals("event log")) {
      SparkConf plain =
          conf.clone().set("spark.eventLog.compress", "false").set("spark.eventLog.rolling.enabled", "false");
      EventLoggingListener log = new EventLoggingListener(
          "bench", Option.empty(), Paths.get(folder).toUri(), plain, context.hadoopConfiguration());
      log.start();
      context.listenerBus().addToEventLogQueue(log);
      return log;
    } else if (condition.equals("joinsight")) {
      listener = new JoinsightListener(conf);
    } else if (condition.equals("empty")) {
      listener = new Empty();
    } else {
      return null;
    }
    context.addSparkListener(listener);
    return listener;
  }

  /** Takes a listener off and has it finish its work. */
  public static void detach(SparkContext context, SparkListenerInterface listener) {
    if (listener == null) return;
    context.removeSparkListener(listener);
    if (listener instanceof EventLoggingListener) ((EventLoggingListener) listener).stop();
    else end(listener);
  }

  /** Has a listener send what it has and stop its threads, as at the end of an application. */
  private static void end(SparkListenerInterface listener) {
    listener.onApplicationEnd(new SparkListenerApplicationEnd(System.currentTimeMillis(), Option.empty()));
  }

  /** Sizes of all maps in the listener's state of executions, by field: none may grow with the number of queries. */
  private static void mapSizes(SparkListenerInterface listener, String prefix, Map<String, Number> sizes) {
    try {
      Field field = JoinsightListener.class.getDeclaredField("executions");
      field.setAccessible(true);
      Object executions = field.get(listener);
      for (Field map : executions.getClass().getDeclaredFields()) {
        map.setAccessible(true);
        Object value = map.get(executions);
        if (value instanceof Map) sizes.put(prefix + map.getName(), ((Map<?, ?>) value).size());
      }
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  public static long processCpuNs() {
    return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
  }

  /** CPU of the living threads whose names begin so. */
  public static long threadCpuNs(String name) {
    long sum = 0;
    for (ThreadInfo thread : THREADS.getThreadInfo(THREADS.getAllThreadIds())) {
      if (thread != null && thread.getThreadName().startsWith(name))
        sum += Math.max(0, THREADS.getThreadCpuTime(thread.getThreadId()));
    }
    return sum;
  }

  /**
   * Used heap after garbage collections, until it no longer shrinks. Waits between them: what a collection finds dead,
   * such as a broadcast relation, Spark's cleaner lets go of afterwards, in a thread of its own.
   */
  public static long usedHeap() throws InterruptedException {
    long used = Long.MAX_VALUE;
    for (int i = 0, stable = 0; i < 20 && stable < 3; i++) {
      System.gc();
      long now = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
      stable = now >= used - 50_000 ? stable + 1 : 0;
      used = Math.min(now, used);
      Thread.sleep(100);
    }
    return used;
  }

  /** What one System.nanoTime costs, ns: a timed call holds about one of it. */
  public static double timerNs() {
    long start = System.nanoTime();
    for (int i = 0; i < 5_000_000; i++) System.nanoTime();
    return (System.nanoTime() - start) / 5_000_000.0;
  }

  /** Events that the bus's queues dropped because they were full, since the SparkContext started. */
  public static long droppedEvents(SparkContext context) {
    long sum = 0;
    for (Map.Entry<String, com.codahale.metrics.Counter> counter :
         context.listenerBus().metrics().metricRegistry().getCounters().entrySet()) {
      if (counter.getKey().endsWith("numDroppedEvents")) sum += counter.getValue().getCount();
    }
    return sum;
  }

  /** Size of a file as Spark's event log would compress it. */
  public static long zstdBytes(SparkConf conf, String path) throws java.io.IOException {
    long[] size = {0};
    OutputStream counter = new OutputStream() {
      @Override
      public void write(int b) {
        size[0]++;
      }

      @Override
      public void write(byte[] b, int offset, int length) {
        size[0] += length;
      }
    };
    try (InputStream in = Files.newInputStream(Paths.get(path));
         OutputStream out = new ZStdCompressionCodec(conf).compressedOutputStream(counter)) {
      in.transferTo(out);
    }
    return size[0];
  }
}
