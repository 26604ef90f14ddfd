package io.joinsight.delivery;

import static io.joinsight.Check.check;

import io.joinsight.capture.SequenceTracker;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.zip.GZIPOutputStream;

/** What goes into a spool comes out again, in order and within its bounds. */
public final class SpoolTest {
  private static final long ROOM = 1 << 20;
  private static Path folder;
  private static SequenceTracker tracker;
  private static int documents;

  public static void main(String[] arguments) throws Exception {
    Path base = Paths.get(arguments[0]);
    for (Test test : new Test[] {
             SpoolTest::order,
             SpoolTest::takenOver,
             SpoolTest::bounded,
             SpoolTest::boundedInMemory,
             SpoolTest::superseded,
             SpoolTest::damaged,
             SpoolTest::vanished,
             SpoolTest::notWritable,
             SpoolTest::setAside,
             SpoolTest::halves,
             SpoolTest::halfWritten,
             SpoolTest::permissions,
             SpoolTest::notTrusted,
             SpoolTest::notOurs,
             SpoolTest::replaced,
             SpoolTest::bomb,
             SpoolTest::postponed,
             SpoolTest::fullDisk,
         }) {
      folder = base.resolve("spool-" + documents++);
      tracker = new SequenceTracker();
      test.run();
    }
    System.out.println("ok");
  }

  private interface Test {
    void run() throws Exception;
  }

  private static void order() throws IOException {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    Batch a = batch(true, 1, 2);
    Batch b = batch(false, 3);
    spool.add(a, true);
    spool.add(b, false);
    check(
        PosixFilePermissions.toString(Files.getPosixFilePermissions(folder)).equals("rwx------"), "others may read it");
    check(
        names().stream().allMatch(name -> name.matches("(final|running)-\\d{13}-me-\\d+\\.ndjson\\.gz")),
        names().toString());
    check(same(spool.next(), a) && same(spool.next(), a), "not the oldest, or not twice");
    spool.delivered();
    check(same(spool.next(), b), "not the second");
    spool.delivered();
    check(spool.next() == null && names().isEmpty() && spool.waiting(false) == 0, "not empty");
    check(tracker.dropped().isEmpty(), "drops");
  }

  private static void takenOver() {
    Spool first = new Spool(folder, ROOM, ROOM, "one", tracker);
    first.open();
    Batch a = batch(true, 1);
    Batch b = batch(false, 2);
    first.add(b, false);
    first.add(a, true);
    Spool second = new Spool(folder, ROOM, ROOM, "two", tracker);
    second.open();
    check(second.waiting(false) == 2 && second.waiting(true) == 0, "nothing was taken over");
    Batch own = batch(true, 2);
    second.add(own, true);
    check(second.waiting(false) == 3, "another driver's documents were superseded: its execution 2 is another");
    check(same(second.next(), own), "its own come first");
    second.delivered();
    check(same(second.next(), b), "then the oldest");
    second.delivered();
    check(same(second.next(), a), "then the other");
  }

  private static void halfWritten() throws IOException {
    makeFolder(folder, "rwx------");
    Path old = folder.resolve("final-1700000000000-one-1.ndjson.gz.refused.tmp");
    Path recent = folder.resolve("final-1700000000000-one-2.ndjson.gz.tmp");
    Path foreign = folder.resolve("notes.tmp");
    for (Path path : new Path[] {old, recent, foreign}) {
      Files.write(path, new byte[] {1});
      if (path != recent) Files.setLastModifiedTime(path, FileTime.fromMillis(System.currentTimeMillis() - 7_200_000));
    }
    new Spool(folder, ROOM, ROOM, "two", tracker).open();
    check(!Files.exists(old), "what a killed driver was writing is there for ever");
    check(Files.exists(recent), "another driver may be writing it");
    check(Files.exists(foreign), "it is not ours");
  }

