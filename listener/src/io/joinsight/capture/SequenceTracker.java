package io.joinsight.capture;

import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Numbers a listener's documents and records which were dropped or refused. With the numbers that arrived, the
 * collector knows exactly which are missing. Used by the sender's thread only.
 *
 * <p>A document of an execution replaces all earlier ones, so it lists those not known to have arrived. Once it
 * arrives, none of them is missing, whether they were sent, superseded in the spool or lost.
 */
public class SequenceTracker {
  /** Stands in for the execution id in documents of the application. */
  public static final long APPLICATION = -1;

  /** A document's number, its execution, and the earlier documents that it supersedes. */
  public static final class SequenceNumber {
    public final long number;
    public final long executionId;
    final IdRanges supersedes;

    /** The stamp of a document read from an event log, which supersedes no known document. */
    public static SequenceNumber ofLog(long number, long executionId) {
      return new SequenceNumber(number, executionId, NONE);
    }

    private SequenceNumber(long number, long executionId, IdRanges supersedes) {
      this.number = number;
      this.executionId = executionId;
      this.supersedes = supersedes;
    }
  }

  private static final IdRanges NONE = new IdRanges();

  /**
   * The newest ranges that a set keeps; the schema allows 100,000. Heartbeats repeat them, and the collector has merged
   * earlier ones; what no heartbeat has told it is missing there.
   */
  static final int MAX_RANGES = 10_000;

  /** Ended executions that are kept, because a job that outlives its execution causes one more document. */
  private static final int MAX_ENDED = 1000;

  private long made;
  private final Map<Long, IdRanges> running = new HashMap<>(); // documents not known to have arrived, by execution
  private final Map<Long, IdRanges> ended = new BoundedMap<>(MAX_ENDED);
  private final Map<String, IdRanges> dropped = new TreeMap<>(); // by cause
  private final IdRanges refused = new IdRanges();

  /** Stamps the next document of an execution; {@code isFinal}: the execution has ended. */
  public SequenceNumber next(long executionId, boolean isFinal) {
    IdRanges earlier = running.remove(executionId);
    if (earlier == null) earlier = ended.remove(executionId);
    SequenceNumber stamp = new SequenceNumber(++made, executionId, earlier == null ? NONE : earlier.copy());
    if (earlier == null) earlier = new IdRanges();
    earlier.add(stamp.number);
    earlier.keepNewest(MAX_RANGES);
    (isFinal ? ended : running).put(executionId, earlier);
    return stamp;
  }

  public void arrived(List<SequenceNumber> stamps) {
    for (SequenceNumber stamp : stamps) {
      arrived(running, stamp);
      arrived(ended, stamp);
    }
  }

  private static void arrived(Map<Long, IdRanges> pending, SequenceNumber stamp) {
    IdRanges earlier = pending.get(stamp.executionId);
    if (earlier == null) return;
    earlier.removeUpTo(stamp.number);
    if (earlier.isEmpty()) pending.remove(stamp.executionId);
  }

  /** Records that the driver dropped these documents; returns the total dropped for this cause. */
  public long dropped(String cause, List<SequenceNumber> stamps) {
    IdRanges numbers = dropped.computeIfAbsent(cause, name -> new IdRanges());
    add(numbers, stamps);
    return numbers.count();
  }

  /** Records that the collector will never take these documents. */
  public void refused(List<SequenceNumber> stamps) {
    add(refused, stamps);
  }

  private static void add(IdRanges numbers, List<SequenceNumber> stamps) {
    for (SequenceNumber stamp : stamps) {
      numbers.add(stamp.number);
      numbers.addAll(stamp.supersedes); // these were not sent because of it
    }
    numbers.keepNewest(MAX_RANGES);
  }

  long made() {
    return made;
  }

  public Map<String, IdRanges> dropped() {
    return Collections.unmodifiableMap(dropped);
  }

  public IdRanges refused() {
    return refused;
  }
}
