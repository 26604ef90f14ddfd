package io.joinsight.capture;

import java.util.HashMap;
import java.util.Map;

/**
 * How many tasks the application's executors can run at once. Only those of the default resource profile are followed:
 * stages of a query run there, unless a function asks for another one.
 */
public final class TaskSlots {
  public static final int DEFAULT_PROFILE = 0;

  private final Application application;
  private final Map<String, Integer> cores = new HashMap<>(); // by executor; in local mode, the driver
  private boolean missed; // an executor may have been added or removed unseen
  private int coresOfTask; // for which the slots are counted
  private long slots;

  TaskSlots(Application application) {
    this.application = application;
  }

  void added(String executor, int itsCores, int profile) {
    if (profile != DEFAULT_PROFILE) return;
    removed(executor);
    cores.put(executor, itsCores);
    slots += of(itsCores);
  }

  void removed(String executor) {
    Integer itsCores = cores.remove(executor);
    if (itsCores != null) slots -= of(itsCores);
  }

  private int of(int itsCores) {
    return coresOfTask == 0 ? 0 : itsCores / coresOfTask;
  }

  /** From now on, the number is unknown. */
  void miss() {
    missed = true;
  }

  /** The number of slots; 0: unknown, or there is no executor. */
  int count() {
    if (coresOfTask != application.settings.coresOfTask) { // in a log, the settings come after the first executor
      coresOfTask = application.settings.coresOfTask;
      slots = 0;
      for (int each : cores.values()) slots += of(each);
    }
    return missed ? 0 : (int) Math.min(slots, Integer.MAX_VALUE);
  }
}
