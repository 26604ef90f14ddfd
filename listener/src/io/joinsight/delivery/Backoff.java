package io.joinsight.delivery;

import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;

/** Exponential backoff with jitter: the pause doubles with each consecutive failure, up to a limit. */
final class Backoff {
  private static final long FIRST_MS = 500;
  private static final long MAX_MS = 30_000;
  private static final long MAX_RETRY_AFTER_MS = 300_000;

  private final LongSupplier clock; // nanoseconds
  private long pauseMs; // 0: the last attempt succeeded
  private long nextAttempt; // in nanoseconds of the clock

  Backoff(LongSupplier clock) {
    this.clock = clock;
    nextAttempt = clock.getAsLong();
  }

  /** Whether the last attempt failed. */
  boolean isActive() {
    return pauseMs != 0;
  }

  /** In nanoseconds of the clock. */
  long nextAttempt() {
    return nextAttempt;
  }

  void succeeded() {
    pauseMs = 0;
    nextAttempt = clock.getAsLong();
  }

  /** Sets the time of the next attempt, no earlier than the server asks for. */
  void failed(long retryAfterMs) {
    pauseMs = Math.min(MAX_MS, pauseMs == 0 ? FIRST_MS : 2 * pauseMs);
    long jitterMs = ThreadLocalRandom.current().nextLong(pauseMs / 2 + 1);
    long waitMs = Math.max(pauseMs / 2 + jitterMs, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
    nextAttempt = clock.getAsLong() + 1_000_000 * waitMs;
  }
}
