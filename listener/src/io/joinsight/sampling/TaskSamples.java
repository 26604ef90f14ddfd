package io.joinsight.sampling;

import java.util.HashMap;
import java.util.Map;

/** Counts of samples of a stage attempt's tasks, by {@link Stacks#key}. */
public final class TaskSamples {
  /** Distinct keys that are kept for a stage attempt; further ones count as {@link Stacks#OTHER}. */
  static final int MAX_KEYS = 500;

  /** From so many on, further ones count without their {@link Work}. */
  private static final int MAX_KEYS_WITH_WORK = 250;

  private static final int MESSAGE_LENGTH = 4;

  public final int stageId;
  public final int attempt;
  private final Map<String, Long> counts = new HashMap<>();

  public TaskSamples(int stageId, int attempt) {
    this.stageId = stageId;
    this.attempt = attempt;
  }

  public Map<String, Long> counts() {
    return counts;
  }

  void add(String key, long count) {
    if (counts.size() >= MAX_KEYS_WITH_WORK && !counts.containsKey(key)) key = Work.without(key);
    boolean known = counts.size() < MAX_KEYS || counts.containsKey(key);
    counts.merge(known ? key : Stacks.OTHER, count, Long::sum);
  }

  public void addAll(TaskSamples others) {
    others.counts.forEach(this::add);
  }

  public TaskSamples copy() {
    TaskSamples copy = new TaskSamples(stageId, attempt);
    copy.counts.putAll(counts);
    return copy;
  }

  /** As classes of the JDK only, which any class loader on the driver finds. */
  public Object[] toMessage() {
    String[] keys = counts.keySet().toArray(new String[0]);
    long[] values = new long[keys.length];
    for (int i = 0; i < keys.length; i++) values[i] = counts.get(keys[i]);
    return new Object[] {stageId, attempt, keys, values};
  }

  public static TaskSamples ofMessage(Object message) {
    Object[] parts = (Object[]) message;
    if (parts.length != MESSAGE_LENGTH) throw new IllegalArgumentException("samples of another version of Joinsight");
    TaskSamples samples = new TaskSamples((Integer) parts[0], (Integer) parts[1]);
    String[] keys = (String[]) parts[2];
    for (int i = 0; i < keys.length; i++) samples.add(keys[i], ((long[]) parts[3])[i]);
    return samples;
  }

  public static long attemptKey(int stageId, int attempt) {
    return ((long) stageId << 32) | attempt;
  }
}
