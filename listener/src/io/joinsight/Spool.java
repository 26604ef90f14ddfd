package io.joinsight;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.nio.file.attribute.UserPrincipal;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the collector has not taken yet: a folder with a file for each batch, so that it outlives the driver. A file
 * appears whole or not at all. Where the folder cannot be written, batches are held in memory.
 *
 * <p>Files are named {@code final-<ms>-<listener>-<n>.ndjson.gz}, or {@code running-...} for documents of running
 * executions; what ends with {@code .refused} was refused by the collector and is kept for a person to look at. Files of
 * a driver that died here before are taken over. Both folder and memory are bounded: refused ones go first, then those
 * of running executions, then those of ended ones, of each the oldest first.
 *
 * <p>Used by the sender's thread alone. Several drivers may share a folder: a file that another one delivered is gone.
 */
final class Spool {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final String END = ".ndjson.gz";
  private static final String REFUSED = ".refused";
  private static final String UNFINISHED = ".tmp";
  private static final long ABANDONED_MS = 3_600_000; // what is still unfinished by then was cut off

  /** In the order in which they are given up. */
  private enum Kind {
    refused,
    running,
    ended
  }

  private static final class Entry {
    final Kind kind;
    Path path; // null: held in memory
    Batch batch; // null: in the folder
    final long bytes;
    final int documents; // 0: of another driver
    final Set<Long> executions = new HashSet<>(); // of which nothing newer is there

    Entry(Kind kind, Path path, Batch batch, long bytes, int documents) {
      this.kind = kind;
      this.path = path;
      this.batch = batch;
      this.bytes = bytes;
      this.documents = documents;
    }

    boolean canBeSuperseded() {
      return kind == Kind.running && !executions.isEmpty();
    }
  }

  private final Path folder;
  private final long folderLimit;
  private final long memoryLimit;
  private final String listenerId;
  private final Map<String, Long> dropped = Collections.synchronizedMap(new TreeMap<>());
  private final List<Entry> entries = new LinkedList<>(); // oldest first
  private Entry offered; // what next() returned last
  private int written;
  private boolean complained;

  /** {@code folder} may be null: then all is held in memory. */
  Spool(Path folder, long folderLimit, long memoryLimit, String listenerId) {
    this.folder = folder;
    this.folderLimit = folderLimit;
    this.memoryLimit = memoryLimit;
    this.listenerId = listenerId;
  }

  /** Takes over what an earlier driver left, and removes what one that was killed left half written. */
  void open() {
    File[] found = folder == null ? null : folder.toFile().listFiles();
    if (found == null) return;
    Arrays.sort(found, Comparator.comparing(file -> file.getName().replaceFirst("^[a-z]+-", "")));
    for (File file : found) {
      String name = file.getName();
      Kind kind = name.endsWith(REFUSED) ? Kind.refused : name.startsWith("final-") ? Kind.ended : Kind.running;
      if (name.contains(END) && name.endsWith(UNFINISHED) && System.currentTimeMillis() - file.lastModified() > ABANDONED_MS) {
        deleteQuietly(file.toPath());
      }
      if (kind == Kind.refused || name.endsWith(END)) entries.add(new Entry(kind, file.toPath(), null, file.length(), 0));
    }
    int waiting = waiting(false);
    if (waiting > 0) LOG.info("Joinsight: {} batches of an earlier driver wait in {}", waiting, folder);
  }

  /** Keeps a batch; of documents of running executions, those of older batches that it makes superfluous go. */
  void add(Batch batch, boolean isFinal) {
    supersede(batch.executions);
    Entry entry = keep(batch, isFinal ? Kind.ended : Kind.running);
    entry.executions.addAll(batch.executions);
    if (entry.path != null) persist();
    bound();
  }

  /** Keeps what the collector refused, as far as there is a folder. */
  void setAside(Batch batch) {
    if (folder == null) return;
    Entry entry = keep(batch, Kind.refused);
    if (entry.path == null) entries.remove(entry);
    bound();
  }

  private Entry keep(Batch batch, Kind kind) {
    Path path = folder == null ? null : write(batch.body, kind);
    Entry entry = new Entry(kind, path, path == null ? batch : null, batch.body.length, batch.documents);
    entries.add(entry);
    return entry;
  }

  /** Documents that would go if a batch of these executions came. */
  long supersededBy(Set<Long> executions) {
    long documents = 0;
    for (Entry entry : entries) {
      if (entry.canBeSuperseded() && executions.containsAll(entry.executions)) documents += entry.documents;
    }
    return documents;
  }

  private void supersede(Set<Long> executions) {
    for (Iterator<Entry> i = entries.iterator(); i.hasNext(); ) {
      Entry entry = i.next();
      if (!entry.canBeSuperseded()) continue;
      entry.executions.removeAll(executions);
      if (!entry.executions.isEmpty()) continue;
      i.remove();
      delete(entry);
      drop("superseded", entry.documents);
    }
  }