  private static void bounded() {
    Spool spool = new Spool(folder, 10_000, ROOM, "me", tracker);
    List<Batch> finals = new ArrayList<>();
    for (int i = 0; i < 4; i++) spool.add(large(100 + i), false);
    for (int i = 0; i < 4; i++) {
      finals.add(large(i));
      spool.add(finals.get(i), true);
    }
    check(
        names().size() == 4 && names().stream().allMatch(name -> name.startsWith("final-")),
        "running ones go first: " + names());
    spool.add(large(9), true);
    check(dropped().equals("{spool={1=5}}"), dropped());
    check(same(spool.next(), finals.get(1)), "the oldest goes first");
  }

  private static void boundedInMemory() {
    Spool spool = new Spool(null, ROOM, 10_000, "me", tracker);
    for (int i = 0; i < 7; i++) spool.add(large(i), i % 2 == 0);
    check(spool.inMemory() == 4, spool.inMemory() + " in memory");
    check(dropped().equals("{memory={2=2, 4=4, 6=6}}"), dropped());
  }

  private static void superseded() {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.add(batch(false, 1, 2), false);
    spool.add(batch(false, 2, 3), false);
    check(names().size() == 2, "execution 1 has nothing newer");
    spool.add(batch(true, 1), true);
    check(names().size() == 2, "nothing of the first is needed: " + names());
    spool.add(batch(false, 3), false);
    check(names().size() == 3, "execution 2 has nothing newer");
    check(tracker.dropped().isEmpty(), "what was superseded is not lost: " + dropped());
  }

  private static void damaged() throws IOException {
    makeFolder(folder, "rwx------");
    Files.write(folder.resolve("final-1000000000000-he-1.ndjson.gz"), new byte[] {1, 2, 3});
    Files.write(folder.resolve("final-1000000000001-he-2.ndjson.gz.tmp"), new byte[] {1, 2, 3});
    Files.write(folder.resolve("notes.txt"), new byte[] {1, 2, 3});
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.open();
    Batch good = batch(true, 1);
    spool.add(good, true);
    check(same(spool.next(), good), "the good one");
    spool.delivered();
    check(spool.next() == null && spool.waiting(false) == 0, "the damaged one still waits");
    check(names().contains("final-1000000000000-he-1.ndjson.gz.refused") && names().size() == 3, names().toString());
  }

  private static void vanished() throws IOException {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.add(batch(true, 1), true);
    Batch second = batch(true, 2);
    spool.add(second, true);
    Files.delete(folder.resolve(names().get(0)));
    check(same(spool.next(), second), "the one that is left");
    Files.delete(folder.resolve(names().get(0)));
    spool.delivered();
    check(spool.next() == null, "nothing is left");
  }

  private static void notWritable() throws IOException {
    Files.write(folder, new byte[0]); // a file where the folder should be
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    Batch a = batch(true, 1);
    spool.add(a, true);
    check(spool.inMemory() == 1 && same(spool.next(), a), "it is not held in memory");
    Files.delete(folder);
    Batch b = batch(true, 2);
    spool.add(b, true);
    check(spool.inMemory() == 0 && names().size() == 2, "it is not written when it can be: " + spool.inMemory());
    check(same(spool.next(), a), "the order changed");
  }

  private static void setAside() {
    Spool spool = new Spool(folder, 6_000, ROOM, "me", tracker);
    spool.setAside(large(1));
    check(names().size() == 1 && names().get(0).endsWith(".ndjson.gz.refused"), names().toString());
    check(spool.next() == null && spool.waiting(false) == 0, "a refused one is not sent again");
    spool.add(large(2), false);
    spool.add(large(3), true);
    check(
        names().stream().noneMatch(name -> name.endsWith(".refused")) && names().size() == 2, "refused ones go first");
    check(tracker.dropped().isEmpty(), "a refused one is no dropped one: " + dropped());
    new Spool(null, ROOM, ROOM, "me", tracker).setAside(large(1));
  }

