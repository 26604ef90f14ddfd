package io.joinsight.delivery;

import static io.joinsight.Check.check;

import io.joinsight.capture.Application;
import io.joinsight.capture.Documents;
import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Snapshot;
import io.joinsight.capture.Snapshots;
import io.joinsight.sampling.FailureLimit;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.apache.spark.SparkConf;
import org.slf4j.LoggerFactory;

/** What the sender does when its requests hang, when it fails itself, and when its queue overflows for long. */
public final class SenderTest {
  private static final long DEADLINE_MS = 600_000;
  private static Path folder;

  public static void main(String[] arguments) throws Exception {
    folder = Paths.get(arguments[0]);
    hangingNameServer();
    manyFailures();
    manyEvictions();
    System.out.println("ok");
  }

  /** At the end, documents are spooled though the thread of the request waits for the collector's address for ever. */
  private static void hangingNameServer() throws Exception {
    Path hosts = folder.resolve("hosts");
    Process hostname = new ProcessBuilder("hostname").start();
    String name = new BufferedReader(new InputStreamReader(hostname.getInputStream())).readLine();
    Files.write(hosts, ("127.0.0.1 " + name + "\n").getBytes()); // Spark and log4j look up this machine's name
    System.setProperty("jdk.net.hosts.file", hosts.toString());
    SparkConf conf = new SparkConf(false)
                         .set("spark.joinsight.url", "http://collector.example:9595")
                         .set("spark.joinsight.spool", folder.resolve("spool").toString());
    Settings settings = new Settings(conf);
    LoggerFactory.getLogger("io.joinsight").debug("");
    Files.delete(hosts); // then it is a pipe into which nobody writes: each lookup waits
    check(new ProcessBuilder("mkfifo", hosts.toString()).start().waitFor() == 0, "mkfifo");
    Sender sender = new Sender(settings, documents(settings));
    sender.start();
    sender.offer(ended(settings, 1));
    until(() -> isRunning("joinsight-request"), "a request");
    sender.close(1_000);
    until(() -> spooled(settings.spool.toFile()) >= 1, "the document of the execution is spooled");
    check(isRunning("joinsight-request"), "the request has ended, so nothing was tested");
  }

  private static boolean isRunning(String thread) {
    return Thread.getAllStackTraces().keySet().stream().anyMatch(each -> each.getName().equals(thread));
  }

  private static int spooled(File spool) {
    String[] names = spool.list((at, name) -> name.startsWith("final-") && name.endsWith(".gz"));
    return names == null ? 0 : names.length;
  }

  /** After more failures than any limit it takes the next snapshots, and says what the failures cost. */
  private static void manyFailures() {
    Settings settings = new Settings(new SparkConf(false).set("spark.joinsight.url", "http://collector:1"));
    AtomicInteger failures = new AtomicInteger();
    AtomicInteger delivered = new AtomicInteger();
    int limit = 3 * FailureLimit.MAX;
    SequenceTracker tracker = new SequenceTracker() {
      @Override
      public SequenceTracker.SequenceNumber next(long executionId, boolean isFinal) {
        if (failures.get() < limit) {
          failures.incrementAndGet();
          throw new IllegalStateException("injected");
        }
        return super.next(executionId, isFinal);
      }
    };
    SnapshotQueue queue =
        new SnapshotQueue(ended(settings, 1).heapBytes * 3 / 2); // one snapshot ends the pause after a failure
    Spool spool = new Spool(null, 1 << 20, 1 << 20, "me", tracker);
    Transport transport = new Transport() {
      @Override
      public Reply post(byte[] body) {
        delivered.incrementAndGet();
        return new Reply(200, "{\"accepted\": 1, \"refused\": []}".getBytes(), 0);
      }

      @Override
      public void abort() {}
    };
    Sender sender = new Sender(settings, documents(settings), tracker, queue, spool, transport, System::nanoTime);
    sender.start();
    until(() -> {
      if (queue.isEmpty()) sender.offer(ended(settings, 1));
      return delivered.get() > 0;
    }, "a delivery after " + limit + " failures");
    check(failures.get() == limit, failures + " failures");
  }

  /** Snapshots that do not fit are counted, in little memory. */
  private static void manyEvictions() {
    Settings settings = new Settings(new SparkConf(false).set("spark.joinsight.url", "http://collector:1"));
    SnapshotQueue queue = new SnapshotQueue(1);
    int many = 1_000_000;
    for (int id = 0; id < many; id++) queue.put(ended(settings, id));
    check(queue.isEmpty() && queue.takeEvicted(false).isEmpty(), "one is left");
    check(queue.takeEvicted(true).size() == many && queue.takeEvicted(true).isEmpty(), "they are not counted once");
  }

  private static Documents documents(Settings settings) {
    Application application = new Application(settings.application, true);
    application.id = "application";
    application.name = "sender";
    return new Documents(application);
  }

  private static Snapshot ended(Settings settings, int id) {
    return Snapshots.of(id, settings.application, true);
  }

  private static void until(BooleanSupplier condition, String what) {
    long end = System.currentTimeMillis() + DEADLINE_MS;
    while (!condition.getAsBoolean()) {
      check(System.currentTimeMillis() < end, "not in time: " + what);
      try {
        Thread.sleep(5);
      } catch (InterruptedException e) {
        throw new AssertionError(e);
      }
    }
  }
}
