package io.joinsight.capture;

import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.scheduler.AccumulableInfo;

/**
 * The values that tasks of a stage's newest attempt reported for each accumulator of an execution.
 *
 * <p>It follows the rules of Spark's own UI store, so that both show the same numbers: one value per task index; a
 * later value of the same index overwrites it; after an index succeeded, its value is final; a missing value is 0.
 *
 * <p>Each accumulator has a slot. Tasks of a stage usually report their metrics in the same order, so a metric's
 * position is its slot; a map is built only if a task reports another order.
 */
public final class StageValues {
  private static final int MIN_SLOTS = 8;
  private static final int SLOT_BYTES = 50; // approximate, without values
  private static final long NO_TASK = -1;

  final int stageId;
  final int attempt;
  final int tasks;
  final RegisteredMetrics registered;
  private final Memory memory;
  private final BitSet done;
  private final Map<Long, Integer> running = new HashMap<>();
  private int version; // of `registered` at the last lookup

  private int slots;
  private long[] ids = new long[0];
  private String[] types; // null: not registered, so values are not kept
  private long[] max;
  private long[] maxTask; // NO_TASK: no value yet
  private LongMatrix values; // null: approximate, or no values yet
  private Histogram[] histograms; // of the values that count, of tasks that succeeded; null: exact
  private int[] recorded; // tasks that reported a value, whether it counts or not
  private LongMap<Integer> slotOf; // null: all tasks reported in the same order

  StageValues(int stageId, int attempt, int tasks, RegisteredMetrics registered, Memory memory) {
    this(stageId, attempt, tasks, registered, memory, new BitSet());
  }

