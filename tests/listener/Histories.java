package io.joinsight.delivery;

import io.joinsight.capture.Application;
import io.joinsight.capture.ApplicationSettings;
import io.joinsight.capture.Documents;
import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Snapshots;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.zip.GZIPInputStream;
import org.apache.spark.SparkConf;

/**
 * Plays random histories of drivers, each with a real sender and spool in a folder that they share, before a network and
 * a collector that do anything: answers get lost, proxies and refusals come between, drivers are killed, files vanish.
 * Time is a number.
 *
 * <p>Prints what happened, a JSON object a line: {@code made} (a listener gave a number to an execution's document),
 * {@code request} (what a collector took in: its lines, and the numbers of those that it refused), {@code refused as a
 * whole}, {@code end}.
 * Arguments: an empty folder, the first seed, how many histories.
 */
public final class Histories {
  private static final int EXECUTIONS = 4;
  private static final PrintStream OUT = new PrintStream(System.out, false);

  private final Random dice;
  private final Path folder;
  private final List<Driver> drivers = new ArrayList<>();
  private final int trouble; // in percent of requests
  private long now = 1;
  private int driversSoFar;

  private Histories(long seed, Path folder) {
    dice = new Random(seed);
    this.folder = folder;
    trouble = dice.nextInt(100);
  }

  public static void main(String[] a) throws Exception {
    long first = Long.parseLong(a[1]);
    for (long seed = first; seed < first + Long.parseLong(a[2]); seed++) {
      Path folder = Paths.get(a[0]).resolve("history-" + seed);
      new Histories(seed, folder).play();
      OUT.println("{\"what\": \"end\", \"seed\": " + seed + "}");
      if (new File(folder.toString()).exists()) remove(folder.toFile());
    }
    OUT.flush();
  }

  private static void remove(File file) {
    File[] below = file.listFiles();
    if (below != null)
      for (File each : below) remove(each);
    file.delete();
  }

  private void play() throws Exception {
    drivers.add(new Driver());
    for (int steps = 10 + dice.nextInt(60); steps > 0; steps--) {
      now += 1_000_000L * dice.nextInt(dice.nextInt(10) == 0 ? 60_000 : 1_000);
      int what = dice.nextInt(100);
      if (what < 5 && drivers.size() < 3) {
        drivers.add(new Driver());
      } else if (drivers.isEmpty()) {
        drivers.add(new Driver());
      } else {
        Driver driver = drivers.get(dice.nextInt(drivers.size()));
        if (what < 55) {
          driver.offer();
        } else if (what < 88) {
          driver.sender.step();
        } else if (what < 91) {
          driver.close();
          drivers.remove(driver);
        } else if (what < 94) {
          drivers.remove(driver); // killed
        } else if (what < 97) {
          delete();
        } else {
          ship();
        }
      }
    }
    for (Driver driver : drivers)
      if (dice.nextInt(3) > 0) driver.close();
    if (dice.nextBoolean()) new Driver().close();
  }

  private final class Driver {
    final Settings settings;
    final Sender sender;
    final SnapshotQueue queue;
    final long[] started = new long[EXECUTIONS];
    final String listener;
    final Application application;
    long executions;

    Driver() throws Exception {
      SparkConf conf = new SparkConf(false).set("spark.joinsight.url", "http://collector:1");
      settings = new Settings(conf);
      application = new Application(settings.application, true);
      application.id = "driver-" + driversSoFar++;
      application.name = "history";
      Documents documents = new Documents(application);
      listener = documents.listenerId;
      SequenceTracker tracker = new SequenceTracker() {
        @Override
        public SequenceNumber next(long executionId, boolean isFinal) {
          SequenceNumber stamp = super.next(executionId, isFinal);
          OUT.println(
              "{\"what\": \"made\", \"listener\": \"" + listener + "\", \"number\": " + stamp.number
              + ", \"execution\": " + executionId + "}");
          return stamp;
        }
      };
      queue = new SnapshotQueue(dice.nextInt(3) == 0 ? 3_000 : 1 << 20);
      long folderLimit = dice.nextInt(3) == 0 ? 3_000 : 1 << 20;
      long memoryLimit = dice.nextInt(3) == 0 ? 1_000 : 1 << 20;
      Path place = dice.nextInt(5) == 0 ? null : folder;
      Spool spool = new Spool(place, folderLimit, memoryLimit, listener, tracker);
      sender = new Sender(settings, documents, tracker, queue, spool, new Network(), () -> now);
      sender.open();
    }

