package io.joinsight.delivery;

import java.util.Comparator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The name of a batch's file in the spool: {@code final-<ms>-<listener>-<n>.ndjson.gz}, or {@code running-...} for
 * documents of running executions. It ends with {@code .refused} if the collector refused the batch, and with {@code
 * .tmp} while the file is written. Names sort by age.
 */
final class SpoolName implements Comparable<SpoolName> {
  /** The kind of documents in a batch, in the order in which batches are dropped. */
  enum Kind { refused, running, ended }

  static final String REFUSED = ".refused";
  static final String UNFINISHED = ".tmp";
  private static final Pattern PATTERN = Pattern.compile(
      "(final|running)-(\\d{1,15})-([A-Za-z0-9-]{1,80})-(\\d{1,15})\\.ndjson\\.gz(\\.refused)?(\\.tmp)?");
  private static final Comparator<SpoolName> BY_AGE = Comparator.<SpoolName>comparingLong(name -> name.ms)
                                                          .thenComparing(name -> name.listenerId)
                                                          .thenComparingLong(name -> name.number)
                                                          .thenComparing(name -> name.text);

  final String text;
  final Kind kind;
  final boolean isUnfinished;
  private final long ms;
  private final String listenerId;
  private final long number;

  private SpoolName(Matcher m) {
    text = m.group();
    kind = m.group(5) != null ? Kind.refused : m.group(1).equals("final") ? Kind.ended : Kind.running;
    isUnfinished = m.group(6) != null;
    ms = Long.parseLong(m.group(2));
    listenerId = m.group(3);
    number = Long.parseLong(m.group(4));
  }

  /** Null if the name is not a spool file's. */
  static SpoolName parse(String fileName) {
    Matcher m = PATTERN.matcher(fileName);
    return m.matches() ? new SpoolName(m) : null;
  }

  /** The name of a listener's new file. */
  static String make(Kind kind, String listenerId, long number) {
    String name =
        (kind == Kind.ended ? "final-" : "running-") + System.currentTimeMillis() + "-" + listenerId + "-" + number;
    return name + ".ndjson.gz" + (kind == Kind.refused ? REFUSED : "");
  }

  @Override
  public int compareTo(SpoolName other) {
    return BY_AGE.compare(this, other);
  }
}
