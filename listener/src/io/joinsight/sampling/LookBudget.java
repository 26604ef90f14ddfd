package io.joinsight.sampling;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * How often a {@link Sampler} may look: its looks take at most 1 % of the time that passes, and 0.1 s in addition.
 *
 * <p>A look stops all threads of the JVM while it walks the stacks, which takes its thread hardly any CPU time. The
 * duration of a look includes that, and on a busy machine also waiting for a processor, during which the others run. So
 * the shortest of the last looks counts, by thread; what the first ones seemed to take is corrected by those after them.
 */
final class LookBudget {
  private static final int SHARE = 100;
  private static final int LAST = 32;

  /** So that the first looks, for which classes are loaded, cause no long pause. */
  private static final long BURST = TimeUnit.MILLISECONDS.toNanos(100);

  /** So many looks tell how long one takes; until then no pause is longer than this. */
  private static final int FIRST = 4;
  private static final long FIRST_PAUSE = TimeUnit.SECONDS.toNanos(1);

  // Of the last looks
  private final long[] recent = new long[LAST]; // nanoseconds that a thread's part took
  private final int[] threadsOf = new int[LAST];
  private final long[] cpuOf = new long[LAST];
  private long shortest;
  private int looks;
  private long balance = BURST; // nanoseconds that looks may take now; negative after a long one
  private long at;

  LookBudget(long now) {
    at = now;
  }

  /** Counts a look that ended now; returns how long to pause before the next one at least. All in nanoseconds. */
  long spend(int threads, long duration, long cpu, long now) {
    int last = looks++ % LAST;
    recent[last] = duration / threads;
    threadsOf[last] = threads;
    cpuOf[last] = cpu;
    long before = shortest;
    shortest = Arrays.stream(recent, 0, Math.min(looks, LAST)).min().getAsLong();
    long cost = cost(last, shortest);
    if (looks <= LAST) {
      for (int i = 0; i < last; i++) cost -= Math.max(0, cost(i, before) - cost(i, shortest));
    }
    balance = Math.min(BURST, Math.min(BURST, balance + (now - at) / SHARE) - cost);
    at = now;
    long pause = balance >= 0 ? 0 : -balance * SHARE;
    return looks < FIRST ? Math.min(pause, FIRST_PAUSE) : pause;
  }

  /** Nanoseconds that a look took, if a thread's part of it took so long. */
  private long cost(int look, long part) {
    return Math.max(cpuOf[look], threadsOf[look] * part);
  }
}
