package io.joinsight.delivery;

import io.joinsight.capture.Documents;
import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Snapshot;
import io.joinsight.capture.SnapshotConsumer;
import io.joinsight.sampling.FailureLimit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The thread that writes documents from snapshots and sends them to the collector.
 *
 * <p>The listener's thread only calls {@link #offer}, which does not block. Documents go directly to the collector;
 * after a failure they go to the {@link Spool}, and from there to the collector once it accepts them again. A document
 * is numbered when it is written; {@link SequenceTracker} records which numbers were dropped or refused.
 */
public final class Sender implements SnapshotConsumer {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  private static final int BATCH_BYTES = 4 << 20;
  private static final int LINGER_MS = 500;
  private static final long MIN_SIGN_OF_LIFE_MS = 30_000;

  /** One fifth of the shutdown timeout is reserved for spooling. */
  private static final int SPOOL_PART = 5;

  private final Documents documents;
  private final SequenceTracker tracker;
  private final SnapshotQueue queue;
  private final Spool spool;
  private final Transport transport;
  private final LongSupplier clock; // nanoseconds
  private final Backoff backoff;
  private final Delivery delivery;
  private final long signOfLifeMs;
  private final Thread thread;
  private volatile long closeBy; // in nanoseconds of the clock; 0 while open

  // Used by the sender's thread only
  private long nextSignOfLife; // when to send the application's document even if nothing changed
  private boolean applicationClosed;
  private final FailureLimit failures;
  private final Backoff retry; // after a failure of its own, not of a delivery

  public Sender(Settings settings, Documents documents) {
    this(settings, documents, new SequenceTracker());
  }

  private Sender(Settings settings, Documents documents, SequenceTracker tracker) {
    this(
        settings, documents, tracker, new SnapshotQueue(settings.memoryLimit / 4),
        new Spool(settings.spool, settings.spoolLimit, settings.memoryLimit / 4, documents.listenerId, tracker),
        new Http(settings), System::nanoTime);
  }

  Sender(
      Settings settings, Documents documents, SequenceTracker tracker, SnapshotQueue queue, Spool spool,
      Transport transport, LongSupplier clock) {
    this.documents = documents;
    this.tracker = tracker;
    this.queue = queue;
    this.spool = spool;
    this.transport = transport;
    this.clock = clock;
    backoff = new Backoff(clock);
    retry = new Backoff(clock);
    failures = new FailureLimit(clock);
    delivery = new Delivery(settings, transport, tracker, spool, backoff);
    signOfLifeMs = Math.max(MIN_SIGN_OF_LIFE_MS, settings.progressIntervalMs);
    nextSignOfLife = clock.getAsLong();
    thread = new Thread(this::run, "joinsight-sender");
    thread.setDaemon(true);
  }

  @Override
  public void start() {
    thread.start();
  }

  /** Queues a snapshot; does not block. */
  @Override
  public void offer(Snapshot snapshot) {
    queue.put(snapshot);
  }

  /** Delivers all documents within the timeout, or spools them, whatever a request is waiting for. */
  @Override
  public void close(long timeoutMs) throws InterruptedException {
    long spoolMs = timeoutMs / SPOOL_PART;
    closeWithin(timeoutMs - spoolMs);
    thread.join(Math.max(1, timeoutMs - spoolMs));
    transport.abort();
    thread.join(Math.max(1, spoolMs));
    if (thread.isAlive())
      LOG.warn("Joinsight: the last documents were neither delivered nor spooled before the shutdown timeout");
  }

  void closeWithin(long timeoutMs) {
    closeBy = Math.max(1, clock.getAsLong() + 1_000_000 * timeoutMs);
    queue.wake();
  }

  private void run() {
    open();
    try {
      while (goOn()) {}
    } catch (InterruptedException e) {
      // The thread ends
    }
  }

  /** Call it before the first {@link #step}. */
  void open() {
    try {
      spool.open();
    } catch (Throwable t) {
      failed(t);
    }
  }

  /** One step, with pauses; false when everything is done. */
  private boolean goOn() throws InterruptedException {
    if (closeBy == 0) {
      queue.await(pauseMs());
      queue.awaitBatch(LINGER_MS);
    }
    try {
      if (!step()) return false;
      if (retry.isActive()) LOG.info("Joinsight: the sender works again");
      retry.succeeded();
      if (closeBy != 0 && applicationClosed) Thread.sleep(untilClose(pauseMs()));
    } catch (InterruptedException e) {
      throw e;
    } catch (Throwable t) {
      if (isLate()) return false;
      failed(t);
      queue.awaitBatch(untilClose(millis(retry.nextAttempt())));
    }
    return true;
  }

  private void failed(Throwable t) {
    retry.failed(0);
    if (failures.add() == 1) LOG.error("Joinsight: the sender failed and tries again; the job is not affected", t);
  }

  private long millis(long time) {
    return Math.max(0, (time - clock.getAsLong()) / 1_000_000 + 1);
  }