    void offer() {
      int id = dice.nextInt(EXECUTIONS);
      ApplicationSettings given = dice.nextInt(30) == 0 ? null : settings.application; // null: it cannot be written
      sender.offer(Snapshots.of(id, given, dice.nextInt(3) == 0)); // now and then it ends twice, or runs again
    }

    void close() {
      application.endedAt = 1_700_000_000_002L;
      sender.closeWithin(dice.nextInt(5_000));
      while (sender.step()) now += 1_000_000L * (1 + dice.nextInt(2_000));
    }
  }

  /** The network, what stands in it, and a collector. */
  private final class Network implements Transport {
    @Override
    public Reply post(byte[] body) throws IOException {
      if (dice.nextInt(100) >= trouble) return taken(body, false);
      switch (dice.nextInt(10)) {
        case 0:
          throw new IOException("it is down");
        case 1:
          throw new StackOverflowError();
        case 2:
          taken(body, false);
          throw new IOException("the answer is lost");
        case 3:
          taken(body, true);
          throw new IOException("the answer is lost");
        case 4:
          return reply(503, "{\"error\": \"the database is not there\"}", 1000L * dice.nextInt(100));
        case 5:
          return reply(400, "<html>Bad Request</html>", 0);
        case 6:
          return reply(413, "<html>Request Entity Too Large</html>", 0);
        case 7:
          say("refused as a whole", lines(body), "");
          return reply(400, "{\"accepted\": 0, \"refused\": [], \"error\": \"it is not gzip\"}", 0);
        case 8:
          return reply(200, "<html>Please log in</html>", 0);
        default:
          return taken(body, true);
      }
    }

    @Override
    public void abort() {}
  }

  private Reply taken(byte[] body, boolean refuses) throws IOException {
    List<String> lines = lines(body);
    List<String> refused = new ArrayList<>();
    List<String> told = new ArrayList<>();
    for (int i = 1; i <= lines.size(); i++) {
      if (!refuses || dice.nextInt(3) > 0) continue;
      refused.add(Integer.toString(i));
      told.add("{\"line\": " + i + ", \"reason\": \"bad\"}");
    }
    say("request", lines, String.join(", ", refused));
    String answer =
        "{\"accepted\": " + (lines.size() - told.size()) + ", \"refused\": [" + String.join(", ", told) + "]}";
    return reply(told.isEmpty() ? 200 : 400, answer, 0);
  }

  private static Reply reply(int status, String text, long retryAfterMs) {
    return new Reply(status, text.getBytes(StandardCharsets.UTF_8), retryAfterMs);
  }

  private static List<String> lines(byte[] body) throws IOException {
    List<String> lines = new ArrayList<>();
    try (
        BufferedReader reader = new BufferedReader(
            new InputStreamReader(new GZIPInputStream(new ByteArrayInputStream(body)), StandardCharsets.UTF_8))) {
      for (String line; (line = reader.readLine()) != null;) lines.add(line);
    }
    return lines;
  }

  private static void say(String what, List<String> lines, String refused) {
    OUT.println(
        "{\"what\": \"" + what + "\", \"lines\": [" + String.join(", ", lines) + "], \"refused\": [" + refused + "]}");
  }

  /** Somebody removes a file of the spool. */
  private void delete() throws IOException {
    File[] files = folder.toFile().listFiles();
    if (files != null && files.length > 0) Files.delete(files[dice.nextInt(files.length)].toPath());
  }

  /** Somebody delivers a file of the spool by hand. */
  private void ship() throws IOException {
    File[] files = folder.toFile().listFiles((at, name) -> name.endsWith(".gz"));
    if (files == null || files.length == 0) return;
    Path path = files[dice.nextInt(files.length)].toPath();
    taken(Files.readAllBytes(path), dice.nextInt(5) == 0);
    Files.delete(path);
  }
}
