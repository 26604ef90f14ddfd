package io.joinsight.capture;

/** Approximate heap use of the running executions, and its limit, in bytes. */
final class Memory {
  final long limit;
  private long used;

  Memory(long limit) {
    this.limit = limit;
  }

  void add(long bytes) {
    used += bytes;
  }

  boolean isExceeded() {
    return used > limit;
  }

  long used() {
    return used;
  }
}
