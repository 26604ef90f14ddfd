package io.joinsight;

import io.joinsight.capture.Application;
import io.joinsight.capture.Documents;
import io.joinsight.capture.QueryPlans;
import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Snapshot;
import io.joinsight.capture.SnapshotConsumer;
import io.joinsight.delivery.Settings;
import io.joinsight.delivery.SnapshotQueue;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/**
 * Measures the executions of a running application from its start to {@link #stop}, and keeps their documents; {@code
 * joinsight.measure} calls this. It works beside an attached listener, and beside other measurements.
 */
public final class Measurement {
  /** A job may go on without its query, for example that of a broadcast that came too late. */
  private static final int JOBS_MS = 5_000;
  private static final int START_MS = 5_000;

  /**
   * Py4J writes a response in parts of 8 KiB (in base64), of which the network holds the second back until the first is
   * acknowledged, 40 ms later: this much comes at once.
   */
  private static final int PIECE_BYTES = 6_000;

  private final SparkContext context;
  private final JoinsightListener listener;
  private final QueryPlans plans = new QueryPlans();
  private Application application;
  private SnapshotQueue queue;
  private ByteArrayInputStream documents;

  private Measurement(SparkContext context, SparkConf conf) {
    this.context = context;
    listener = new JoinsightListener(conf, (settings, itsApplication) -> {
      application = itsApplication;
      queue = new SnapshotQueue(settings.memoryLimit / 4);
      return new InMemory();
    });
  }

  /** Starts a measurement. Throws {@link IllegalStateException}, which says why, if that is impossible. */
  public static Measurement start(SparkContext context, SparkConf conf) throws InterruptedException {
    Measurement measurement = new Measurement(context, Settings.withoutDelivery(conf));
    String problem = measurement.listener.problem();
    if (problem != null) throw new IllegalStateException(problem);
    context.addSparkListener(measurement.plans); // first, so that it has every plan when the listener leaves
    measurement.listener.joinFromNow(context, START_MS);
    return measurement;
  }

  /**
   * Waits until the events of all that has ended have arrived, and detaches. {@link #nextPiece} then returns the
   * documents, a line each: the application's, then those of executions that started after this measurement did and
   * before this call. False after the time-out: then it returns what there is.
   */
  public boolean stop(long timeoutMs) throws Throwable {
    boolean all;
    try {
      all = listener.leave(context, JOBS_MS, timeoutMs);
    } finally {
      context.removeSparkListener(plans);
    }
    Documents made = new Documents(application);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    int number = 0;
    bytes.write(made.application(SequenceTracker.SequenceNumber.ofLog(++number, SequenceTracker.APPLICATION), null));
    List<Snapshot> whole = queue.take();
    whole.removeIf(snapshot -> !snapshot.startSeen);
    whole.sort((a, b) -> Long.compare(a.executionId, b.executionId));
    for (Snapshot each : whole)
      bytes.write(made.execution(SequenceTracker.SequenceNumber.ofLog(++number, each.executionId), each));
    documents = new ByteArrayInputStream(bytes.toByteArray());
    return all;
  }

  /** The next bytes of the documents; none after the last. */
  public byte[] nextPiece() {
    byte[] piece = new byte[Math.min(PIECE_BYTES, documents.available())];
    documents.read(piece, 0, piece.length);
    return piece;
  }

  /** The plans of what has ended, which live as long as the caller refers to them. */
  public QueryPlans plans() {
    return plans;
  }

  /** Executions whose documents did not fit into the memory limit. */
  public int dropped() {
    Set<Long> evicted = new HashSet<>(queue.takeEvicted(false));
    evicted.addAll(queue.takeEvicted(true));
    return evicted.size();
  }

  private final class InMemory implements SnapshotConsumer {
    @Override
    public void start() {}

    @Override
    public void offer(Snapshot snapshot) {
      queue.put(snapshot);
    }

    @Override
    public void close(long timeoutMs) {}
  }
}
