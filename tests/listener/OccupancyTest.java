package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.Random;

/** Compares Occupancy with a count at each time. */
public final class OccupancyTest {
  private static final long BASE = 1_000_000;

  public static void main(String[] arguments) {
    Random random = new Random(7);
    for (int round = 0; round < 5000; round++) random(random);
    // One slot: the driver notes each finish 3 ms after the next launch
    check(of(new long[] {0, 10, 20}, new long[] {10, 20, 30}, new long[] {13, 23, 33}).width == 1, "one slot");
    check(of(new long[] {0, 10, 20}, new long[] {10, 20, 30}, new long[] {13, 23, 33}).tailAt == -1, "no tail");
    // Two slots: the last task runs on alone
    Occupancy two = of(new long[] {0, 0, 10, 10}, new long[] {10, 10, 20, 90}, new long[] {11, 11, 21, 91});
    check(two.width == 2 && two.tailAt == BASE + 21, "two slots");
    // Four: two may be empty before it is a tail
    Occupancy four = of(new long[] {0, 0, 0, 0}, new long[] {10, 20, 30, 40}, new long[] {10, 20, 30, 40});
    check(four.width == 4 && four.tailAt == BASE + 20, "four slots");
    check(of(new long[] {5}, new long[] {5}, new long[] {5}).width == 1, "no time");
    System.out.println("ok");
  }

  private static Occupancy of(long[] launches, long[] freed, long[] finishes) {
    return new Occupancy(BASE, launches.clone(), freed.clone(), finishes.clone());
  }

  private static void random(Random random) {
    int n = 1 + random.nextInt(12);
    long[] launches = new long[n];
    long[] freed = new long[n];
    long[] finishes = new long[n];
    for (int i = 0; i < n; i++) {
      launches[i] = random.nextInt(40) - 20; // relative to the first that ended
      freed[i] = launches[i] + random.nextInt(30);
      finishes[i] = freed[i] + random.nextInt(4);
    }
    long lastLaunch = Long.MIN_VALUE;
    long lastFinish = Long.MIN_VALUE;
    int width = 1;
    for (int i = 0; i < n; i++) {
      lastLaunch = Math.max(lastLaunch, launches[i]);
      lastFinish = Math.max(lastFinish, finishes[i]);
      int running = 0;
      for (int j = 0; j < n; j++)
        if (launches[j] <= launches[i] && freed[j] > launches[i]) running++;
      width = Math.max(width, running);
    }
    long tail = lastLaunch;
    while (tail < lastFinish && 2 * after(finishes, tail) > width) tail++;
    Occupancy found = of(launches, freed, finishes);
    check(found.width == width, "width " + found.width + " for " + width);
    long expected = tail < lastFinish && width > 1 ? BASE + tail : -1;
    check(found.tailAt == expected, "tail " + found.tailAt + " for " + expected);
  }

  private static int after(long[] finishes, long time) {
    int count = 0;
    for (long finish : finishes)
      if (finish > time) count++;
    return count;
  }
}
