package io.joinsight.sampling;

import java.lang.management.ThreadInfo;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * The tasks of local mode, which the driver's own JVM runs: their threads are found by the names that Spark gives them.
 *
 * <p>One sampler looks for all listeners of this JVM, so that a measurement beside an attached listener costs no more.
 */
public final class LocalTasks implements Sampler.Tasks {
  /** The name goes on: {@code 3.0 in stage 2.0 (TID 7)}. It stays when the task has ended. */
  private static final String TASK = "Executor task launch worker for task ";
  private static final String STAGE = " in stage ";

  /** Takes the samples, from any thread. */
  public interface Listener {
    /** Whether executions run, so that tasks may. */
    boolean isBusy();

    void offer(TaskSamples samples);
  }

  private static LocalTasks present; // guarded by the class; null: nobody asks for samples

  private final List<Listener> listeners = new CopyOnWriteArrayList<>();
  private final Sampler sampler;
  private Thread[] threads = new Thread[64];

  private LocalTasks(long intervalMs) {
    sampler = new Sampler(intervalMs, this, samples -> {
      for (Listener each : listeners) each.offer(samples);
    });
  }

  /** Gives a listener the samples of all tasks from now on. The first one sets the interval. */
  public static synchronized Sampler start(Listener listener, long intervalMs) {
    if (present == null) {
      present = new LocalTasks(intervalMs);
      present.sampler.start();
    }
    present.listeners.add(listener);
    return present.sampler;
  }

  public static synchronized void stop(Listener listener) {
    if (present == null || !present.listeners.remove(listener) || !present.listeners.isEmpty()) return;
    present.sampler.stop();
    present = null;
  }

  @Override
  public boolean areExpected() {
    for (Listener each : listeners) {
      if (each.isBusy()) return true;
    }
    return false;
  }

  @Override
  public Map<Long, Sampler.Task> running() {
    ThreadGroup group = Thread.currentThread().getThreadGroup();
    while (group.getParent() != null) group = group.getParent();
    int count = group.enumerate(threads);
    while (count == threads.length) { // there may be more
      threads = new Thread[2 * count];
      count = group.enumerate(threads);
    }
    Map<Long, Sampler.Task> running = new HashMap<>();
    for (int i = 0; i < count; i++) {
      Sampler.Task task = task(threads[i].getName());
      if (task != null) running.put(threads[i].getId(), task);
      threads[i] = null;
    }
    return running;
  }

  @Override
  public boolean isRunning(Sampler.Task task, ThreadInfo thread) {
    return task.threadName.equals(thread.getThreadName());
  }

  /** The task of a thread; null: it is not one that runs tasks. */
  static Sampler.Task task(String threadName) {
    if (!threadName.startsWith(TASK)) return null;
    int stage = threadName.indexOf(STAGE) + STAGE.length();
    int dot = threadName.indexOf('.', stage);
    int end = threadName.indexOf(' ', stage);
    if (stage < TASK.length() || dot < 0 || end < dot) return null;
    try {
      int attempt = Integer.parseInt(threadName.substring(dot + 1, end));
      return new Sampler.Task(Integer.parseInt(threadName.substring(stage, dot)), attempt, threadName);
    } catch (NumberFormatException e) {
      return null;
    }
  }
}
