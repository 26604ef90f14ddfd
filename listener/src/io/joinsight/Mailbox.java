package io.joinsight;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Snapshots on their way from the bus's thread to the sender's. A newer one of an execution replaces one that still
 * waits. Bounded in bytes: beyond the limit those of running executions go first, then the oldest.
 */
final class Mailbox {
  private final long limit;
  private final Map<Long, Snapshot> waiting = new LinkedHashMap<>(); // by execution id, oldest first
  private List<Snapshot.Name> evicted = new ArrayList<>();
  private long bytes;
  private boolean woken;

  Mailbox(long limit) {
    this.limit = limit;
  }

  /** Never waits: whoever reads holds the lock only to take something out. */
  synchronized void put(Snapshot snapshot) {
    Snapshot old = waiting.remove(snapshot.executionId);
    if (old != null) bytes -= old.heapBytes;
    waiting.put(snapshot.executionId, snapshot);
    bytes += snapshot.heapBytes;
    if (bytes > limit) evict(false);
    if (bytes > limit) evict(true);
    notifyAll();
  }

  private void evict(boolean finalOnes) {
    for (Iterator<Snapshot> i = waiting.values().iterator(); i.hasNext() && bytes > limit; ) {
      Snapshot snapshot = i.next();
      if (snapshot.isFinal() && !finalOnes) continue;
      i.remove();
      bytes -= snapshot.heapBytes;
      evicted.add(new Snapshot.Name(snapshot.executionId, snapshot.isFinal()));
    }
  }

  /** Ends a wait. */
  synchronized void wake() {
    woken = true;
    notifyAll();
  }

  /** Waits until a snapshot is there, {@link #wake} is called, or the time is over. */
  synchronized void await(long ms) throws InterruptedException {
    long end = System.nanoTime() + 1_000_000 * ms;
    for (long left = ms; waiting.isEmpty() && !woken && left > 0; left = (end - System.nanoTime()) / 1_000_000) wait(left);
  }

  /** Waits for more to come; ended early by {@link #wake}. */
  synchronized void linger(long ms) throws InterruptedException {
    long end = System.nanoTime() + 1_000_000 * ms;
    for (long left = ms; !woken && bytes < limit / 2 && left > 0; left = (end - System.nanoTime()) / 1_000_000) wait(left);
  }

  synchronized boolean isEmpty() {
    return waiting.isEmpty();
  }

  /** Takes out all that waits. */
  synchronized List<Snapshot> take() {
    List<Snapshot> taken = new ArrayList<>(waiting.values());
    waiting.clear();
    bytes = 0;
    woken = false;
    return taken;
  }

  /** Takes out what is known of the snapshots that had to go. */
  synchronized List<Snapshot.Name> takeEvicted() {
    List<Snapshot.Name> taken = evicted;
    evicted = new ArrayList<>();
    return taken;
  }
}
