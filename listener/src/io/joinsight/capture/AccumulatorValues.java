package io.joinsight.capture;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;

/** The values of one accumulator in one execution; {@link #aggregate()} summarises them. */
final class AccumulatorValues {
  private static final int AGGREGATE_BYTES = 200; // about

  /** An accumulator as it appears in the document; the JSON Schema describes its fields. */
  static final class Aggregate {
    Summary summary; // of the values that count; null if none does
    boolean isMaxOfTask; // false: the driver's
    int maxStage;
    int maxAttempt;
    long maxTask;
    int[] stages;
    boolean isApproximate;
    long[] all;
  }

  final long id;
  final String type;
  private final List<StageValues> stages = new ArrayList<>();
  private int[] slots = new int[1]; // this accumulator's slot in each of the stages
  private long[] driver = new long[1];
  private int driverLength;
  private Aggregate aggregate;
  private volatile long heapBytes = AGGREGATE_BYTES;

  AccumulatorValues(long id, String type) {
    this.id = id;
    this.type = type;
  }

  void add(StageValues stage, int slot) {
    if (stages.size() == slots.length) slots = Arrays.copyOf(slots, 2 * slots.length);
    slots[stages.size()] = slot;
    stages.add(stage);
    heapBytes += stage.heapBytesOfSlot();
  }

  void addDriver(long value) {
    if (driverLength == driver.length) driver = Arrays.copyOf(driver, 2 * driverLength);
    driver[driverLength++] = value;
  }

  /** Approximate heap use. */
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

  /** Computed once, by the sender's thread, which is the only reader from then on; the values are dropped. */
  Aggregate aggregate() {
    if (aggregate == null) {
      aggregate = isExact() ? exact() : approximate();
      heapBytes = AGGREGATE_BYTES;
      stages.clear();
      driver = new long[0];
      driverLength = 0;
    }
    return aggregate;
  }

  private boolean isExact() {
    for (StageValues stage : stages)
      if (stage.isApproximate()) return false;
    return true;
  }

  private Aggregate exact() {
    Aggregate s = new Aggregate();
    int length = driverLength;
    for (StageValues stage : stages) length += stage.tasks;
    long[] values = new long[length];
    int offset = 0;
    TreeSet<Integer> touched = new TreeSet<>();
    for (int i = 0; i < stages.size(); i++) {
      StageValues stage = stages.get(i);
      stage.copyTo(slots[i], values, offset);
      int end = offset + stage.tasks;
      while (offset < end && values[offset] <= 0) offset++;
      if (offset < end) touched.add(stage.stageId);
      offset = end;
    }
    System.arraycopy(driver, 0, values, offset, driverLength);
    origin(s, touched);
    if (isCustom()) s.all = values.clone();

    int n = 0;
    for (long value : values)
      if (counts(value)) values[n++] = value;
    s.summary = Summary.of(values, n);
    return s;
  }

  /** Like {@link #exact()}, from histograms where a stage keeps only these. */
  private Aggregate approximate() {
    Aggregate s = new Aggregate();
    s.isApproximate = true;
    Histogram all = new Histogram();
    TreeSet<Integer> touched = new TreeSet<>();
    for (int i = 0; i < stages.size(); i++) {
      StageValues stage = stages.get(i);
      int slot = slots[i];
      if (stage.max(slot) > 0) touched.add(stage.stageId);
      if (stage.isApproximate()) {
        all.addAll(stage.histogram(slot));
        if (counts(0)) all.add(0, Math.max(0, stage.tasks - stage.recorded(slot)));
      } else {
        for (int task = 0; task < stage.tasks; task++)
          if (counts(stage.get(slot, task))) all.add(stage.get(slot, task));
      }
    }
    for (int i = 0; i < driverLength; i++)
      if (counts(driver[i])) all.add(driver[i]);
    origin(s, touched);
    if (isCustom()) s.all = new long[0];
    s.summary = Summary.of(all);
    return s;
  }

  private void origin(Aggregate s, TreeSet<Integer> touched) {
    s.stages = touched.stream().mapToInt(Integer::intValue).toArray();
    if (stages.isEmpty()) return;
    int largest = 0;
    for (int i = 1; i < stages.size(); i++)
      if (max(i) > max(largest)) largest = i;
    for (int i = 0; i < driverLength; i++)
      if (driver[i] > max(largest)) return;
    StageValues stage = stages.get(largest);
    s.isMaxOfTask = true;
    s.maxStage = stage.stageId;
    s.maxAttempt = stage.attempt;
    s.maxTask = stage.maxTask(slots[largest]);
  }

  private long max(int i) {
    return stages.get(i).max(slots[i]);
  }
}
