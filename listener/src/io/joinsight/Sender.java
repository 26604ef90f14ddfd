package io.joinsight;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.LongSupplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns snapshots into documents and brings them to the collector, from a thread of its own.
 *
 * <p>The listener's thread only ever calls {@link #offer}, which never waits. While the collector takes documents they
 * go straight there; from the first failure on they go to the {@link Spool}, and from there, when it takes them again.
 * A document is numbered when it is written: {@link Account} knows which numbers were dropped or refused.
 */
final class Sender {
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

  private final Settings settings;
  private final Documents documents;
  private final Mailbox mailbox;
  private final Spool spool;
  private final Transport transport;
  private final LongSupplier clock; // nanoseconds
  private final Thread thread;
  private volatile long closeBy; // by the clock; 0 while open

  // Of the sender's thread alone:
  private final Account account;
  private final long signOfLifeMs;
  private long nextSignOfLife;
  private long nextAttempt;
  private long backoffMs; // 0: the collector takes documents, as far as is known
  private boolean notLetThrough; // the last batch, by what answers in the collector's place
  private boolean applicationClosed;
  private int failures;

  Sender(Settings settings, Documents documents) {
    this(settings, documents, new Account(), new Http(settings), System::nanoTime);
  }

  private Sender(Settings settings, Documents documents, Account account, Transport transport, LongSupplier clock) {
    this(
        settings,
        documents,
        account,
        new Mailbox(settings.memoryLimit / 4),
        new Spool(settings.spool, settings.spoolLimit, settings.memoryLimit / 4, documents.listenerId, account),
        transport,
        clock);
  }

  Sender(
      Settings settings,
      Documents documents,
      Account account,
      Mailbox mailbox,
      Spool spool,
      Transport transport,
      LongSupplier clock) {
    this.settings = settings;
    this.documents = documents;
    this.account = account;
    this.mailbox = mailbox;
    this.spool = spool;
    this.transport = transport;
    this.clock = clock;
    signOfLifeMs = Math.max(MIN_SIGN_OF_LIFE_MS, settings.progressIntervalMs);
    nextSignOfLife = nextAttempt = clock.getAsLong();
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
    transport.abortIfStuck();
  }

  /** Delivers or spools all that is there, within the time-out. */
  void close(long timeoutMs) throws InterruptedException {
    long spoolMs = timeoutMs / TIME_TO_SPOOL;
    closeWithin(timeoutMs - spoolMs);
    thread.join(Math.max(1, timeoutMs - spoolMs));
    transport.abort();
    thread.join(Math.max(1, spoolMs));
    if (thread.isAlive()) LOG.warn("Joinsight: the last documents could be neither delivered nor spooled in time");
  }

  void closeWithin(long timeoutMs) {
    closeBy = Math.max(1, clock.getAsLong() + 1_000_000 * timeoutMs);
    mailbox.wake();
  }

  private void run() {
    open();
    while (failures < MAX_FAILURES) {
      try {
        if (closeBy == 0) {
          mailbox.await(pauseMs());
          mailbox.linger(LINGER_MS);
        }
        if (!step()) return;
        if (closeBy != 0 && applicationClosed) {
          Thread.sleep(Math.max(1, Math.min(pauseMs(), (closeBy - clock.getAsLong()) / 1_000_000)));
        }
      } catch (InterruptedException e) {
        return;
      } catch (Throwable t) {
        failed(t);
      }
    }
  }

  /** To be called before the first step. */
  void open() {
    try {
      spool.open();
    } catch (Throwable t) {
      failed(t);
    }
  }

  private void failed(Throwable t) {
    failures++;
    boolean last = failures == MAX_FAILURES;
    if (failures == 1 || last) {
      LOG.error("Joinsight: the sender failed{}; the job is not affected", last ? " too often and stops" : "", t);
    }
  }

  /** Takes in what came, delivers what is due, without a pause; false when all is done. */
  boolean step() {
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
    for (Snapshot.Name evicted : mailbox.takeEvicted()) {
      account.dropped("memory", Collections.singletonList(account.next(evicted.executionId, evicted.isFinal)));
    }
    if (due(nextSignOfLife) || (closing && !applicationClosed)) {
      nextSignOfLife = clock.getAsLong() + 1_000_000 * signOfLifeMs;
      applicationClosed = closing;
      writeApplication(lines);
    }
    send(lines);
    if (closing) return !finish();
    while (closeBy == 0 && spool.waiting(false) > 0 && due(nextAttempt) && ship() && mailbox.isEmpty()) {}
    return true;
  }

