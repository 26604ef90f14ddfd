package io.joinsight;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Numbers the documents of a listener and notes which of them were given up: with the numbers that arrived, the collector
 * knows exactly which are missing. Used by the sender's thread alone.
 *
 * <p>A document of an execution makes all earlier ones of it superfluous, so it names those of them that are not known to
 * have arrived: once it is there, none of them is missed, whether they were sent, superseded in the spool or lost.
 */
class Account {
  /** Takes the place of an execution's id in what is said of the application. */
  static final long APPLICATION = -1;

  /** What is known of a document besides its text. */
  static final class Stamp {
    final long number;
    final long executionId;
    final Numbers supersedes;

    private Stamp(long number, long executionId, Numbers supersedes) {
      this.number = number;
      this.executionId = executionId;
      this.supersedes = supersedes;
    }
  }

  private static final Numbers NONE = new Numbers();

  /** Executions that ended and may be told of once more, when a job outlives them. */
  private static final int ENDED = 1000;

  private long made;
  private final Map<Long, Numbers> running = new HashMap<>(); // by execution: its documents not known to have arrived
  private final Map<Long, Numbers> ended =
      new LinkedHashMap<Long, Numbers>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Numbers> eldest) {
          return size() > ENDED;
        }
      };
  private final Map<String, Numbers> dropped = new TreeMap<>(); // by cause
  private final Numbers refused = new Numbers();

  /** The number of the next document of an execution; {@code isFinal}: it has ended. */
  Stamp next(long executionId, boolean isFinal) {
    Numbers earlier = running.remove(executionId);
    if (earlier == null) earlier = ended.remove(executionId);
    Stamp stamp = new Stamp(++made, executionId, earlier == null ? NONE : earlier.copy());
    if (earlier == null) earlier = new Numbers();
    earlier.add(stamp.number);
    (isFinal ? ended : running).put(executionId, earlier);
    return stamp;
  }

  void arrived(List<Stamp> stamps) {
    for (Stamp stamp : stamps) {
      arrived(running, stamp);
      arrived(ended, stamp);
    }
  }

  private static void arrived(Map<Long, Numbers> underWay, Stamp stamp) {
    Numbers earlier = underWay.get(stamp.executionId);
    if (earlier == null) return;
    earlier.removeUpTo(stamp.number);
    if (earlier.isEmpty()) underWay.remove(stamp.executionId);
  }

  /** Notes that these were given up in the driver; returns how many were so far for this cause. */
  long dropped(String cause, List<Stamp> stamps) {
    Numbers numbers = dropped.computeIfAbsent(cause, name -> new Numbers());
    add(numbers, stamps);
    return numbers.count();
  }

  /** Notes that the collector will never take these. */
  void refused(List<Stamp> stamps) {
    add(refused, stamps);
  }

  private static void add(Numbers numbers, List<Stamp> stamps) {
    for (Stamp stamp : stamps) {
      numbers.add(stamp.number);
      numbers.addAll(stamp.supersedes); // what went because of it is not to be had either
    }
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