  private static void halves() throws IOException {
    Batch batch = batch(true, 1, 2, 3);
    List<Batch> halves = batch.halves();
    check(halves.get(0).documents == 1 && halves.get(1).documents == 2, "halves");
    check(same(batch.only(Collections.singleton(1)), halves.get(0)), "only the first");
    check(batch.only(new HashSet<>(Arrays.asList(1, 2, 3))) == batch, "all");
    check(halves.get(1).stamps.equals(batch.stamps.subList(1, 3)), "stamps");
    check(batch.stamps(Collections.singleton(2), false).size() == 2, "stamps of the others");
    check(Batch.ofBody(batch.body, batch.stamps).documents == 3, "documents of a body");
  }

  /** A folder that others may use, that is another's or no folder at all is not used; the reason is in the log. */
  private static void notTrusted() throws IOException {
    Path elsewhere = folder.resolveSibling(folder.getFileName() + "-elsewhere");
    makeFolder(elsewhere, "rwx------");
    Files.createSymbolicLink(folder, elsewhere);
    checkHeldInMemory("a link to a folder");
    check(list(elsewhere).isEmpty(), "written through a link: " + list(elsewhere));
    Files.delete(folder);
    for (String mode : new String[] {"rwxr-x---", "rwx-wx-wx", "rwxrwxrwx"}) {
      makeFolder(folder, mode);
      checkHeldInMemory(mode);
      Files.delete(folder);
    }
    if (!System.getProperty("user.name").equals("root")) return; // who else could make folders of others?
    makeFolder(folder, "rwx------");
    Files.setAttribute(folder, "unix:uid", 65534);
    checkHeldInMemory("another's");
    Files.setAttribute(folder, "unix:uid", 0);
    folder = folder.resolve("below");
    makeFolder(folder, "rwx------");
    Files.setAttribute(folder.getParent(), "unix:uid", 65534);
    checkHeldInMemory("below another's");
  }

  private static void checkHeldInMemory(String what) {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.open();
    spool.add(batch(true, 1), true);
    check(spool.inMemory() == 1 && names().isEmpty(), what + " is used: " + names());
  }

  /** Whatever else is in the folder is neither sent nor counted nor removed, and nothing of it is opened. */
  private static void notOurs() throws Exception {
    makeFolder(folder, "rwx------");
    byte[] good = batch(true, 1).body;
    Path linked = folder.resolveSibling(folder.getFileName() + "-linked");
    Files.write(linked, good);
    Files.createSymbolicLink(folder.resolve("final-1-he-1.ndjson.gz"), linked);
    Files.createSymbolicLink(folder.resolve("final-2-he-1.ndjson.gz"), Paths.get("/dev/zero"));
    check(
        new ProcessBuilder("mkfifo", folder.resolve("final-3-he-1.ndjson.gz").toString()).start().waitFor() == 0,
        "mkfifo");
    Files.createDirectory(folder.resolve("final-4-he-1.ndjson.gz"));
    Files.write(folder.resolve("final-5-h e-1.ndjson.gz"), good);
    Files.write(folder.resolve("final-x-he-1.ndjson.gz"), good);
    Files.write(folder.resolve("notes.ndjson.gz.refused"), good);
    if (System.getProperty("user.name").equals("root")) {
      Path another = folder.resolve("final-6-he-1.ndjson.gz");
      Files.write(another, good);
      Files.setAttribute(another, "unix:uid", 65534);
    }
    List<String> before = names();
    Spool spool = new Spool(folder, 100, ROOM, "me", tracker);
    spool.open();
    check(spool.waiting(false) == 0 && spool.next() == null, "it waits to be sent");
    Batch own = large(7);
    spool.add(own, true);
    check(names().equals(before), "the limit removes what is not ours, or keeps what is: " + names());
  }

  /** A file that was replaced since it was listed is checked again when it is read. */
  private static void replaced() throws IOException {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.add(batch(true, 1), true);
    Path file = folder.resolve(names().get(0));
    Files.delete(file);
    Files.createSymbolicLink(file, Paths.get("/dev/zero"));
    check(spool.next() == null && spool.waiting(false) == 0, "a link was read");
    spool.add(batch(true, 2), true);
    Path second = folder.resolve(names().stream().filter(name -> !name.endsWith(".refused")).findFirst().get());
    try (FileChannel channel = FileChannel.open(second, StandardOpenOption.WRITE)) {
      channel.write(ByteBuffer.wrap(new byte[1]), (long) Batch.MAX_BYTES);
    }
    check(spool.next() == null && spool.waiting(false) == 0, "a file larger than any that we write was read");
  }

