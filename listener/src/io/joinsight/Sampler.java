package io.joinsight;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.apache.spark.TaskContext;

/**
 * Looks now and then at the stacks of an executor's tasks of SQL executions, and sends counts of them to the driver.
 *
 * <p>One daemon thread samples all running tasks at once. It stops for good at its first failure, sleeps while no task
 * runs, and sleeps longer where a look takes long: {@link LookBudget}.
 */
final class Sampler implements Runnable {
  /** Sends a message to the driver. */
  interface Driver {
    void send(Object message) throws IOException;
  }

  /** The innermost frames tell what a task does; deeper ones take time. */
  static final int DEPTH = 128;

  private static final long SEND_INTERVAL = TimeUnit.SECONDS.toNanos(1);
  private static final long SEND_AT_END_INTERVAL = TimeUnit.MILLISECONDS.toNanos(200);

  private static final class Task {
    final int stageId;
    final int attempt;

    Task(int stageId, int attempt) {
      this.stageId = stageId;
      this.attempt = attempt;
    }
  }

  private final long interval;
  private final Driver driver;
  private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  private final Stacks stacks = new Stacks();
  private final Thread thread = new Thread(this, "joinsight-sampler");
  private final Map<Long, Task> running = new ConcurrentHashMap<>(); // by thread
  private Map<Long, TaskSamples> unsent = new HashMap<>(); // by stage attempt; guarded by this
  private volatile long sentAt = System.nanoTime();
  private volatile boolean idle;
  private volatile boolean stopped;

  Sampler(long intervalMs, Driver driver) {
    interval = TimeUnit.MILLISECONDS.toNanos(intervalMs);
    this.driver = driver;
  }

  void start() {
    thread.setDaemon(true);
    thread.start();
  }

  void stop() {
    stopped = true;
    LockSupport.unpark(thread);
  }

  /** Called by the task's thread. */
  void taskStarted() {
    if (stopped) return;
    TaskContext task = TaskContext.get();
    if (task == null || task.getLocalProperty(Executions.EXECUTION_ID) == null) return;
    running.put(Thread.currentThread().getId(), new Task(task.stageId(), task.stageAttemptNumber()));
    if (idle) LockSupport.unpark(thread);
  }

  /** Called by the task's thread, before the driver learns that the task has ended. */
  void taskEnded() {
    Task task = running.remove(Thread.currentThread().getId());
    if (task == null || stopped || System.nanoTime() - sentAt < SEND_AT_END_INTERVAL) return;
    for (Task other : running.values()) {
      if (other.stageId == task.stageId) return; // its end will send
    }
    send();
  }

  @Override
  public void run() {
    try {
      LookBudget budget = new LookBudget(System.nanoTime());
      long least = 0; // pause before the next look
      while (!stopped) {
        if (running.isEmpty()) {
          send();
          idle = true;
          if (running.isEmpty() && !stopped) LockSupport.park(this);
          idle = false;
        }
        // Jittered, so that no rhythm of the tasks meets that of the samples
        double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1.5);
        pause((long) (Math.max(interval, least) * jitter));
        least = sample(budget);
        if (System.nanoTime() - sentAt > SEND_INTERVAL) send();
      }
    } catch (Throwable t) {
      stopped = true;
      JoinsightPlugin.warn("Joinsight stops sampling the tasks of this executor; the job is not affected", t);
    }
  }

  private long cpuTime() {
    return threads.isCurrentThreadCpuTimeSupported() ? threads.getCurrentThreadCpuTime() : 0;
  }

  private void pause(long nanos) {
    long until = System.nanoTime() + nanos;
    for (long left = nanos; left > 0 && !stopped; left = until - System.nanoTime()) LockSupport.parkNanos(this, left);
  }

  /** Looks once; returns how long to pause before the next look at least. */
  private long sample(LookBudget budget) {
    Map<Long, Task> tasks = new HashMap<>(running);
    if (tasks.isEmpty()) return 0;
    long[] ids = new long[tasks.size()];
    int n = 0;
    for (long id : tasks.keySet()) ids[n++] = id;
    long cpuBefore = cpuTime();
    long before = System.nanoTime();
    ThreadInfo[] infos = threads.getThreadInfo(ids, DEPTH);
    long duration = System.nanoTime() - before;
    for (ThreadInfo info : infos) {
      if (info == null) continue;
      Task task = tasks.get(info.getThreadId());
      if (running.get(info.getThreadId()) != task) continue; // its thread may have had another one by then
      String key = stacks.key(info.getStackTrace(), DEPTH);
      if (key != null) count(task, key);
    }
    return budget.spend(ids.length, duration, cpuTime() - cpuBefore, System.nanoTime());
  }

  private synchronized void count(Task task, String key) {
    long attempt = LiveExecution.attemptKey(task.stageId, task.attempt);
    unsent.computeIfAbsent(attempt, each -> new TaskSamples(task.stageId, task.attempt)).add(key, 1);
  }

  private void send() {
    List<TaskSamples> samples;
    synchronized (this) {
      sentAt = System.nanoTime();
      if (unsent.isEmpty()) return;
      samples = new ArrayList<>(unsent.values());
      unsent = new HashMap<>();
    }
    try {
      for (TaskSamples each : samples) driver.send(each.toMessage());
    } catch (Throwable t) {
      stopped = true;
      JoinsightPlugin.warn("Joinsight stops sampling: samples do not reach the driver; the job is not affected", t);
    }
  }
}
