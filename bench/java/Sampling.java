package io.joinsight.sampling;

import io.joinsight.JoinsightPlugin;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordedStackTrace;
import jdk.jfr.consumer.RecordedThread;
import jdk.jfr.consumer.RecordingFile;
import jdk.jfr.consumer.RecordingStream;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** For bench/task_time.py and bench/sampler.py: samples by JFR, and counts of what the {@link Sampler} sends. */
public final class Sampling {
  private static final String[] SAMPLES = {"jdk.ExecutionSample", "jdk.NativeMethodSample"};

  private static Recording recording;
  private static RecordingStream stream;
  private static final AtomicLong STREAMED = new AtomicLong();
  private static final AtomicLong RECEIVED = new AtomicLong();

  private Sampling() {}

  /** Starts a recording by JFR, which needs {@link Tasks}, and a stack depth of {@link Sampler#DEPTH}. */
  public static void record(long periodMs) {
    recording = new Recording();
    for (String name : SAMPLES) recording.enable(name).withPeriod(Duration.ofMillis(periodMs));
    recording.enable(TaskRun.class).withoutStackTrace();
    recording.start();
  }

  /** Ends the recording; returns counts of samples by {@link Stacks#key}, by stage attempt: "STAGE.ATTEMPT". */
  public static Map<String, Map<String, Long>> recorded() throws IOException {
    Path file = Files.createTempFile("tasks", ".jfr");
    recording.dump(file);
    recording.close();
    List<RecordedEvent> samples = new ArrayList<>();
    Map<Long, TreeMap<Instant, RecordedEvent>> tasks = new HashMap<>(); // by thread, by start
    for (RecordedEvent event : RecordingFile.readAllEvents(file)) {
      if (!event.getEventType().getName().equals(TaskRun.NAME)) samples.add(event);
      else
        tasks.computeIfAbsent(event.getThread().getJavaThreadId(), each -> new TreeMap<>())
            .put(event.getStartTime(), event);
    }
    Files.delete(file);
    Stacks stacks = new Stacks();
    Map<String, Map<String, Long>> counts = new HashMap<>();
    for (RecordedEvent sample : samples) {
      RecordedThread thread = sample.getThread("sampledThread");
      TreeMap<Instant, RecordedEvent> its = thread == null ? null : tasks.get(thread.getJavaThreadId());
      Map.Entry<Instant, RecordedEvent> task = its == null ? null : its.floorEntry(sample.getStartTime());
      if (task == null || task.getValue().getEndTime().isBefore(sample.getStartTime())) continue;
      String key = key(stacks, sample);
      String attempt = task.getValue().getInt("stage") + "." + task.getValue().getInt("attempt");
      if (key != null) counts.computeIfAbsent(attempt, each -> new HashMap<>()).merge(key, 1L, Long::sum);
    }
    return counts;
  }

  private static String key(Stacks stacks, RecordedEvent sample) {
    RecordedStackTrace stack = sample.getStackTrace();
    if (stack == null) return null;
    List<StackTraceElement> frames = new ArrayList<>();
    for (RecordedFrame frame : stack.getFrames()) {
      if (!frame.isJavaFrame()) continue;
      frames.add(new StackTraceElement(frame.getMethod().getType().getName(), frame.getMethod().getName(), null, -1));
    }
    return stacks.key(frames.toArray(new StackTraceElement[0]), Sampler.DEPTH, false);
  }

  /** Starts a stream by JFR that gives each sample of a task its key, as a sampler by JFR would have to. */
  public static void stream(long periodMs) {
    STREAMED.set(0);
    stream = new RecordingStream();
    stream.setReuse(true);
    stream.setOrdered(false);
    Stacks stacks = new Stacks();
    for (String name : SAMPLES) {
      stream.enable(name).withPeriod(Duration.ofMillis(periodMs));
      stream.onEvent(name, sample -> {
        RecordedThread thread = sample.getThread("sampledThread");
        String threadName = thread == null ? null : thread.getJavaName();
        if (threadName == null || !threadName.startsWith("Executor task launch worker")) return;
        if (key(stacks, sample) != null) STREAMED.incrementAndGet();
      });
    }
    stream.startAsync();
  }

  /** Ends the stream; returns how many samples it had. */
  public static long streamed() {
    stream.close();
    return STREAMED.get();
  }

  /** The samples that {@link Counting} has received from executors. */
  public static long received() {
    return RECEIVED.get();
  }

  @Name(TaskRun.NAME)
  private static final class TaskRun extends Event {
    static final String NAME = "io.joinsight.TaskRun";

    int stage;
    int attempt;
  }

  /** Has JFR record which thread runs which task. */
  public static final class Tasks implements SparkPlugin {
    @Override
    public DriverPlugin driverPlugin() {
      return null;
    }

    @Override
    public ExecutorPlugin executorPlugin() {
      ThreadLocal<TaskRun> running = new ThreadLocal<>();
      return new ExecutorPlugin() {
        @Override
        public void onTaskStart() {
          TaskRun run = new TaskRun();
          run.stage = TaskContext.get().stageId();
          run.attempt = TaskContext.get().stageAttemptNumber();
          run.begin();
          running.set(run);
        }

        @Override
        public void onTaskSucceeded() {
          running.get().commit();
        }

        @Override
        public void onTaskFailed(TaskFailedReason reason) {
          running.get().commit();
        }
      };
    }
  }

  /**
   * Joinsight's plugin, whose samples are counted on their way: what each executor sends in a file of the folder {@code
   * spark.bench.sent}, what arrives by {@link #received}.
   */
  public static final class Counting implements SparkPlugin {
    private final SparkPlugin counted = new JoinsightPlugin();

    @Override
    public DriverPlugin driverPlugin() {
      DriverPlugin driver = counted.driverPlugin();
      return new DriverPlugin() {
        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
          RECEIVED.set(0);
          return driver.init(context, plugin);
        }

        @Override
        public Object receive(Object message) throws Exception {
          RECEIVED.addAndGet(samples(message));
          return driver.receive(message);
        }
      };
    }

    @Override
    public ExecutorPlugin executorPlugin() {
      ExecutorPlugin executor = counted.executorPlugin();
      AtomicLong sent = new AtomicLong();
      return new ExecutorPlugin() {
        @Override
        public void init(PluginContext plugin, Map<String, String> fromDriver) {
          Path file = Paths.get(plugin.conf().get("spark.bench.sent"), plugin.executorID());
          Class<?>[] types = {PluginContext.class};
          Object counting = Proxy.newProxyInstance(getClass().getClassLoader(), types, (proxy, method, arguments) -> {
            if (method.getName().equals("send"))
              Files.write(file, Long.toString(sent.addAndGet(samples(arguments[0]))).getBytes());
            return method.invoke(plugin, arguments);
          });
          executor.init((PluginContext) counting, fromDriver);
        }

        @Override
        public void onTaskStart() {
          executor.onTaskStart();
        }

        @Override
        public void onTaskSucceeded() {
          executor.onTaskSucceeded();
        }

        @Override
        public void onTaskFailed(TaskFailedReason reason) {
          executor.onTaskFailed(reason);
        }

        @Override
        public void shutdown() {
          executor.shutdown();
        }
      };
    }

    private static long samples(Object message) {
      return TaskSamples.ofMessage(message).counts().values().stream().mapToLong(Long::longValue).sum();
    }
  }
}
