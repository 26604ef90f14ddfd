package io.joinsight;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;

/** All that was measured for one accumulator in one execution; {@link #summary()} makes the numbers of it. */
final class Measured {
  private static final int SUMMARY_BYTES = 200; // about

  /** What the document says of an accumulator. Fields as in the JSON Schema. */
  static final class Summary {
    Spread spread; // of the values that count; null: none does
    boolean isMaxOfTask; // else of the driver
    int maxStage;
    int maxAttempt;
    long maxTask;
    int[] stages;
    boolean isApproximate;
    long[] all;
  }

  final long id;
  final String type;
  private final List<StageValues.Column> columns = new ArrayList<>();
  private long[] driver = new long[1];
  private int driverLength;
  private Summary summary;
  private volatile long heapBytes = SUMMARY_BYTES;

  Measured(long id, String type) {
    this.id = id;
    this.type = type;
  }

  void add(StageValues.Column column) {
    columns.add(column);
    heapBytes += column.heapBytes();
  }

  void addDriver(long value) {
    if (driverLength == driver.length) driver = Arrays.copyOf(driver, 2 * driverLength);
    driver[driverLength++] = value;
  }

  /** About what it keeps on the heap. */
  long heapBytes() {
    return heapBytes;
  }

  boolean isCustom() {
    return isCustom(type);
  }

  private static boolean isCustom(String type) {
    return type.startsWith("v2Custom");
  }

  /** Which values count, by metric type: the rule of Spark's SQLMetrics.stringValue. */
  static boolean counts(String type, long value) {
    if (type.equals("sum") || isCustom(type)) return true;
    return type.equals("average") ? value > 0 : value >= 0;
  }

  private boolean counts(long value) {
    return counts(type, value);
  }

  /** Made once, by the sender's thread, who alone reads this from then on; what it was made of is then dropped. */
  Summary summary() {
    if (summary == null) {
      summary = isExact() ? exact() : approximate();
      heapBytes = SUMMARY_BYTES;
      columns.clear();
      driver = new long[0];
      driverLength = 0;
    }
    return summary;
  }

  private boolean isExact() {
    for (StageValues.Column column : columns) if (column.values == null) return false;
    return true;
  }

  private Summary exact() {
    Summary s = new Summary();
    int length = driverLength;
    for (StageValues.Column column : columns) length += column.tasks;
    long[] values = new long[length];
    int offset = 0;
    TreeSet<Integer> touched = new TreeSet<>();
    for (StageValues.Column column : columns) {
      column.values.copyTo(values, offset);
      int end = offset + column.tasks;
      for (int i = offset; i < end; i++) {
        if (values[i] > 0) {
          touched.add(column.stageId);
          break;
        }
      }
      offset = end;
    }
    System.arraycopy(driver, 0, values, offset, driverLength);
    origin(s, touched);
    if (isCustom()) s.all = values.clone();

    int n = 0;
    for (long value : values) if (counts(value)) values[n++] = value;
    s.spread = Spread.of(values, n);
    return s;
  }

  /** As {@link #exact()}, of what the columns still know. */
  private Summary approximate() {
    Summary s = new Summary();
    s.isApproximate = true;
    Histogram all = new Histogram();
    TreeSet<Integer> touched = new TreeSet<>();
    for (StageValues.Column column : columns) {
      if (column.hasMax && column.max > 0) touched.add(column.stageId);
      if (column.values == null) {
        all.addAll(column.histogram);
        if (counts(0)) all.add(0, Math.max(0, column.tasks - column.recorded));
      } else {
        for (int i = 0; i < column.tasks; i++) if (counts(column.values.get(i))) all.add(column.values.get(i));
      }
    }
    for (int i = 0; i < driverLength; i++) if (counts(driver[i])) all.add(driver[i]);
    origin(s, touched);
    if (isCustom()) s.all = new long[0];
    s.spread = Spread.of(all);
    return s;
  }

  private void origin(Summary s, TreeSet<Integer> touched) {
    s.stages = touched.stream().mapToInt(Integer::intValue).toArray();
    StageValues.Column largest = null;
    for (StageValues.Column column : columns) {
      if (column.hasMax && (largest == null || column.max > largest.max)) largest = column;
    }
    if (largest == null) return;
    for (int i = 0; i < driverLength; i++) if (driver[i] > largest.max) return;
    s.isMaxOfTask = true;
    s.maxStage = largest.stageId;
    s.maxAttempt = largest.attempt;
    s.maxTask = largest.maxTask;
  }
}