  /** What unpacks to more than any listener writes is set aside, in little memory. */
  private static void bomb() throws IOException {
    makeFolder(folder, "rwx------");
    try (
        OutputStream out =
            new GZIPOutputStream(Files.newOutputStream(folder.resolve("final-1000000000000-he-1.ndjson.gz")))) {
      byte[] zeros = new byte[1 << 20];
      for (int i = 0; i < 256; i++) out.write(zeros);
    }
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.open();
    check(spool.waiting(false) == 1, "it is not taken over");
    check(spool.next() == null, "it is sent");
    check(names().equals(Collections.singletonList("final-1000000000000-he-1.ndjson.gz.refused")), names().toString());
  }

  private static void permissions() throws IOException {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    spool.add(batch(true, 1), true);
    String mode = PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve(names().get(0))));
    check(mode.equals("rw-------"), mode);
  }

  private static void postponed() {
    Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
    Batch a = batch(true, 1);
    Batch b = batch(true, 2);
    spool.add(a, true);
    spool.add(b, true);
    check(same(spool.next(), a), "the oldest");
    spool.postpone();
    check(same(spool.next(), b), "the other");
    spool.delivered();
    check(same(spool.next(), a), "the one that was postponed");
  }

  /** On a full disk, batches of running executions make room for those of ended ones. */
  private static void fullDisk() throws Exception {
    Files.createDirectory(folder);
    String disk = folder.toString();
    if (new ProcessBuilder("mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", disk).start().waitFor() != 0) return;
    try {
      folder = folder.resolve("spool");
      Spool spool = new Spool(folder, ROOM, ROOM, "me", tracker);
      for (int i = 0; i < 20; i++) spool.add(large(100 + i), false);
      check(spool.inMemory() > 0, "the disk is not full");
      spool.persist();
      int onDisk = names().size();
      for (int i = 0; i < onDisk; i++) spool.add(large(i), true);
      long ended = names().stream().filter(name -> name.startsWith("final-")).count();
      check(ended == onDisk && names().size() == onDisk, names().toString());
    } finally {
      new ProcessBuilder("umount", "--lazy", disk).start().waitFor();
    }
  }

  private static void makeFolder(Path path, String mode) throws IOException {
    Files.createDirectory(path);
    Files.setPosixFilePermissions(path, PosixFilePermissions.fromString(mode));
  }

  private static String dropped() {
    return tracker.dropped().toString();
  }

  private static Batch batch(boolean isFinal, long... executions) {
    List<Batch.Line> lines = new ArrayList<>();
    for (long id : executions) {
      byte[] line = ("{\"document\":" + documents++ + "}\n").getBytes(StandardCharsets.UTF_8);
      lines.add(new Batch.Line(line, tracker.next(id, isFinal), isFinal));
    }
    return Batch.of(lines);
  }

  /** A batch of one document of about 2,500 bytes, that cannot be compressed. */
  private static Batch large(long execution) {
    byte[] line = new byte[2_400];
    new Random(documents++).nextBytes(line);
    for (int i = 0; i < line.length; i++)
      if (line[i] == '\n') line[i] = 0;
    line[line.length - 1] = '\n';
    return Batch.of(Collections.singletonList(new Batch.Line(line, tracker.next(execution, true), true)));
  }

  private static boolean same(Batch a, Batch b) {
    return a != null && java.util.Arrays.equals(a.body, b.body);
  }

  private static List<String> names() {
    return list(folder);
  }

  private static List<String> list(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.map(path -> path.getFileName().toString()).sorted().collect(Collectors.toList());
    } catch (IOException e) {
      return Collections.emptyList();
    }
  }
}
