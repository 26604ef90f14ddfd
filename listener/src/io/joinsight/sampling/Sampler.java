package io.joinsight.sampling;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Looks now and then at the stacks of the tasks that this JVM runs, and hands over counts of them.
 *
 * <p>One daemon thread samples all running tasks at once. It rests for an hour after many failures, sleeps while no task
 * is expected, and sleeps longer where a look takes long: {@link LookBudget}.
 */
public final class Sampler implements Runnable {
  /** Knows which threads run which tasks. */
  interface Tasks {
    /** Whether tasks may run. If not, the sampler sleeps until {@link Sampler#wake}. */
    boolean areExpected();

    /** The running tasks, by thread. */
    Map<Long, Task> running();

    /** Whether a thread still runs this task. */
    boolean isRunning(Task task, ThreadInfo thread);
  }

  /** Takes counts of samples. */
  public interface Receiver {
    void take(TaskSamples samples) throws IOException;
  }

  /** The innermost frames tell what a task does; deeper ones take time. */
  static final int DEPTH = 128;

  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final long SEND_INTERVAL = TimeUnit.SECONDS.toNanos(1);

  /** A task of a stage attempt. */
  static final class Task {
    final int stageId;
    final int attempt;
    final String threadName; // null: not needed to recognise it

    Task(int stageId, int attempt, String threadName) {
      this.stageId = stageId;
      this.attempt = attempt;
      this.threadName = threadName;
    }
  }

  private final long interval;
  private final Tasks tasks;
  private final Receiver receiver;
  private final ThreadMXBean threads = ManagementFactory.getThreadMXBean();
  private final Stacks stacks = new Stacks();
  private final Thread thread = new Thread(this, "joinsight-sampler");
  private Map<Long, TaskSamples> unsent = new HashMap<>(); // by stage attempt; guarded by this
  private volatile long sentAt = System.nanoTime();
  private final FailureLimit failures = new FailureLimit(System::nanoTime); // guarded by this
  private volatile long restUntil = sentAt;
  private volatile boolean idle;
  private volatile boolean stopped;

  public Sampler(long intervalMs, Tasks tasks, Receiver receiver) {
    interval = TimeUnit.MILLISECONDS.toNanos(intervalMs);
    this.tasks = tasks;
    this.receiver = receiver;
  }

  public void start() {
    thread.setDaemon(true);
    thread.start();
  }

  public void stop() {
    stopped = true;
    LockSupport.unpark(thread);
  }

  public boolean isStopped() {
    return stopped;
  }

  /** To be called when tasks are expected, from any thread. */
  public void wake() {
    if (idle) LockSupport.unpark(thread);
  }

  /** Nanoseconds since samples were handed over. */
  long sinceSent() {
    return System.nanoTime() - sentAt;
  }

  @Override
  public void run() {
    LookBudget budget = new LookBudget(System.nanoTime());
    long least = 0; // pause before the next look
    while (!stopped) {
      try {
        pause(restUntil - System.nanoTime());
        if (!tasks.areExpected()) {
          send();
          idle = true;
          if (!tasks.areExpected() && !stopped) LockSupport.park(this);
          idle = false;
        }
        // Jittered, so that no rhythm of the tasks meets that of the samples
        double jitter = ThreadLocalRandom.current().nextDouble(0.5, 1.5);
        pause((long) (Math.max(interval, least) * jitter));
        least = sample(budget);
        if (sinceSent() > SEND_INTERVAL) send();
      } catch (Throwable t) {
        rest("Joinsight could not sample the tasks of this JVM", t);
      }
    }
  }

  /** Rests after a failure: for a second, or an hour after many. */
  private synchronized void rest(String problem, Throwable t) {
    boolean isLimit = failures.add() >= FailureLimit.MAX;
    restUntil = System.nanoTime() + (isLimit ? FailureLimit.PERIOD : SEND_INTERVAL);
    warn(problem + (isLimit ? ", and rests for an hour" : "") + "; the job is not affected", t);
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
    Map<Long, Task> running = tasks.running();
    if (running.isEmpty()) return 0;
    long[] ids = new long[running.size()];
    int n = 0;
    for (long id : running.keySet()) ids[n++] = id;
    long cpuBefore = cpuTime();
    long before = System.nanoTime();
    ThreadInfo[] infos = threads.getThreadInfo(ids, DEPTH);
    long duration = System.nanoTime() - before;
    for (ThreadInfo info : infos) {
      if (info == null) continue;
      Task task = running.get(info.getThreadId());
      if (!tasks.isRunning(task, info)) continue; // its thread may have had another one by then
      String key = stacks.key(info.getStackTrace(), DEPTH, info.getThreadState() == Thread.State.BLOCKED);
      if (key != null) count(task, key);
    }
    return budget.spend(ids.length, duration, cpuTime() - cpuBefore, System.nanoTime());
  }

  private synchronized void count(Task task, String key) {
    long attempt = TaskSamples.attemptKey(task.stageId, task.attempt);
    unsent.computeIfAbsent(attempt, each -> new TaskSamples(task.stageId, task.attempt)).add(key, 1);
  }

  /** Hands over what was counted so far; from any thread. */
  public synchronized void send() {
    sentAt = System.nanoTime();
    if (unsent.isEmpty() || stopped) return;
    List<TaskSamples> samples = new ArrayList<>(unsent.values());
    unsent = new HashMap<>();
    try {
      for (TaskSamples each : samples) receiver.take(each);
    } catch (Throwable t) {
      rest("Joinsight lost samples: they did not reach the driver", t);
    }
  }

  public static void warn(String message, Throwable t) {
    try {
      LOG.warn(message, t);
    } catch (Throwable ignored) {
      // Nothing may reach the job
    }
  }
}
