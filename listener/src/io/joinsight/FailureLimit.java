package io.joinsight;

import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/** Counts failures within an hour: a driver lives for months, in which rare ones must not add up. */
final class FailureLimit {
  static final int MAX = 10;
  static final long PERIOD = TimeUnit.HOURS.toNanos(1);

  private final LongSupplier clock; // nanoseconds
  private int failures;
  private long first; // in nanoseconds of the clock

  FailureLimit(LongSupplier clock) {
    this.clock = clock;
  }

  /** Counts a failure; returns how many there were since the first one, which is an hour ago at most. */
  int add() {
    long now = clock.getAsLong();
    if (failures == 0 || now - first >= PERIOD) {
      first = now;
      failures = 0;
    }
    return ++failures;
  }
}