  private long write(List<Batch.Line> lines, Snapshot snapshot) {
    Account.Stamp stamp = account.next(snapshot.executionId, snapshot.isFinal());
    try {
      byte[] line = documents.execution(stamp, snapshot);
      lines.add(new Batch.Line(line, stamp, snapshot.isFinal()));
      return line.length;
    } catch (Throwable t) {
      if (account.dropped("failure", Collections.singletonList(stamp)) == 1) {
        LOG.warn("Joinsight: execution {} could not be written as a document", snapshot.executionId, t);
      }
      return 0;
    }
  }

  private void writeApplication(List<Batch.Line> lines) {
    Account.Stamp stamp = account.next(Account.APPLICATION, applicationClosed);
    try {
      lines.add(new Batch.Line(documents.application(stamp, account), stamp, applicationClosed));
    } catch (Throwable t) {
      account.dropped("failure", Collections.singletonList(stamp));
      LOG.warn("Joinsight: the application could not be written as a document", t);
    }
  }

  private void send(List<Batch.Line> lines) {
    if (lines.isEmpty()) return;
    try {
      if (backoffMs == 0 && deliver(Batch.of(lines))) return;
      for (boolean isFinal : new boolean[] {true, false}) {
        List<Batch.Line> some = new ArrayList<>();
        for (Batch.Line line : lines) if (line.isFinal == isFinal) some.add(line);
        if (!some.isEmpty()) spool.add(Batch.of(some), isFinal);
      }
    } catch (Throwable t) { // no memory to pack them, say
      for (Batch.Line line : lines) account.dropped("failure", Collections.singletonList(line.stamp));
      throw t;
    }
  }

  private boolean ship() {
    Batch batch = spool.next();
    if (batch == null) return false;
    if (deliver(batch)) {
      spool.delivered();
      return true;
    }
    if (notLetThrough) spool.postpone();
    return false;
  }

  /** Ships what it can before the deadline; true when there is nothing more to try. */
  private boolean finish() {
    while (spool.waiting(true) > 0 && !due(closeBy) && ship()) {}
    spool.persist();
    if (spool.inMemory() > 0 && !due(closeBy)) return false;
    int left = spool.waiting(true) - spool.inMemory();
    if (left > 0) {
      LOG.warn(
          "Joinsight: {} batches of documents wait in {}: the next driver on this machine delivers them, or"
              + " joinsight ship {}", left, spool, spool);
    }
    if (spool.inMemory() > 0) LOG.warn("Joinsight: {} batches of documents are lost", spool.inMemory());
    return true;
  }

  private boolean due(long time) {
    return clock.getAsLong() - time >= 0;
  }

  private long pauseMs() {
    long next = spool.waiting(false) > 0 && nextAttempt - nextSignOfLife < 0 ? nextAttempt : nextSignOfLife;
    return Math.max(0, (next - clock.getAsLong()) / 1_000_000 + 1);
  }

  /** True when the collector has taken the batch, or refused it for good; on anything else the batch is kept. */
  private boolean deliver(Batch batch) {
    notLetThrough = false;
    try {
      Reply reply = transport.post(batch.body);
      boolean tooLarge = reply.status == 413;
      if (tooLarge && batch.documents > 1) {
        for (Batch half : batch.halves()) if (!deliver(half)) return false;
        return true;
      }
      if (reply.isOfCollector() && (reply.status == 200 || reply.status == 400 || tooLarge)) {
        taken(batch, reply);
        if (backoffMs != 0) LOG.info("Joinsight: the collector at {} takes documents", settings.url);
        backoffMs = 0;
        nextAttempt = clock.getAsLong();
        return true;
      }
      notLetThrough = reply.status == 400 || reply.status == 403 || tooLarge;
      return retryLater(problem(reply), reply.retryAfterMs);
    } catch (Throwable t) {
      return retryLater(firstLine(t.toString()), 0);
    }
  }

  private static String problem(Reply reply) {
    String answer = reply.status + " " + firstLine(reply.text);
    if (reply.status == 401) return "it answered 401: the token is wrong or missing (" + Settings.TOKENS + ")";
    return (reply.status < 400 ? "what answers there is no Joinsight collector: " : "it answered ") + answer;
  }

  private void taken(Batch batch, Reply reply) throws IOException {
    Set<Integer> refused = reply.refusedLines();
    if (refused.isEmpty() && reply.status != 200) for (int line = 1; line <= batch.documents; line++) refused.add(line);
    account.arrived(batch.stamps(refused, false));
    if (refused.isEmpty()) return;
    account.refused(batch.stamps(refused, true));
    Batch bad = batch.only(refused);
    spool.setAside(bad);
    LOG.warn("Joinsight: the collector refused {} of {} documents: {}", bad.documents, batch.documents, firstLine(reply.text));
  }

  static String firstLine(String text) {
    String line = text.trim().split("\\R", 2)[0];
    return Visible.of(line.length() > 500 ? line.substring(0, 500) + "..." : line);
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
    nextAttempt = clock.getAsLong() + 1_000_000 * pauseMs;
    return false;
  }
}
