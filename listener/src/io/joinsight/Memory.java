package io.joinsight;

/** What the state of the running executions takes on the heap, about, and what it may take. */
final class Memory {
  final long limit;
  private long used;

  Memory(long limit) {
    this.limit = limit;
  }

  void add(long bytes) {
    used += bytes;
  }

  boolean isOver() {
    return used > limit;
  }

  long used() {
    return used;
  }
}
