package io.joinsight;

import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns snapshots into documents and brings them to the collector, from a thread of its own.
 *
 * <p>The listener's thread only ever calls {@link #offer}, which never waits. While the collector takes documents they
 * go straight there; from the first failure on they go to the {@link Spool}, and from there, when it takes them again.
 * A document is numbered when it is written: each number is delivered, dropped or refused, or lost with the driver.
 */
final class Sender implements Documents.Delivery {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  private static final int BATCH_BYTES = 4 << 20;
  private static final int LINGER_MS = 500;
  private static final long FIRST_BACKOFF_MS = 500;
  private static final long MAX_BACKOFF_MS = 30_000;
  private static final long MAX_RETRY_AFTER_MS = 300_000;
  private static final long MIN_SIGN_OF_LIFE_MS = 30_000;
  private static final int MAX_FAILURES = 10;

  /** Of the time that the application's end may wait, this part is left to spool what was not delivered. */
  private static final int TIME_TO_SPOOL = 5;

  private static final long APPLICATION = -1; // an execution id of none

  private final Settings settings;
  private final Documents documents;
  private final Mailbox mailbox;
  private final Spool spool;
  private final Http http;
  private final AtomicLong refused = new AtomicLong();
  private final Thread thread;
  private volatile long closeBy; // System.nanoTime() of the deadline; 0 while open

  // Of the sender's thread alone:
  private final long signOfLifeMs;
  private long nextSignOfLife = System.nanoTime();
  private long nextAttempt = System.nanoTime();
  private long backoffMs; // 0: the collector takes documents, as far as is known
  private boolean applicationClosed;
  private long superseding; // documents that the application's document will supersede when it is spooled, with its batch
  private int failures;

