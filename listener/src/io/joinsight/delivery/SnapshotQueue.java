package io.joinsight.delivery;

import io.joinsight.capture.IdRanges;
import io.joinsight.capture.Snapshot;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A queue of snapshots from the bus's thread to the sender's. A newer snapshot of an execution replaces a queued one.
 * Limited in bytes: beyond the limit it evicts snapshots of running executions, then of ended ones, the oldest first.
 */
public final class SnapshotQueue {
  private final long limit;
  private final Map<Long, Snapshot> waiting = new LinkedHashMap<>(); // by execution id, oldest first
  private IdRanges evictedRunning = new IdRanges(); // ids of executions, as ranges: they may become many
  private IdRanges evictedEnded = new IdRanges();
  private long bytes;
  private boolean woken;

  public SnapshotQueue(long limit) {
    this.limit = limit;
  }

  /** Does not block: the reader holds the lock only while it takes snapshots out. */
  public synchronized void put(Snapshot snapshot) {
    Snapshot old = waiting.remove(snapshot.executionId);
    if (old != null) bytes -= old.heapBytes;
    waiting.put(snapshot.executionId, snapshot);
    bytes += snapshot.heapBytes;
    if (bytes > limit) evict(false);
    if (bytes > limit) evict(true);
    notifyAll();
  }

  private void evict(boolean finalOnes) {
    for (Iterator<Snapshot> i = waiting.values().iterator(); i.hasNext() && bytes > limit;) {
      Snapshot snapshot = i.next();
      if (snapshot.isFinal() && !finalOnes) continue;
      i.remove();
      bytes -= snapshot.heapBytes;
      (snapshot.isFinal() ? evictedEnded : evictedRunning).add(snapshot.executionId);
    }
  }

  /** Ends {@link #await} or {@link #awaitBatch}. */
  synchronized void wake() {
    woken = true;
    notifyAll();
  }

  /** Waits until there is a snapshot, {@link #wake} is called or the time has passed. */
  synchronized void await(long ms) throws InterruptedException {
    long end = System.nanoTime() + 1_000_000 * ms;
    for (long left = ms; waiting.isEmpty() && !woken && left > 0; left = (end - System.nanoTime()) / 1_000_000)
      wait(left);
  }

  /** Waits for more snapshots until {@link #wake} is called, half the limit is used or the time has passed. */
  synchronized void awaitBatch(long ms) throws InterruptedException {
    long end = System.nanoTime() + 1_000_000 * ms;
    for (long left = ms; !woken && bytes < limit / 2 && left > 0; left = (end - System.nanoTime()) / 1_000_000)
      wait(left);
  }

  synchronized boolean isEmpty() {
    return waiting.isEmpty();
  }

  /** Takes out all snapshots. */
  public synchronized List<Snapshot> take() {
    List<Snapshot> taken = new ArrayList<>(waiting.values());
    waiting.clear();
    bytes = 0;
    woken = false;
    return taken;
  }

  /** Takes out the ids of the executions of which a snapshot was evicted; {@code isFinal}: of ended ones. */
  public synchronized List<Long> takeEvicted(boolean isFinal) {
    IdRanges taken = isFinal ? evictedEnded : evictedRunning;
    if (taken.isEmpty()) return Collections.emptyList();
    if (isFinal) evictedEnded = new IdRanges();
    else evictedRunning = new IdRanges();
    return taken.toList();
  }
}
