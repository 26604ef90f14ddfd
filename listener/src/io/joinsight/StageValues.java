package io.joinsight;

import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.scheduler.AccumulableInfo;

/**
 * What the tasks of a stage's newest attempt reported for each accumulator of an execution.
 *
 * <p>The same rules as Spark's own UI store, so that both show the same numbers: one value per task index; a later value
 * of the same index overwrites; after an index succeeded, nothing changes it; what nobody wrote is 0.
 *
 * <p>Each accumulator has a slot. Tasks of a stage report their metrics in the same order, hence a metric's place in that
 * order is its slot, and there is no map as long as all of them keep to it.
 */
final class StageValues {
  private static final int SLOTS = 8; // at least
  private static final int SLOT_BYTES = 50; // about, without its values
  private static final long NO_TASK = -1;

  final int stageId;
  final int attempt;
  final int tasks;
  final Announced announced;
  private final Memory memory;
  private final BitSet done;
  private final Map<Long, Integer> running = new HashMap<>();
  private int version; // of what was announced, when it was last asked for

  private int slots;
  private long[] ids = new long[0];
  private String[] types; // null: not announced, its values are not kept
  private long[] max;
  private long[] maxTask; // NO_TASK: it has no value yet
  private Table values; // null: approximated
  private Histogram[] histograms; // of the tasks that succeeded, of the values that count; null: exact
  private int[] recorded; // tasks that the histogram heard of
  private LongMap<Integer> slotOf; // null: all tasks kept to one order

  StageValues(int stageId, int attempt, int tasks, Announced announced, Memory memory) {
    this(stageId, attempt, tasks, announced, memory, new BitSet());
  }

  private StageValues(int stageId, int attempt, int tasks, Announced announced, Memory memory, BitSet done) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.tasks = tasks;
    this.announced = announced;
    this.memory = memory;
    this.done = done;
  }

  /** The same stage, tasks and metrics for a new attempt; nothing of the old attempt is kept. */
  StageValues forAttempt(int newAttempt) {
    return new StageValues(stageId, newAttempt, tasks, announced, memory);
  }

  /** What it holds by now, for reading. */
  StageValues copy() {
    StageValues copy = new StageValues(stageId, attempt, tasks, announced, null, null);
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

  /** Makes room, all at once, for so many metrics of the first task that ends. */
  void expect(int metrics) {
    if (metrics > ids.length) grow(metrics);
  }

  /** Records a value that a task gave at its end; {@code position} is where it stood among its metrics, from 0 on. */
  void update(int position, long id, int index, long taskId, long value) {
    if (version != announced.version()) askAgain();
    int slot = position < slots && ids[position] == id ? position : slot(id, position);
    if (types[slot] != null) set(slot, index, taskId, value);
  }

  /** Records a value that came in some other order, as a Scala object: converted only if this stage wants it. */
  void update(AccumulableInfo info, int index, long taskId) {
    if (!announced.has(info.id())) return;
    if (version != announced.version()) askAgain();
    set(slot(info.id(), -1), index, taskId, SparkAccess.update(info));
  }

  private void set(int slot, int index, long taskId, long value) {
    if (values != null) values.set(slot, index, value);
    else record(slot, value);
    if (maxTask[slot] == NO_TASK || value > max[slot]) {
      max[slot] = value;
      maxTask[slot] = taskId;
    }
  }

  private void record(int slot, long value) {
    recorded[slot]++;
    if (Measured.counts(types[slot], value)) histograms[slot].add(value);
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
    for (int i = 0; i < slots; i++) if (ids[i] == id) return true;
    return false;
  }

  private int add(long id) {
    if (slots == ids.length) grow(Math.max(SLOTS, 2 * slots));
    ids[slots] = id;
    types[slots] = announced.type(id);
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
      values = new Table(length, tasks, memory);
    } else {
      values.grow(length);
    }
  }

  /** More was announced: perhaps what was not, when a task reported it. */
  private void askAgain() {
    version = announced.version();
    for (int i = 0; i < slots; i++) if (types[i] == null) types[i] = announced.type(ids[i]);
  }

  /** From now on only distributions are kept, of the tasks that succeed. Those that still run report again. */
  void approximate() {
    memory.add(-heapBytes());
    histograms = new Histogram[ids.length];
    recorded = new int[ids.length];
    for (int slot = 0; slot < slots; slot++) {
      histograms[slot] = new Histogram();
      if (types[slot] == null) continue;
      for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) record(slot, values.get(slot, i));
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

  /** A task gave it a value that is kept; what follows is asked of such slots only. */
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

  /** An equal share of what it holds, for each of its accumulators. */
  long heapBytesOfSlot() {
    return heapBytes() / slots;
  }
}
