package io.joinsight.sampling;

import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/**
 * How often a {@link Sampler} may look: its looks take at most 1 % of the time that passes, and 0.1 s in addition.
 *
 * <p>A look stops all threads of the JVM while it walks the stacks, which takes its thread hardly any CPU time. The
 * duration of a look includes that, and on a busy machine also waiting for a processor, during which the others run. So
 * the shortest of the last looks counts, by thread.
 */
final class LookBudget {
  private static final int SHARE = 100;
  private static final int LAST = 32;

  /** So that the first looks, for which classes are loaded, cause no long pause. */
  private static final long BURST = TimeUnit.MILLISECONDS.toNanos(100);

  private final long[] recent = new long[LAST]; // nanoseconds that a thread's part of a look took
  private int looks;
  private long balance = BURST; // nanoseconds that looks may take now; negative after a long one
  private long at;

  LookBudget(long now) {
    at = now;
  }

  /** Counts a look that ended now; returns how long to pause before the next one at least. All in nanoseconds. */
  long spend(int threads, long duration, long cpu, long now) {
    recent[looks++ % LAST] = duration / threads;
    long shortest = Arrays.stream(recent, 0, Math.min(looks, LAST)).min().getAsLong();
    balance = Math.min(BURST, balance + (now - at) / SHARE) - Math.max(cpu, threads * shortest);
    at = now;
    return balance >= 0 ? 0 : -balance * SHARE;
  }
}