  private long untilClose(long ms) {
    return closeBy == 0 ? ms : Math.max(1, Math.min(ms, (closeBy - clock.getAsLong()) / 1_000_000));
  }

  /** Whether all documents must be spooled now. */
  private boolean isLate() {
    return closeBy != 0 && due(closeBy);
  }

  private boolean due(long time) {
    return clock.getAsLong() - time >= 0;
  }

  private long pauseMs() {
    boolean waits = spool.waiting(false) > 0 && backoff.nextAttempt() - nextSignOfLife < 0;
    long next = waits ? backoff.nextAttempt() : nextSignOfLife;
    return millis(next);
  }

  /** Takes the queued snapshots and delivers what is due, without pausing; false when everything is done. */
  boolean step() {
    boolean closing = closeBy != 0;
    for (boolean isFinal : new boolean[] {false, true}) { // before the newer snapshots, which supersede them
      for (long id : queue.takeEvicted(isFinal)) drop("memory", id, isFinal);
    }
    List<Batch.Line> lines = new ArrayList<>();
    long bytes = 0;
    Iterator<Snapshot> snapshots = queue.take().iterator();
    try {
      while (snapshots.hasNext()) {
        bytes += write(lines, snapshots.next());
        if (bytes < BATCH_BYTES) continue;
        send(lines);
        lines.clear();
        bytes = 0;
      }
    } catch (Throwable t) {
      snapshots.forEachRemaining(snapshot -> drop("failure", snapshot.executionId, snapshot.isFinal()));
      throw t;
    }
    if (due(nextSignOfLife) || (closing && !applicationClosed)) {
      nextSignOfLife = clock.getAsLong() + 1_000_000 * signOfLifeMs;
      applicationClosed = closing;
      writeApplication(lines);
    }
    send(lines);
    if (closing) return !finish();
    while (closeBy == 0 && spool.waiting(false) > 0 && due(backoff.nextAttempt()) && ship() && queue.isEmpty()) {}
    return true;
  }

  private void drop(String cause, long executionId, boolean isFinal) {
    tracker.dropped(cause, Collections.singletonList(tracker.next(executionId, isFinal)));
  }

  private long write(List<Batch.Line> lines, Snapshot snapshot) {
    SequenceTracker.SequenceNumber stamp = tracker.next(snapshot.executionId, snapshot.isFinal());
    try {
      byte[] line = documents.execution(stamp, snapshot);
      lines.add(new Batch.Line(line, stamp, snapshot.isFinal()));
      return line.length;
    } catch (Throwable t) {
      if (tracker.dropped("failure", Collections.singletonList(stamp)) == 1) {
        LOG.warn("Joinsight: could not write the document of execution {}", snapshot.executionId, t);
      }
      return 0;
    }
  }

  private void writeApplication(List<Batch.Line> lines) {
    SequenceTracker.SequenceNumber stamp = tracker.next(SequenceTracker.APPLICATION, applicationClosed);
    try {
      lines.add(new Batch.Line(documents.application(stamp, tracker), stamp, applicationClosed));
    } catch (Throwable t) {
      tracker.dropped("failure", Collections.singletonList(stamp));
      LOG.warn("Joinsight: could not write the document of the application", t);
    }
  }

  /** Delivers the lines, or spools them. */
  private void send(List<Batch.Line> lines) {
    if (lines.isEmpty()) return;
    try {
      if (!backoff.isActive() && !isLate() && delivery.deliver(Batch.of(lines)) == Delivery.Outcome.TAKEN) return;
      for (boolean isFinal : new boolean[] {true, false}) {
        List<Batch.Line> selected = new ArrayList<>();
        for (Batch.Line line : lines) {
          if (line.isFinal == isFinal) selected.add(line);
        }
        if (!selected.isEmpty()) spool.add(Batch.of(selected), isFinal);
      }
    } catch (Throwable t) { // such as no memory to pack them
      for (Batch.Line line : lines) tracker.dropped("failure", Collections.singletonList(line.stamp));
      throw t;
    }
  }

  /** Delivers the next batch of the spool; false if there is none or it was not delivered. */
  private boolean ship() {
    Batch batch = spool.next();
    if (batch == null) return false;
    Delivery.Outcome outcome = delivery.deliver(batch);
    if (outcome == Delivery.Outcome.TAKEN) spool.delivered();
    if (outcome == Delivery.Outcome.BLOCKED) spool.postpone();
    return outcome == Delivery.Outcome.TAKEN;
  }

  /** Delivers what it can before the deadline; true when there is nothing left to try. */
  private boolean finish() {
    while (spool.waiting(true) > 0 && !isLate() && ship()) {}
    spool.persist();
    if (spool.inMemory() > 0 && !isLate()) return false;
    int left = spool.waiting(true) - spool.inMemory();
    if (left > 0) {
      LOG.warn(
          "Joinsight: {} batches of documents are still in {}. {}", left, spool,
          SpoolLifetime.describe(spool.folder()));
    }
    if (spool.inMemory() > 0) LOG.warn("Joinsight: {} batches of documents are lost", spool.inMemory());
    return true;
  }
}
