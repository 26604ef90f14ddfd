package io.joinsight.sampling;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** Counts failures within an hour: a driver lives for months, in which rare ones must not add up. */
public final class FailureLimit {
  public static final int MAX = 10;
  public static final long PERIOD = TimeUnit.HOURS.toNanos(1);

  private final LongSupplier clock; // nanoseconds
  private int failures;
  private long first; // in nanoseconds of the clock

  public FailureLimit(LongSupplier clock) {
    this.clock = clock;
  }

  /** Counts a failure; returns how many there were since the first one, which is an hour ago at most. */
  public int add() {
    long now = clock.getAsLong();
    if (failures == 0 || now - first >= PERIOD) {
      first = now;
      failures = 0;
    }
    return ++failures;
  }
}
