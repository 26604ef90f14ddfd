package io.joinsight;

import java.util.ArrayList;
import java.util.Arrays;
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
  private static final int POSITIONS = 32; // to begin with
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
  private final List<Column> columns = new ArrayList<>();

  // Tasks of a stage report their metrics in the same order: as long as all have, there is no map.
  private long[] idAt = new long[0];
  private Column[] columnAt; // null: not announced
  private int positions; // that are known, from the first one on
  private int version; // of what was announced, when it was last asked for
  private LongMap<Column> byId;

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

  /** Records a value that a task gave at its end; {@code position} is where it stood among its metrics, from 0 on. */
  void update(int position, long id, int index, long taskId, long value) {
    if (version != announced.version()) askAgain();
    Column column;
    if (position < positions && idAt[position] == id) {
      column = columnAt[position];
    } else if (position == positions && byId == null && !isKnown(id)) {
      column = make(id);
      learn(id, column);
    } else {
      column = find(id);
    }
    if (column != null) column.set(index, taskId, value);
  }

  /** Records a value that came in some other order, as a Scala object: converted only if this stage wants it. */
  void update(AccumulableInfo info, int index, long taskId) {
    if (version != announced.version()) askAgain();
    Column column = find(info.id());
    if (column != null) column.set(index, taskId, SparkAccess.update(info));
  }

  private Column find(long id) {
    if (byId == null) {
      byId = new LongMap<>();
      for (Column column : columns) byId.put(column.id, column);
    }
    Column column = byId.get(id);
    if (column == null) {
      column = make(id);
      if (column != null) byId.put(id, column);
    }
    return column;
  }

  private Column make(long id) {
    String type = announced.type(id);
    if (type == null) return null;
    Column column = new Column(id, type, stageId, attempt, tasks);
    if (isApproximate) column.histogram = new Histogram();
    else column.values = new Packed(tasks, memory);
    memory.add(column.heapBytes());
    columns.add(column);
    return column;
  }

  private boolean isKnown(long id) {
    for (int i = 0; i < positions; i++) if (idAt[i] == id) return true;
    return false;
  }

  private void learn(long id, Column column) {
    if (positions == idAt.length) {
      int length = Math.max(POSITIONS, 2 * positions);
      idAt = Arrays.copyOf(idAt, length);
      columnAt = columnAt == null ? new Column[length] : Arrays.copyOf(columnAt, length);
    }
    idAt[positions] = id;
    columnAt[positions++] = column;
  }

  /** More was announced: perhaps what was not, when a task reported it. */
  private void askAgain() {
    version = announced.version();
    for (int i = 0; i < positions; i++) if (columnAt[i] == null) columnAt[i] = byId == null ? make(idAt[i]) : find(idAt[i]);
  }
}
