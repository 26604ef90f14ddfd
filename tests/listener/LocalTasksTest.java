package io.joinsight.sampling;

import io.joinsight.Check;

/** Which threads of local mode run tasks, by their names. */
public final class LocalTasksTest {
  public static void main(String[] arguments) {
    Sampler.Task task = LocalTasks.task("Executor task launch worker for task 3.0 in stage 12.1 (TID 7)");
    Check.check(task.stageId == 12 && task.attempt == 1, "stage " + task.stageId + "." + task.attempt);
    for (String other : new String[] {
             "", "main", "Executor task launch worker for task ", "Executor task launch worker-0",
             "Executor task launch worker for task 7", "Executor task launch worker for task 3.0 in stage 12",
             "Executor task launch worker for task 3.0 in stage 12 (TID 7.0)",
             "Executor task launch worker for task 3.0 in stage 99999999999.0 (TID 7)",
             "x task 3.0 in stage 12.1 (TID 7)"}) {
      Check.check(LocalTasks.task(other) == null, "a task is seen in " + other);
    }
    System.out.println("ok");
  }
}
