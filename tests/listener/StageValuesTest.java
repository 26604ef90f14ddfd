package io.joinsight.capture;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

/**
 * Compares StageValues with plain maps: stages of few tasks and of many, tasks that report in the same order, in another
 * one, or only some metrics, and metrics that are announced late.
 */
public final class StageValuesTest {
  private static final int METRICS = 40;
  private static final int SIZES = 30;

  public static void main(String[] args) {
    for (int seed = 0; seed < 2_000; seed++) compare(new Random(seed), "seed " + seed);
    System.out.println("ok");
  }

  private static void compare(Random random, String what) {
    int tasks = 1 + random.nextInt(SIZES);
    Memory memory = new Memory(Long.MAX_VALUE);
    RegisteredMetrics announced = new RegisteredMetrics();
    for (long id = 0; id < METRICS; id += 1 + random.nextInt(3)) announced.add(id, "sum");
    StageValues values = new StageValues(7, 0, tasks, announced, memory);
    Map<Long, long[]> expected = new TreeMap<>();
    Map<Long, long[]> largest = new TreeMap<>(); // value and task
    List<Long> order = new ArrayList<>();
    for (long id = METRICS; id-- > 0;)
      if (random.nextInt(4) > 0) order.add(id);
    if (random.nextInt(3) == 0 && !order.isEmpty()) order.add(order.get(0)); // reported twice
    boolean isOrdered = random.nextBoolean();
    for (int run = 0; run < 2 * tasks; run++) {
      int task = random.nextInt(tasks);
      if (!values.accepts(task)) continue;
      List<Long> reported = new ArrayList<>(order);
      if (!isOrdered && random.nextInt(3) == 0) Collections.shuffle(reported, random);
      if (!isOrdered && random.nextInt(3) == 0) reported = reported.subList(0, random.nextInt(order.size() + 1));
      if (random.nextBoolean()) values.expect(reported.size());
      for (int i = 0; i < reported.size(); i++) {
        long id = reported.get(i);
        long value = random.nextLong() >> random.nextInt(Long.SIZE);
        values.update(i, id, task, 100 + run, value);
        if (!announced.has(id)) continue;
        expected.computeIfAbsent(id, any -> new long[tasks])[task] = value;
        long[] max = largest.get(id);
        if (max == null || value > max[0]) largest.put(id, new long[] {value, 100 + run});
      }
      if (random.nextBoolean()) values.succeeded(task);
      if (random.nextInt(10) == 0) announced.add(random.nextInt(METRICS), "sum");
    }
    check(values, expected, largest, what);
    check(values.copy(), expected, largest, what + ", copy");
    memory.add(-values.heapBytes());
    if (memory.used() != 0) fail(what + ": " + memory.used() + " bytes are still on the account");
  }

  private static void check(StageValues values, Map<Long, long[]> expected, Map<Long, long[]> largest, String what) {
    int found = 0;
    for (int slot = 0; slot < values.slots(); slot++) {
      long id = values.id(slot);
      if (!values.hasValue(slot)) continue;
      found++;
      long[] actual = new long[values.tasks + 1];
      values.copyTo(slot, actual, 1);
      if (!expected.containsKey(id) || !Arrays.equals(expected.get(id), Arrays.copyOfRange(actual, 1, actual.length))) {
        fail(what + ": metric " + id + " has " + Arrays.toString(actual) + " not " + Arrays.toString(expected.get(id)));
      }
      for (int task = 0; task < values.tasks; task++) {
        if (values.get(slot, task) != actual[task + 1]) fail(what + ": metric " + id + ", task " + task);
      }
      long[] max = {values.max(slot), values.maxTask(slot)};
      if (!Arrays.equals(max, largest.get(id)))
        fail(what + ": the largest of metric " + id + " is " + Arrays.toString(max));
    }
    if (found != expected.size()) fail(what + ": " + found + " metrics, not " + expected.size());
  }

  private static void fail(String why) {
    throw new AssertionError(why);
  }
}
