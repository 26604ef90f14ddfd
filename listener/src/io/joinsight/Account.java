package io.joinsight;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
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
class Account {
  /** Stands in for the execution id in documents of the application. */
  static final long APPLICATION = -1;

  /** A document's number, its execution, and the earlier documents that it supersedes. */
  static final class Stamp {
    final long number;
    final long executionId;
    final Numbers supersedes;

    /** The stamp of a document read from an event log, which supersedes no known document. */
    static Stamp ofLog(long number, long executionId) {
      return new Stamp(number, executionId, NONE);
    }

    private Stamp(long number, long executionId, Numbers supersedes) {
      this.number = number;
      this.executionId = executionId;
      this.supersedes = supersedes;
    }
  }

  private static final Numbers NONE = new Numbers();

  /**
   * The newest ranges that a set keeps; the schema allows 100,000. Heartbeats repeat them, and the collector has merged
   * earlier ones; what no heartbeat has told it is missing there.
   */
  static final int MAX_RANGES = 10_000;

  /** Ended executions that are kept, because a job that outlives its execution causes one more document. */
  private static final int MAX_ENDED = 1000;

  private long made;
  private final Map<Long, Numbers> running = new HashMap<>(); // documents not known to have arrived, by execution
  private final Map<Long, Numbers> ended = new LinkedHashMap<Long, Numbers>() {
    @Override
    protected boolean removeEldestEntry(Map.Entry<Long, Numbers> eldest) {
      return size() > MAX_ENDED;
    }
  };
  private final Map<String, Numbers> dropped = new TreeMap<>(); // by cause
  private final Numbers refused = new Numbers();

  /** Stamps the next document of an execution; {@code isFinal}: the execution has ended. */
  Stamp next(long executionId, boolean isFinal) {
    Numbers earlier = running.remove(executionId);
    if (earlier == null) earlier = ended.remove(executionId);
    Stamp stamp = new Stamp(++made, executionId, earlier == null ? NONE : earlier.copy());
    if (earlier == null) earlier = new Numbers();
    earlier.add(stamp.number);
    earlier.keepNewest(MAX_RANGES);
    (isFinal ? ended : running).put(executionId, earlier);
    return stamp;
  }

  void arrived(List<Stamp> stamps) {
    for (Stamp stamp : stamps) {
      arrived(running, stamp);
      arrived(ended, stamp);
    }
  }

  private static void arrived(Map<Long, Numbers> pending, Stamp stamp) {
    Numbers earlier = pending.get(stamp.executionId);
    if (earlier == null) return;
    earlier.removeUpTo(stamp.number);
    if (earlier.isEmpty()) pending.remove(stamp.executionId);
  }

  /** Records that the driver dropped these documents; returns the total dropped for this cause. */
  long dropped(String cause, List<Stamp> stamps) {
    Numbers numbers = dropped.computeIfAbsent(cause, name -> new Numbers());
    add(numbers, stamps);
    return numbers.count();
  }

  /** Records that the collector will never take these documents. */
  void refused(List<Stamp> stamps) {
    add(refused, stamps);
  }

  private static void add(Numbers numbers, List<Stamp> stamps) {
    for (Stamp stamp : stamps) {
      numbers.add(stamp.number);
      numbers.addAll(stamp.supersedes); // these were not sent because of it
    }
    numbers.keepNewest(MAX_RANGES);
  }

  long made() {
    return made;
  }

  Map<String, Numbers> dropped() {
    return Collections.unmodifiableMap(dropped);
  }

  Numbers refused() {
    return refused;
  }
}
