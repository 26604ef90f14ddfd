package io.joinsight.sampling;

import java.lang.management.ThreadInfo;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;

/** The tasks of SQL executions that an executor runs, whose starts and ends Spark reports to its plugin. */
public final class StartedTasks implements Sampler.Tasks {
  /** The local property with the id of the execution that a job belongs to. */
  public static final String EXECUTION_ID = "spark.sql.execution.id";

  private static final long SEND_AT_END_INTERVAL = TimeUnit.MILLISECONDS.toNanos(200);

  private final Map<Long, Sampler.Task> running = new ConcurrentHashMap<>(); // by thread

  @Override
  public boolean areExpected() {
    return !running.isEmpty();
  }

  @Override
  public Map<Long, Sampler.Task> running() {
    return new HashMap<>(running);
  }

  @Override
  public boolean isRunning(Sampler.Task task, ThreadInfo thread) {
    return running.get(thread.getThreadId()) == task;
  }

  /** Called by the task's thread. */
  public void started(Sampler sampler) {
    TaskContext task = TaskContext.get();
    if (task == null || task.getLocalProperty(EXECUTION_ID) == null) return;
    running.put(Thread.currentThread().getId(), new Sampler.Task(task.stageId(), task.stageAttemptNumber(), null));
    sampler.wake();
  }

  /** Called by the task's thread, before the driver learns that the task has ended. */
  public void ended(Sampler sampler) {
    Sampler.Task task = running.remove(Thread.currentThread().getId());
    if (task == null || sampler.sinceSent() < SEND_AT_END_INTERVAL) return;
    for (Sampler.Task other : running.values()) {
      if (other.stageId == task.stageId) return; // its end will send
    }
    sampler.send();
  }
}