  /** Writes what is held in memory, where that is possible by now. */
  void persist() {
    if (folder == null) return;
    for (Entry entry : entries) {
      if (entry.batch == null) continue;
      entry.path = write(entry.batch.body, entry.kind);
      if (entry.path == null) return;
      entry.batch = null;
    }
  }

  private Path write(byte[] body, Kind kind) {
    String prefix = kind == Kind.ended ? "final" : "running";
    String name = prefix + "-" + System.currentTimeMillis() + "-" + listenerId + "-" + ++written + END;
    if (kind == Kind.refused) name += REFUSED;
    Path path = folder.resolve(name);
    Path unfinished = folder.resolve(name + UNFINISHED);
    try {
      makeFolder();
      try (FileChannel channel =
          FileChannel.open(unfinished, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING)) {
        for (ByteBuffer buffer = ByteBuffer.wrap(body); buffer.hasRemaining(); ) channel.write(buffer);
        channel.force(false);
      }
      checkOwner(unfinished);
      Files.move(unfinished, path, StandardCopyOption.ATOMIC_MOVE);
      complained = false;
      return path;
    } catch (IOException | RuntimeException e) {
      deleteQuietly(unfinished);
      if (!complained) {
        LOG.warn("Joinsight: cannot write to the spool folder {}, documents are held in memory: {}", folder, e.toString());
      }
      complained = true;
      return null;
    }
  }

  /** Others on this machine may not read it. */
  private void makeFolder() throws IOException {
    Files.createDirectories(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
  }

  /** Where everybody may make folders, somebody else may have made ours. */
  private void checkOwner(Path written) throws IOException {
    if (!folder.startsWith(System.getProperty("java.io.tmpdir"))) return;
    UserPrincipal owner = Files.getOwner(folder);
    if (!owner.equals(Files.getOwner(written))) throw new IOException("it belongs to " + owner.getName());
  }

  private void bound() {
    bound(true, folderLimit, "spool");
    bound(false, memoryLimit, "memory");
  }

  private void bound(boolean inFolder, long limit, String cause) {
    long bytes = 0;
    for (Entry entry : entries) if ((entry.path != null) == inFolder) bytes += entry.bytes;
    for (Kind kind : Kind.values()) {
      for (Iterator<Entry> i = entries.iterator(); i.hasNext() && bytes > limit; ) {
        Entry entry = i.next();
        if (entry.kind != kind || (entry.path != null) != inFolder) continue;
        i.remove();
        delete(entry);
        bytes -= entry.bytes;
        if (kind != Kind.refused) drop(cause, entry.documents);
      }
    }
  }

  /** Batches that wait for the collector: of this driver alone, or of all. */
  int waiting(boolean own) {
    int n = 0;
    for (Entry entry : entries) if (entry.kind != Kind.refused && (!own || entry.documents > 0)) n++;
    return n;
  }

  /** Batches that the end of the driver would lose, because they are not in the folder. */
  int inMemory() {
    int n = 0;
    for (Entry entry : entries) if (entry.batch != null) n++;
    return n;
  }

  /**
   * The batch to deliver next, or null: the oldest of this driver, then those that others left. What is damaged is set
   * aside, what somebody else delivered is passed over.
   */
  Batch next() {
    while ((offered = choose()) != null) {
      if (offered.batch != null) return offered.batch;
      try {
        return Batch.ofBody(Files.readAllBytes(offered.path));
      } catch (NoSuchFileException e) {
        entries.remove(offered);
      } catch (IOException | RuntimeException e) {
        entries.remove(offered);
        LOG.warn("Joinsight: {} cannot be read ({}), it is set aside", offered.path, e.toString());
        try {
          Files.move(offered.path, offered.path.resolveSibling(offered.path.getFileName() + REFUSED));
        } catch (IOException | RuntimeException cannot) {
          LOG.warn("Joinsight: {} cannot be renamed: {}", offered.path, cannot.toString());
        }
      }
    }
    return null;
  }

  private Entry choose() {
    Entry foreign = null;
    for (Entry entry : entries) {
      if (entry.kind == Kind.refused) continue;
      if (entry.documents > 0) return entry;
      if (foreign == null) foreign = entry;
    }
    return foreign;
  }

  /** The batch that {@link #next} returned is with the collector. */
  void delivered() {
    entries.remove(offered);
    delete(offered);
  }

  private static void delete(Entry entry) {
    if (entry.path != null) deleteQuietly(entry.path);
  }

  private static void deleteQuietly(Path path) {
    try {
      Files.deleteIfExists(path);
    } catch (IOException | RuntimeException e) {
      LOG.warn("Joinsight: {} cannot be deleted: {}", path, e.toString());
    }
  }

  /** Counts documents that are given up; returns how many of this cause there are. */
  long drop(String cause, long documents) {
    return documents > 0 ? dropped.merge(cause, documents, Long::sum) : dropped.getOrDefault(cause, 0L);
  }

  /** Documents given up, by cause. */
  Map<String, Long> dropped() {
    synchronized (dropped) {
      return new TreeMap<>(dropped);
    }
  }

  @Override
  public String toString() {
    return folder == null ? "memory" : folder.toString();
  }
}
