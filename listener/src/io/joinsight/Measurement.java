package io.joinsight;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/**
 * Measures the executions of a running application from its start to {@link #stop}, and keeps their documents; {@code
 * joinsight.measure} calls this. It works beside an attached listener, and beside other measurements.
 */
public final class Measurement {
  private static final int POLL_MS = 5;

  /** A job may go on without its query, for example that of a broadcast that came too late. */
  private static final int JOBS_MS = 5_000;

  /**
   * Py4J writes a response in parts of 8 KiB (in base64), of which the network holds the second back until the first is
   * acknowledged, 40 ms later: this much comes at once.
   */
  private static final int PIECE_BYTES = 6_000;

  private final SparkContext context;
  private final JoinsightListener listener;
  private Application application;
  private Mailbox mailbox;
  private ByteArrayInputStream documents;

  private Measurement(SparkContext context, SparkConf conf) {
    this.context = context;
    listener = new JoinsightListener(conf, (settings, itsApplication) -> {
      application = itsApplication;
      mailbox = new Mailbox(settings.memoryLimit / 4);
      return new Kept();
    });
  }

  /** Starts a measurement. Throws {@link IllegalStateException}, which says why, if that is impossible. */
  public static Measurement start(SparkContext context, SparkConf conf) {
    Measurement measurement = new Measurement(context, Settings.withoutDelivery(conf));
    String problem = measurement.listener.problem();
    if (problem != null) throw new IllegalStateException(problem);
    measurement.listener.join(context);
    return measurement;
  }

  /**
   * Waits until the events of all that has ended have arrived, and detaches. {@link #nextPiece} then returns the
   * documents, a line each: the application's, then those of executions that started after this measurement did; after
   * the time-out, what there is.
   */
  public void stop(long timeoutMs) throws Throwable {
    long end = System.nanoTime() + 1_000_000 * timeoutMs;
    long jobsEnd = System.nanoTime() + 1_000_000L * JOBS_MS;
    Map<Long, Snapshot> latest = new LinkedHashMap<>();
    try {
      do {
        try {
          context.listenerBus().waitUntilEmpty(Math.max(1, (end - System.nanoTime()) / 1_000_000));
        } catch (TimeoutException late) {
          break;
        }
        take(latest);
        // Spark reports the end of a query's last job after the query has returned
        if (latest.values().stream().noneMatch(Measurement::waitsForJobs)) break;
        Thread.sleep(POLL_MS);
      } while (System.nanoTime() < Math.min(end, jobsEnd));
    } finally {
      listener.leave(context);
    }
    take(latest);
    Documents made = new Documents(application);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    int number = 0;
    bytes.write(made.application(Account.Stamp.ofLog(++number, Account.APPLICATION), null));
    List<Snapshot> whole = new ArrayList<>(latest.values());
    whole.removeIf(snapshot -> !snapshot.startSeen);
    whole.sort((a, b) -> Long.compare(a.executionId, b.executionId));
    for (Snapshot each : whole) bytes.write(made.execution(Account.Stamp.ofLog(++number, each.executionId), each));
    documents = new ByteArrayInputStream(bytes.toByteArray());
  }

  /** The next bytes of the documents; none after the last. */
  public byte[] nextPiece() {
    byte[] piece = new byte[Math.min(PIECE_BYTES, documents.available())];
    documents.read(piece, 0, piece.length);
    return piece;
  }

  /** Executions whose documents did not fit into the memory limit. */
  public int dropped() {
    Set<Long> evicted = new HashSet<>(mailbox.takeEvicted(false));
    evicted.addAll(mailbox.takeEvicted(true));
    return evicted.size();
  }

  private void take(Map<Long, Snapshot> latest) {
    for (Snapshot each : mailbox.take()) latest.put(each.executionId, each);
  }

  private static boolean waitsForJobs(Snapshot snapshot) {
    return snapshot.isFinal() && snapshot.jobs.stream().anyMatch(job -> job.endedAt == null);
  }

  private final class Kept implements Sink {
    @Override
    public void start() {}

    @Override
    public void offer(Snapshot snapshot) {
      mailbox.put(snapshot);
    }

    @Override
    public void close(long timeoutMs) {}
  }
}
