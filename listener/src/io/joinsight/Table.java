package io.joinsight;

import java.util.Arrays;

/**
 * A row of longs for each metric of a stage, a number for each of its tasks, all 0 at first.
 *
 * <p>Of few tasks, all rows stand in one array: most stages of short queries are so, and their listener should not make
 * an object a metric. Of more tasks, each row is {@link Packed}.
 */
final class Table {
  private static final int FEW = 8;
  private static final int ROW_BYTES = 40; // about, of a packed row

  final int tasks;
  private final Memory memory; // null: a copy, on nobody's account
  private long[] few;
  private Packed[] many;

  /** What it takes is added to {@code memory}; whoever drops it takes that off again. */
  Table(int rows, int tasks, Memory memory) {
    this(tasks, memory, tasks <= FEW ? new long[0] : null, tasks <= FEW ? null : new Packed[0]);
    grow(rows);
  }

  private Table(int tasks, Memory memory, long[] few, Packed[] many) {
    this.tasks = tasks;
    this.memory = memory;
    this.few = few;
    this.many = many;
  }

  /** Makes room for so many rows; no row is lost. */
  void grow(int rows) {
    long before = heapBytes();
    if (few != null) {
      few = Arrays.copyOf(few, rows * tasks);
    } else {
      int old = many.length;
      many = Arrays.copyOf(many, rows);
      for (int row = old; row < rows; row++) many[row] = new Packed(tasks, memory);
    }
    memory.add(heapBytes() - before);
  }

  Table copy() {
    if (few != null) return new Table(tasks, null, few.clone(), null);
    Packed[] rows = new Packed[many.length];
    for (int row = 0; row < rows.length; row++) rows[row] = many[row].copy();
    return new Table(tasks, null, null, rows);
  }

  long get(int row, int task) {
    return few != null ? few[row * tasks + task] : many[row].get(task);
  }

  void set(int row, int task, long value) {
    if (few != null) few[row * tasks + task] = value;
    else many[row].set(task, value);
  }

  /** Writes a row to {@code target} from {@code offset} on. */
  void copyTo(int row, long[] target, int offset) {
    if (few != null) System.arraycopy(few, row * tasks, target, offset, tasks);
    else many[row].copyTo(target, offset);
  }

  long heapBytes() {
    if (few != null) return 8L * few.length;
    long bytes = 0;
    for (Packed row : many) bytes += ROW_BYTES + row.heapBytes();
    return bytes;
  }
}
