package io.joinsight;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.scheduler.AccumulableInfo;

/**
 * What the tasks of a stage's newest attempt reported for each accumulator of an execution.
 *
 * <p>The same rules as Spark's own UI store, so that both show the same numbers: one slot per task index; a later value
 * of the same slot overwrites; after an index succeeded, nothing changes it; a slot that nobody wrote is 0.
 */
final class StageValues {
  private static final int POSITIONS = 64; // to begin with
  private static final int COLUMN_BYTES = 150; // about, with its places in maps

  /** One accumulator in this stage attempt. */
  static final class Column {
    final long id;
    final int stageId;
    final int attempt;
    final int tasks;
    private final String type;
    Packed values; // null: approximated
    Histogram histogram; // of the tasks that succeeded, of the values that count; null: exact
    int recorded; // tasks that the histogram heard of
    boolean hasMax;
    long max;
    long maxTask;

    Column(long id, String type, int stageId, int attempt, int tasks) {
      this.id = id;
      this.type = type;
      this.stageId = stageId;
      this.attempt = attempt;
      this.tasks = tasks;
    }

    long heapBytes() {
      return COLUMN_BYTES + (values != null ? values.heapBytes() : Histogram.BYTES);
    }

    /** From now on only the distribution is kept. Slots of tasks that still run are dropped: they report again. */
    private void approximate(BitSet done) {
      histogram = new Histogram();
      for (int i = done.nextSetBit(0); i >= 0; i = done.nextSetBit(i + 1)) record(values.get(i));
      values = null;
    }

    private void record(long value) {
      recorded++;
      if (Measured.counts(type, value)) histogram.add(value);
    }

    Column copy() {
      Column copy = new Column(id, type, stageId, attempt, tasks);
      copy.recorded = recorded;
      if (values != null) copy.values = values.copy();
      else (copy.histogram = new Histogram()).addAll(histogram);
      copy.hasMax = hasMax;
      copy.max = max;
      copy.maxTask = maxTask;
      return copy;
    }

    void set(int index, long taskId, long value) {
      if (values != null) values.set(index, value);
      else record(value);
      if (!hasMax || value > max) {
        hasMax = true;
        max = value;
        maxTask = taskId;
      }
    }
  }

  final int stageId;
  final int attempt;
  final int tasks;
  final Announced announced;
  private final Memory memory;
  private boolean isApproximate;
  private final BitSet done = new BitSet();
  private final Map<Long, Integer> running = new HashMap<>();
  private final LongMap<Column> byId = new LongMap<>();
  private final List<Column> columns = new ArrayList<>();

  // Tasks of a stage report their accumulators in the same order: what stood at a position is tried before the map.
  private long[] idAt;
  private Column[] columnAt;
  private int learntVersion;

  StageValues(int stageId, int attempt, int tasks, Announced announced, Memory memory) {
    this.stageId = stageId;
    this.attempt = attempt;
    this.tasks = tasks;
    this.announced = announced;
    this.memory = memory;
  }

  long heapBytes() {
    long bytes = 0;
    for (Column column : columns) bytes += column.heapBytes();
    return bytes;
  }

  /** From now on only distributions are kept, of the tasks that succeed. */
  void approximate() {
    memory.add(-heapBytes());
    for (Column column : columns) column.approximate(done);
    memory.add(heapBytes());
    isApproximate = true;
  }

  boolean isApproximate() {
    return isApproximate;
  }

  /** The same stage, tasks and metrics for a new attempt; nothing of the old attempt is kept. */
  StageValues forAttempt(int newAttempt) {
    return new StageValues(stageId, newAttempt, tasks, announced, memory);
  }

  Iterable<Column> columns() {
    return columns;
  }

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

  /** Records a value; {@code position} is where it stood among the task's values. */
  void update(int position, long id, int index, long taskId, long value) {
    if (learntVersion != announced.version()) {
      idAt = new long[POSITIONS];
      java.util.Arrays.fill(idAt, -1);
      columnAt = new Column[POSITIONS];
      learntVersion = announced.version();
    }
    Column column;
    if (position < idAt.length && idAt[position] == id) {
      column = columnAt[position];
    } else {
      column = find(id);
      learn(position, id, column);
    }
    if (column != null) column.set(index, taskId, value);
  }

  /** The same for a value that came as a Scala object: converted only if this stage wants it. */
  void updateIfAnnounced(int position, AccumulableInfo info, int index, long taskId) {
    if (announced.has(info.id())) update(position, info.id(), index, taskId, SparkAccess.update(info));
  }

  private Column find(long id) {
    Column column = byId.get(id);
    String type = column == null ? announced.type(id) : null;
    if (type != null) {
      column = new Column(id, type, stageId, attempt, tasks);
      if (isApproximate) column.histogram = new Histogram();
      else column.values = new Packed(tasks, memory);
      memory.add(column.heapBytes());
      byId.put(id, column);
      columns.add(column);
    }
    return column;
  }

  private void learn(int position, long id, Column column) {
    if (position >= idAt.length) {
      int length = Math.max(position + 1, 2 * idAt.length);
      long[] ids = new long[length];
      java.util.Arrays.fill(ids, -1);
      System.arraycopy(idAt, 0, ids, 0, idAt.length);
      idAt = ids;
      columnAt = java.util.Arrays.copyOf(columnAt, length);
    }
    idAt[position] = id;
    columnAt[position] = column;
  }
}