  Sender(Settings settings, Documents documents) {
    this.settings = settings;
    this.documents = documents;
    mailbox = new Mailbox(settings.memoryLimit / 4);
    spool = new Spool(settings.spool, settings.spoolLimit, settings.memoryLimit / 4, documents.listenerId);
    http = new Http(settings);
    signOfLifeMs = Math.max(MIN_SIGN_OF_LIFE_MS, settings.progressIntervalMs);
    thread = new Thread(this::run, "joinsight-sender");
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Hands over a snapshot; never waits. */
  void offer(Snapshot snapshot) {
    mailbox.put(snapshot);
  }

  /** To be called now and then from another thread. */
  void watch() {
    http.abortIfStuck();
  }

  /** Delivers or spools all that is there, within the time-out. */
  void close(long timeoutMs) throws InterruptedException {
    long spoolMs = timeoutMs / TIME_TO_SPOOL;
    closeBy = Math.max(1, System.nanoTime() + 1_000_000 * (timeoutMs - spoolMs));
    mailbox.wake();
    thread.join(Math.max(1, timeoutMs - spoolMs));
    http.abort();
    thread.join(Math.max(1, spoolMs));
    if (thread.isAlive()) LOG.warn("Joinsight: the last documents could be neither delivered nor spooled in time");
  }

  @Override
  public Map<String, Long> dropped() {
    Map<String, Long> dropped = spool.dropped();
    if (mailbox.dropped() > 0) dropped.merge("memory", mailbox.dropped(), Long::sum);
    if (superseding > 0) dropped.merge("superseded", superseding, Long::sum);
    return dropped;
  }

  @Override
  public long refused() {
    return refused.get();
  }

  private void run() {
    try {
      spool.open();
    } catch (Throwable t) {
      failed(t);
    }
    while (failures < MAX_FAILURES) {
      try {
        if (!step()) return;
      } catch (InterruptedException e) {
        return;
      } catch (Throwable t) {
        failed(t);
      }
    }
  }

  private void failed(Throwable t) {
    failures++;
    boolean last = failures == MAX_FAILURES;
    if (failures == 1 || last) {
      LOG.error("Joinsight: the sender failed{}; the job is not affected", last ? " too often and stops" : "", t);
    }
  }

  /** Takes in what came, delivers what is due; false when all is done. */
  private boolean step() throws Throwable {
    if (closeBy == 0) {
      mailbox.await(pauseMs());
      mailbox.linger(LINGER_MS);
    }
    boolean closing = closeBy != 0;
    List<Batch.Line> lines = new ArrayList<>();
    long bytes = 0;
    for (Snapshot snapshot : mailbox.take()) {
      bytes += write(lines, snapshot);
      if (bytes < BATCH_BYTES) continue;
      send(lines);
      lines.clear();
      bytes = 0;
    }
    if (due(nextSignOfLife) || (closing && !applicationClosed)) {
      nextSignOfLife = System.nanoTime() + 1_000_000 * signOfLifeMs;
      applicationClosed = closing;
      superseding = backoffMs == 0 ? 0 : spool.supersededBy(executions(lines, APPLICATION));
      lines.add(new Batch.Line(documents.application(this), APPLICATION, closing));
      superseding = 0;
    }
    send(lines);
    if (closing) return !finish();
    while (closeBy == 0 && spool.waiting(false) > 0 && due(nextAttempt) && ship() && mailbox.isEmpty()) {}
    return true;
  }

  private static Set<Long> executions(List<Batch.Line> lines, long oneMore) {
    Set<Long> executions = new HashSet<>();
    executions.add(oneMore);
    for (Batch.Line line : lines) executions.add(line.executionId);
    return executions;
  }

  private long write(List<Batch.Line> lines, Snapshot snapshot) {
    try {
      byte[] line = documents.execution(snapshot);
      lines.add(new Batch.Line(line, snapshot.executionId, snapshot.isFinal()));
      return line.length;
    } catch (Throwable t) {
      if (spool.drop("failure", 1) == 1) {
        LOG.warn("Joinsight: execution {} could not be written as a document", snapshot.executionId, t);
      }
      return 0;
    }
  }

  private void send(List<Batch.Line> lines) {
    if (lines.isEmpty()) return;
    if (backoffMs == 0 && deliver(Batch.of(lines))) return;
    for (boolean isFinal : new boolean[] {true, false}) {
      List<Batch.Line> some = new ArrayList<>();
      for (Batch.Line line : lines) if (line.isFinal == isFinal) some.add(line);
      if (!some.isEmpty()) spool.add(Batch.of(some), isFinal);
    }
  }

  private boolean ship() {
    Batch batch = spool.next();
    if (batch == null || !deliver(batch)) return false;
    spool.delivered();
    return true;
  }

  /** Ships what it can before the deadline; true when there is nothing more to try. */
  private boolean finish() throws InterruptedException {
    while (spool.waiting(true) > 0 && !due(closeBy) && ship()) {}
    spool.persist();
    if (spool.inMemory() == 0 || due(closeBy)) {
      int left = spool.waiting(true) - spool.inMemory();
      if (left > 0) {
        LOG.warn(
            "Joinsight: {} batches of documents wait in {}: the next driver on this machine delivers them, or"
                + " joinsight ship {}", left, spool, spool);
      }
      if (spool.inMemory() > 0) LOG.warn("Joinsight: {} batches of documents are lost", spool.inMemory());
      return true;
    }
    Thread.sleep(Math.max(1, Math.min(pauseMs(), (closeBy - System.nanoTime()) / 1_000_000)));
    return false;
  }

  private static boolean due(long nanoTime) {
    return System.nanoTime() - nanoTime >= 0;
  }

  private long pauseMs() {
    long next = spool.waiting(false) > 0 && nextAttempt - nextSignOfLife < 0 ? nextAttempt : nextSignOfLife;
    return Math.max(0, (next - System.nanoTime()) / 1_000_000 + 1);
  }

  /** True when the collector has taken the batch, or refused it for good. */
  private boolean deliver(Batch batch) {
    try {
      Http.Reply reply = http.post(batch.body);
      if (reply.status == 413 && batch.documents > 1) {
        for (Batch half : batch.halves()) if (!deliver(half)) return false;
        return true;
      }
      if (reply.status == 400 || reply.status == 413) {
        refused(batch, reply);
      } else if (reply.status == 401 || reply.status == 403) {
        return retryLater("it answered " + reply.status + ": the token is wrong or missing (" + Settings.TOKENS + ")", 0);
      } else if (reply.status != 200) {
        return retryLater("it answered " + reply.status + " " + firstLine(reply.text), reply.retryAfterMs);
      } else if (!reply.text.contains("\"accepted\"")) {
        return retryLater("what answers there is no Joinsight collector: " + firstLine(reply.text), 0);
      }
      if (backoffMs != 0) LOG.info("Joinsight: the collector at {} takes documents", settings.url);
      backoffMs = 0;
      nextAttempt = System.nanoTime();
      return true;
    } catch (IOException e) {
      return retryLater(e.toString(), 0);
    }
  }

  private void refused(Batch batch, Http.Reply reply) throws IOException {
    Batch bad = batch.only(reply.refusedLines());
    refused.addAndGet(bad.documents);
    spool.setAside(bad);
    LOG.warn("Joinsight: the collector refused {} of {} documents: {}", bad.documents, batch.documents, firstLine(reply.text));
  }

  private static String firstLine(String text) {
    String line = text.trim().split("\\R", 2)[0].replaceAll("\\p{Cntrl}", " ");
    return line.length() > 500 ? line.substring(0, 500) + "..." : line;
  }

  private boolean retryLater(String reason, long retryAfterMs) {
    if (backoffMs == 0) {
      LOG.error(
          "Joinsight: the collector at {} does not take documents: {}. The job is not affected; documents wait in {}"
              + " until it does. Is {} right and the collector up (joinsight serve)?",
          settings.url, reason, spool, Settings.URL);
    }
    backoffMs = Math.min(MAX_BACKOFF_MS, backoffMs == 0 ? FIRST_BACKOFF_MS : 2 * backoffMs);
    long jitter = ThreadLocalRandom.current().nextLong(backoffMs / 2 + 1);
    long pauseMs = Math.max(backoffMs / 2 + jitter, Math.min(retryAfterMs, MAX_RETRY_AFTER_MS));
    nextAttempt = System.nanoTime() + 1_000_000 * pauseMs;
    return false;
  }
}
