package io.joinsight;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;

/** All that was measured for one accumulator in one execution; {@link #summary()} makes the numbers of it. */
final class Measured {
  /** What the document says of an accumulator. Fields as in the JSON Schema. */
  static final class Summary {
    long count;
    long sum;
    long min;
    long median;
    long p95;
    long max;
    StageValues.Column maxAt;
    int[] stages;
    long[] all;
  }

  final long id;
  final String type;
  private final List<StageValues.Column> columns = new ArrayList<>();
  private long[] driver = new long[1];
  private int driverLength;

  Measured(long id, String type) {
    this.id = id;
    this.type = type;
  }

  void add(StageValues.Column column) {
    columns.add(column);
  }

  void addDriver(long value) {
    if (driverLength == driver.length) driver = Arrays.copyOf(driver, 2 * driverLength);
    driver[driverLength++] = value;
  }

  boolean isCustom() {
    return type.startsWith("v2Custom");
  }

  /** Which values count, by metric type: the rule of Spark's SQLMetrics.stringValue. */
  private boolean counts(long value) {
    if (type.equals("sum") || isCustom()) return true;
    return type.equals("average") ? value > 0 : value >= 0;
  }

  Summary summary() {
    Summary s = new Summary();
    int length = driverLength;
    for (StageValues.Column column : columns) length += column.values.length;
    long[] values = new long[length];
    int offset = 0;
    TreeSet<Integer> touched = new TreeSet<>();
    for (StageValues.Column column : columns) {
      column.values.copyTo(values, offset);
      int end = offset + column.values.length;
      for (int i = offset; i < end; i++) {
        if (values[i] > 0) {
          touched.add(column.stageId);
          break;
        }
      }
      offset = end;
      if (column.hasMax && (s.maxAt == null || column.max > s.maxAt.max)) s.maxAt = column;
    }
    for (int i = 0; i < driverLength; i++) {
      if (s.maxAt != null && driver[i] > s.maxAt.max) s.maxAt = null;
      values[offset++] = driver[i];
    }
    s.stages = touched.stream().mapToInt(Integer::intValue).toArray();
    if (isCustom()) s.all = values.clone();

    int n = 0;
    for (long value : values) if (counts(value)) values[n++] = value;
    s.count = n;
    if (n == 0) return s;
    Arrays.sort(values, 0, n);
    for (int i = 0; i < n; i++) s.sum += values[i];
    s.min = values[0];
    s.median = values[n / 2];
    s.p95 = values[(int) (n * 95L / 100)];
    s.max = values[n - 1];
    return s;
  }
}