  private StageValues(int stageId, int attempt, int tasks, RegisteredMetrics registered, Memory memory, BitSet done) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.tasks = tasks;
    this.registered = registered;
    this.memory = memory;
    this.done = done;
  }

  /** Empty values for a new attempt of the same stage. */
  StageValues forAttempt(int newAttempt) {
    return new StageValues(stageId, newAttempt, tasks, registered, memory);
  }

  /** A copy for reading. */
  StageValues copy() {
    StageValues copy = new StageValues(stageId, attempt, tasks, registered, null, null);
    if (slots == 0) return copy;
    copy.slots = slots;
    copy.ids = ids.clone();
    copy.types = types.clone();
    copy.max = max.clone();
    copy.maxTask = maxTask.clone();
    if (values != null) {
      copy.values = values.copy();
    } else {
      copy.histograms = new Histogram[slots];
      for (int i = 0; i < slots; i++) (copy.histograms[i] = new Histogram()).addAll(histograms[i]);
      copy.recorded = recorded.clone();
    }
    return copy;
  }

  // Tasks

  void started(long taskId, int index) {
    running.put(taskId, index);
  }

  void stopped(long taskId) {
    running.remove(taskId);
  }

  /** The index of a running task, or −1. */
  int indexOf(long taskId) {
    Integer index = running.get(taskId);
    return index == null ? -1 : index;
  }

  boolean accepts(int index) {
    return index >= 0 && index < tasks && !done.get(index);
  }

  void succeeded(int index) {
    done.set(index);
  }

  // Values

  /** Allocates slots for this number of metrics at once, before the first task is added. */
  public void expect(int metrics) {
    if (metrics > ids.length) grow(metrics);
  }

  /** Records a value of a task that ended; {@code position}: its index among the task's metrics. */
  public void update(int position, long id, int index, long taskId, long value) {
    if (version != registered.version()) updateTypes();
    int slot = position < slots && ids[position] == id ? position : slot(id, position);
    if (types[slot] != null) set(slot, index, taskId, value);
  }

  /** Records a value from an event that has another order; it is converted only if its metric is registered. */
  void update(AccumulableInfo info, int index, long taskId) {
    if (!registered.has(info.id())) return;
    if (version != registered.version()) updateTypes();
    set(slot(info.id(), -1), index, taskId, SparkAccess.update(info));
  }

  private void set(int slot, int index, long taskId, long value) {
    if (values != null) values.set(slot, index, value);
    else addToHistogram(slot, value);
    if (maxTask[slot] == NO_TASK || value > max[slot]) {
      max[slot] = value;
      maxTask[slot] = taskId;
    }
  }

  private void addToHistogram(int slot, long value) {
    recorded[slot]++;
    if (AccumulatorValues.counts(types[slot], value)) histograms[slot].add(value);
  }

  private int slot(long id, int position) {
    if (slotOf == null) {
      if (position == slots && !isKnown(id)) return add(id);
      slotOf = new LongMap<>();
      for (int i = 0; i < slots; i++) slotOf.put(ids[i], i);
    }
    Integer slot = slotOf.get(id);
    if (slot == null) slotOf.put(id, slot = add(id));
    return slot;
  }

  private boolean isKnown(long id) {
    for (int i = 0; i < slots; i++)
      if (ids[i] == id) return true;
    return false;
  }

  private int add(long id) {
    if (slots == ids.length) grow(Math.max(MIN_SLOTS, 2 * slots));
    ids[slots] = id;
    types[slots] = registered.type(id);
    maxTask[slots] = NO_TASK;
    if (histograms != null) {
      histograms[slots] = new Histogram();
      memory.add(Histogram.BYTES);
    }
    return slots++;
  }

  private void grow(int length) {
    memory.add((long) SLOT_BYTES * (length - ids.length));
    ids = Arrays.copyOf(ids, length);
    types = types == null ? new String[length] : Arrays.copyOf(types, length);
    max = max == null ? new long[length] : Arrays.copyOf(max, length);
    maxTask = maxTask == null ? new long[length] : Arrays.copyOf(maxTask, length);
    if (histograms != null) {
      histograms = Arrays.copyOf(histograms, length);
      recorded = Arrays.copyOf(recorded, length);
    } else if (values == null) {
      values = new LongMatrix(length, tasks, memory);
    } else {
      values.grow(length);
    }
  }

  /** Looks up the slots without a type again, after more metrics were registered. */
  private void updateTypes() {
    version = registered.version();
    for (int i = 0; i < slots; i++)
      if (types[i] == null) types[i] = registered.type(ids[i]);
  }

  /** Replaces the values by histograms of the tasks that succeeded. Running tasks report their values again. */
  void approximate() {
    memory.add(-heapBytes());
    histograms = new Histogram[ids.length];
    recorded = new int[ids.length];
    for (int slot = 0; slot < slots; slot++) {
      histograms[slot] = new Histogram();
      if (types[slot] == null) continue;
      for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) addToHistogram(slot, values.get(slot, i));
    }
    values = null;
    memory.add(heapBytes());
  }

  boolean isApproximate() {
    return histograms != null;
  }

  long heapBytes() {
    long bytes = (long) SLOT_BYTES * ids.length;
    if (histograms != null) return bytes + (long) Histogram.BYTES * slots;
    return values == null ? bytes : bytes + values.heapBytes();
  }

  // Reading, by slot

  int slots() {
    return slots;
  }

  long id(int slot) {
    return ids[slot];
  }

  /** Whether a task has reported a value; the methods below may be called for such slots only. */
  boolean hasValue(int slot) {
    return maxTask[slot] != NO_TASK;
  }

  long get(int slot, int task) {
    return values.get(slot, task);
  }

  void copyTo(int slot, long[] target, int offset) {
    values.copyTo(slot, target, offset);
  }

  Histogram histogram(int slot) {
    return histograms[slot];
  }

  int recorded(int slot) {
    return recorded[slot];
  }

  long max(int slot) {
    return max[slot];
  }

  long maxTask(int slot) {
    return maxTask[slot];
  }

  /** The average heap use per accumulator. */
  long heapBytesOfSlot() {
    return heapBytes() / slots;
  }
}
