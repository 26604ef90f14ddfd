package io.joinsight.capture;

import java.util.Arrays;

/**
 * How many slots the tasks of a stage filled at once, and since when at most half of these were filled.
 *
 * <p>The driver notes that a task finished after the slot has its next task, so by these times more tasks would run
 * than there are slots. The slots are counted by the times of the executor, from launch over the run time.
 */
final class Occupancy {
  /** The largest number of tasks that ran at once. */
  final int width;

  /** When, after the last launch, the number of running tasks fell to half of the width; −1: it did not. */
  final long tailAt;

  /** Times are relative to {@code base}; {@code freed}: when its slot was free at the earliest. Sorts the arrays. */
  Occupancy(long base, long[] launches, long[] freed, long[] finishes) {
    int n = launches.length;
    Arrays.sort(launches);
    Arrays.sort(freed);
    Arrays.sort(finishes);
    int most = 0;
    for (int started = 0, ended = 0; started < n; started++) {
      while (ended < n && freed[ended] <= launches[started]) ended++;
      most = Math.max(most, started + 1 - ended);
    }
    width = Math.max(1, most);
    int left = width / 2; // tasks
    long at = left == 0 ? finishes[n - 1] : Math.max(finishes[Math.max(0, n - 1 - left)], launches[n - 1]);
    tailAt = at < finishes[n - 1] ? base + at : -1;
  }
}
