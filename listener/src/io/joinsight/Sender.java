package io.joinsight;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.GZIPOutputStream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Turns snapshots into documents and brings them to the collector, from a thread of its own.
 *
 * <p>The listener's thread only ever calls {@link #offer}, which never waits. A document that waits is replaced by a
 * newer one of the same execution. What waits is bounded: beyond {@link #MAX_WAITING_BYTES} documents of running
 * executions go first, then the oldest; both are counted.
 */
final class Sender implements Documents.Delivery {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  private static final int MAX_QUEUED = 2000;
  private static final long MAX_WAITING_BYTES = 32L << 20;
  private static final int BATCH_BYTES = 4 << 20;
  private static final int LINGER_MS = 500;
  private static final int CONNECT_TIMEOUT_MS = 5_000;
  private static final int READ_TIMEOUT_MS = 30_000;
  private static final long FIRST_BACKOFF_MS = 500;
  private static final long MAX_BACKOFF_MS = 30_000;
  private static final long APPLICATION = -1;

  /** Wakes the thread so that it sees a new application state. */
  private static final Object WAKE = new Object();

  private static final class Waiting {
    final byte[] bytes;
    final boolean isFinal;

    Waiting(byte[] bytes, boolean isFinal) {
      this.bytes = bytes;
      this.isFinal = isFinal;
    }
  }

  private final Settings settings;
  private final Documents documents;
  private final LinkedBlockingQueue<Object> queue = new LinkedBlockingQueue<>(MAX_QUEUED);
  private final AtomicLong dropped = new AtomicLong();
  private final AtomicLong refused = new AtomicLong();
  private final Thread thread;
  private volatile long closeBy; // System.nanoTime() of the deadline; 0 while open

  // Of the sender's thread alone:
  private final Map<Long, Waiting> waiting = new LinkedHashMap<>(); // by execution id, oldest first
  private long waitingBytes;
  private long nextAttempt = System.nanoTime();
  private long backoffMs;
  private int batchLimit = BATCH_BYTES;
  private boolean everDelivered;
  private boolean complained;
  private boolean applicationClosed;

  Sender(Settings settings, Documents documents) {
    this.settings = settings;
    this.documents = documents;
    thread = new Thread(this::run, "joinsight-sender");
    thread.setDaemon(true);
  }

  void start() {
    thread.start();
  }

  /** Hands over a snapshot; never waits. */
  void offer(Snapshot snapshot) {
    if (!queue.offer(snapshot)) dropped.incrementAndGet();
  }

  /** Has the state of the application sent. */
  void applicationChanged() {
    queue.offer(WAKE);
  }

  /** Delivers what it can until the time-out, then gives up and says what was left. */
  void close(long timeoutMs) throws InterruptedException {
    closeBy = Math.max(1, System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(timeoutMs));
    queue.offer(WAKE);
    thread.join(Math.max(1, timeoutMs));
    if (thread.isAlive()) LOG.warn("Joinsight: the collector at {} did not take all documents in time", settings.url);
  }

  @Override
  public long dropped() {
    return dropped.get();
  }

  @Override
  public long refused() {
    return refused.get();
  }

  private void run() {
    try {
      while (step()) {}
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (Throwable t) {
      LOG.error("Joinsight: the sender stopped; this application is no longer reported", t);
    }
  }

  /** Takes in what came, delivers what is due; false when all is done. */
  private boolean step() throws Throwable {
    boolean closing = closeBy != 0;
    Object item = queue.poll(closing ? 0 : pauseMs(), TimeUnit.MILLISECONDS);
    if (item != null) {
      takeIn(item);
      return true;
    }
    if (closing && !applicationClosed) {
      applicationClosed = true;
      takeIn(WAKE);
    }
    long now = System.nanoTime();
    if (waiting.isEmpty()) return !closing;
    if (closing && now >= closeBy) {
      LOG.warn("Joinsight: {} documents were not delivered to {}", waiting.size(), settings.url);
      return false;
    }
    if (now - nextAttempt >= 0 || (closing && backoffMs == 0)) {
      boolean delivered = deliver();
      if (closing && !delivered && !everDelivered) closeBy = now; // this collector was never there
    } else if (closing) {
      Thread.sleep(Math.max(1, Math.min(pauseMs(), TimeUnit.NANOSECONDS.toMillis(closeBy - now))));
    }
    return true;
  }

  private long pauseMs() {
    if (waiting.isEmpty()) return 3_600_000;
    return Math.max(0, TimeUnit.NANOSECONDS.toMillis(nextAttempt - System.nanoTime()) + 1);
  }

  private void takeIn(Object item) throws Throwable {
    boolean nothingWaited = waiting.isEmpty();
    if (item instanceof Snapshot) {
      Snapshot snapshot = (Snapshot) item;
      try {
        put(snapshot.executionId, new Waiting(documents.execution(snapshot), snapshot.isFinal()));
      } catch (Exception | LinkageError e) {
        dropped.incrementAndGet();
        LOG.warn("Joinsight: execution {} could not be written as a document", snapshot.executionId, e);
      }
    } else {
      put(APPLICATION, new Waiting(documents.application(this), true));
    }
    if (nothingWaited && backoffMs == 0) nextAttempt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LINGER_MS);
    if (waitingBytes >= batchLimit && backoffMs == 0) nextAttempt = System.nanoTime();
  }

  private void put(long key, Waiting entry) {
    remove(key);
    waiting.put(key, entry);
    waitingBytes += entry.bytes.length;
    if (waitingBytes > MAX_WAITING_BYTES) evict(false);
    if (waitingBytes > MAX_WAITING_BYTES) evict(true);
  }

  private void evict(boolean finalOnes) {
    for (Iterator<Waiting> i = waiting.values().iterator(); i.hasNext() && waitingBytes > MAX_WAITING_BYTES; ) {
      Waiting entry = i.next();
      if (entry.isFinal && !finalOnes) continue;
      i.remove();
      waitingBytes -= entry.bytes.length;
      dropped.incrementAndGet();
    }
  }

  private void remove(long key) {
    Waiting old = waiting.remove(key);
    if (old != null) waitingBytes -= old.bytes.length;
  }

  /** Sends a batch of the oldest documents; true when the collector has taken or refused them for good. */
  private boolean deliver() {
    List<Long> keys = new ArrayList<>();
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(body)) {
      int size = 0;
      for (Map.Entry<Long, Waiting> entry : waiting.entrySet()) {
        size += entry.getValue().bytes.length;
        if (!keys.isEmpty() && size > batchLimit) break;
        keys.add(entry.getKey());
        gzip.write(entry.getValue().bytes);
      }
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    try {
      int status = post(body.toByteArray(), keys.size());
      if (status == 413 && keys.size() > 1) {
        batchLimit = Math.max(64 * 1024, batchLimit / 2);
        return deliver();
      }
      boolean over = status == 200 || status == 400 || status == 413;
      if (!over) return retryLater("it answered " + status);
      if (status == 413) refused.addAndGet(keys.size());
      for (long key : keys) remove(key);
      if (complained) LOG.info("Joinsight: the collector at {} takes documents again", settings.url);
      complained = false;
      everDelivered = true;
      backoffMs = 0;
      nextAttempt = System.nanoTime();
      return true;
    } catch (IOException e) {
      return retryLater(e.toString());
    }
  }

  private boolean retryLater(String reason) {
    backoffMs = Math.min(MAX_BACKOFF_MS, backoffMs == 0 ? FIRST_BACKOFF_MS : 2 * backoffMs);
    long jitter = ThreadLocalRandom.current().nextLong(backoffMs / 2 + 1);
    nextAttempt = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(backoffMs / 2 + jitter);
    if (!complained) {
      LOG.error(
          "Joinsight: the collector at {} does not take documents: {}. The job is not affected; trying again."
              + " Is {} right and the collector up (joinsight serve)?",
          settings.url, reason, Settings.URL);
      complained = true;
    }
    return false;
  }

  private int post(byte[] body, int count) throws IOException {
    HttpURLConnection http = (HttpURLConnection) new URL(settings.url + "/v1/documents").openConnection();
    http.setConnectTimeout(CONNECT_TIMEOUT_MS);
    http.setReadTimeout(READ_TIMEOUT_MS);
    http.setInstanceFollowRedirects(false);
    http.setRequestMethod("POST");
    http.setDoOutput(true);
    http.setFixedLengthStreamingMode(body.length);
    http.setRequestProperty("Content-Type", "application/x-ndjson");
    http.setRequestProperty("Content-Encoding", "gzip");
    if (settings.token != null) http.setRequestProperty("Authorization", "Bearer " + settings.token);
    try (OutputStream out = http.getOutputStream()) {
      out.write(body);
    }
    int status = http.getResponseCode();
    String reply = read(status < 400 ? http.getInputStream() : http.getErrorStream());
    if (status == 401) reply = "the token is wrong or missing (" + Settings.TOKEN_VARIABLE + ", " + Settings.TOKEN_FILE + ")";
    if (status == 400) {
      int lines = Math.max(1, Math.min(count, reply.split("\"line\":", -1).length - 1));
      refused.addAndGet(lines);
      LOG.warn("Joinsight: the collector refused {} of {} documents: {}", lines, count, reply);
    } else if (status != 200 && !complained) {
      LOG.warn("Joinsight: the collector answered {}: {}", status, reply);
    }
    return status;
  }

  private static String read(InputStream stream) throws IOException {
    if (stream == null) return "";
    try (InputStream in = stream) {
      byte[] buffer = new byte[4096];
      int length = 0;
      for (int n; length < buffer.length && (n = in.read(buffer, length, buffer.length - length)) > 0; ) length += n;
      return new String(buffer, 0, length, StandardCharsets.UTF_8);
    }
  }
}
