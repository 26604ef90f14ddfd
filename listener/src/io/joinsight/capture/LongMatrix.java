package io.joinsight.capture;

import java.util.Arrays;

/**
 * Longs with a row for each metric of a stage and a column for each of its tasks, initially 0.
 *
 * <p>With few tasks, as in most stages of short queries, all rows share one array, which saves an object per metric.
 * With more tasks, each row is a {@link PackedLongArray}.
 */
final class LongMatrix {
  private static final int FEW = 8;
  private static final int ROW_BYTES = 40; // approximate, of a packed row

  final int tasks;
  private final Memory memory; // null in copies, which are not counted
  private long[] few;
  private PackedLongArray[] many;

  /** Adds its heap use to {@code memory}; the owner subtracts it when it drops the matrix. */
  LongMatrix(int rows, int tasks, Memory memory) {
    this(tasks, memory, tasks <= FEW ? new long[0] : null, tasks <= FEW ? null : new PackedLongArray[0]);
    grow(rows);
  }

  private LongMatrix(int tasks, Memory memory, long[] few, PackedLongArray[] many) {
    this.tasks = tasks;
    this.memory = memory;
    this.few = few;
    this.many = many;
  }

  /** Extends the matrix to this number of rows. */
  void grow(int rows) {
    long before = heapBytes();
    if (few != null) {
      few = Arrays.copyOf(few, rows * tasks);
    } else {
      int old = many.length;
      many = Arrays.copyOf(many, rows);
      for (int row = old; row < rows; row++) many[row] = new PackedLongArray(tasks, memory);
    }
    memory.add(heapBytes() - before);
  }

  LongMatrix copy() {
    if (few != null) return new LongMatrix(tasks, null, few.clone(), null);
    PackedLongArray[] rows = new PackedLongArray[many.length];
    for (int row = 0; row < rows.length; row++) rows[row] = many[row].copy();
    return new LongMatrix(tasks, null, null, rows);
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
    for (PackedLongArray row : many) bytes += ROW_BYTES + row.heapBytes();
    return bytes;
  }
}
