package io.joinsight.delivery;

import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Texts;
import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Batches that are not delivered yet, each in a file of a folder, so that they outlive the driver. Files are written
 * atomically. If the folder cannot be written or trusted, batches are kept in memory.
 *
 * <p>Files that an earlier driver left on this machine are delivered too; files with another name ({@link SpoolName})
 * or owner are not touched. Refused batches are kept for inspection. Folder and memory have limits: refused batches are
 * dropped first, then those of running executions, then those of ended ones, the oldest first.
 *
 * <p>Used by the sender's thread only. Drivers may share a folder, so a file may be gone because another driver
 * delivered it.
 */
final class Spool {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final long ABANDONED_MS = 3_600_000; // age at which an unfinished file is abandoned
  private static final int DISK_BLOCK = 4096;
  private static final int MAX_LISTED = 5; // foreign files in a log line

  private static final class Entry {
    final SpoolName.Kind kind;
    String name; // of its file; null: in memory
    Batch batch; // null: in the folder
    final long bytes;
    final List<SequenceTracker.SequenceNumber> stamps; // empty if another driver made it
    final Set<Long> executions = new HashSet<>(); // without a newer document in the spool

    Entry(SpoolName.Kind kind, String name, Batch batch, long bytes, List<SequenceTracker.SequenceNumber> stamps) {
      this.kind = kind;
      this.name = name;
      this.batch = batch;
      this.bytes = bytes;
      this.stamps = stamps;
    }

    boolean isOwn() {
      return !stamps.isEmpty();
    }
  }

  private final Path folder;
  private final long folderLimit;
  private final long memoryLimit;
  private final String listenerId;
  private final SequenceTracker tracker;
  private final List<Entry> entries = new LinkedList<>(); // oldest first
  private Entry current; // whose batch next() returned last
  private int written;
  private boolean hasWarned;

  /** {@code folder}: null to keep all batches in memory. */
  Spool(Path folder, long folderLimit, long memoryLimit, String listenerId, SequenceTracker tracker) {
    this.folder = folder;
    this.folderLimit = folderLimit;
    this.memoryLimit = memoryLimit;
    this.listenerId = listenerId;
    this.tracker = tracker;
  }

  /** Adds the files that earlier drivers left, and deletes abandoned unfinished ones. */
  void open() {
    if (folder == null) return;
    TreeMap<SpoolName, Entry> ours = new TreeMap<>();
    List<String> others = new ArrayList<>();
    try (SpoolFolder open = SpoolFolder.open(folder, false)) {
      for (SpoolFolder.FileInfo file : open.list()) {
        SpoolName name = SpoolName.parse(file.name);
        if (name == null || !file.isOurs) {
          others.add(file.name);
        } else if (!name.isUnfinished) {
          ours.put(name, new Entry(name.kind, file.name, null, file.bytes, Collections.emptyList()));
        } else if (System.currentTimeMillis() - file.modifiedAt > ABANDONED_MS) {
          open.delete(file.name);
        }
      }
    } catch (NoSuchFileException none) {
      return;
    } catch (IOException | RuntimeException e) {
      warnOnce(e);
    }
    if (!others.isEmpty()) {
      LOG.warn(
          "Joinsight: {} files in {} are not spool files of this user and are ignored: {}", others.size(), folder,
          Texts.escape(others.subList(0, Math.min(MAX_LISTED, others.size())).toString()));
    }
    entries.addAll(ours.values());
    int waiting = waiting(false);
    if (waiting > 0) LOG.info("Joinsight: {} batches of earlier drivers in {} will be delivered", waiting, folder);
  }

  /** Adds a batch, and drops batches of running executions if each of their documents is superseded by a newer one. */
  void add(Batch batch, boolean isFinal) {
    Set<Long> executions = new HashSet<>();
    for (SequenceTracker.SequenceNumber stamp : batch.stamps) executions.add(stamp.executionId);
    supersede(executions);
    if (isFinal) makeRoom(batch.body.length);
    Entry entry = keep(batch, isFinal ? SpoolName.Kind.ended : SpoolName.Kind.running);
    entry.executions.addAll(executions);
    if (entry.name != null) persist();
    enforceLimits();
  }

  /** Keeps a refused batch, if there is a folder. */
  void setAside(Batch batch) {
    if (folder == null) return;
    Entry entry = keep(batch, SpoolName.Kind.refused);
    if (entry.name == null) entries.remove(entry);
    enforceLimits();
  }

  private Entry keep(Batch batch, SpoolName.Kind kind) {
    String name = folder == null ? null : write(batch.body, kind);
    Entry entry = new Entry(kind, name, name == null ? batch : null, batch.body.length, batch.stamps);
    entries.add(entry);
    return entry;
  }

  /** Drops batches of running executions while the disk is too full for one of ended executions. */
  private void makeRoom(int bytes) {
    for (Iterator<Entry> i = entries.iterator(); i.hasNext();) {
      Entry entry = i.next();
      if (entry.kind != SpoolName.Kind.running || entry.name == null) continue;
      if (folder.toFile().getUsableSpace() >= bytes + DISK_BLOCK) return;
      i.remove();
      delete(entry);
      tracker.dropped("spool", entry.stamps);
    }
  }

  private void supersede(Set<Long> executions) {
    for (Iterator<Entry> i = entries.iterator(); i.hasNext();) {
      Entry entry = i.next();
      if (entry.kind != SpoolName.Kind.running || !entry.isOwn()) continue;
      entry.executions.removeAll(executions);
      if (!entry.executions.isEmpty()) continue;
      i.remove();
      delete(entry);
    }
  }

  /** Writes the batches in memory to the folder, if that is possible now. */
  void persist() {
    if (folder == null) return;
    for (Entry entry : entries) {
      if (entry.batch == null) continue;
      entry.name = write(entry.batch.body, entry.kind);
      if (entry.name == null) return;
      entry.batch = null;
    }
  }

  private String write(byte[] body, SpoolName.Kind kind) {
    String name = SpoolName.make(kind, listenerId, ++written);
    try (SpoolFolder open = SpoolFolder.open(folder, true)) {
      try {
        open.write(name + SpoolName.UNFINISHED, body);
        open.rename(name + SpoolName.UNFINISHED, name);
      } catch (IOException | RuntimeException e) {
        deleteQuietly(open, name + SpoolName.UNFINISHED);
        throw e;
      }
      hasWarned = false;
      return name;
    } catch (IOException | RuntimeException e) {
      warnOnce(e);
      return null;
    }
  }

  private void warnOnce(Exception e) {
    if (!hasWarned) {
      LOG.warn(
          "Joinsight: cannot use the spool folder {}; documents are kept in memory: {}", folder,
          Texts.escape(e.toString()));
    }
    hasWarned = true;
  }

  private void enforceLimits() {
    enforceLimits(true, folderLimit, "spool");
    enforceLimits(false, memoryLimit, "memory");
  }

  private void enforceLimits(boolean inFolder, long limit, String cause) {
    long bytes = 0;
    for (Entry entry : entries)
      if ((entry.name != null) == inFolder) bytes += entry.bytes;
    for (SpoolName.Kind kind : SpoolName.Kind.values()) {
      for (Iterator<Entry> i = entries.iterator(); i.hasNext() && bytes > limit;) {
        Entry entry = i.next();
        if (entry.kind != kind || (entry.name != null) != inFolder) continue;
        i.remove();
        delete(entry);
        bytes -= entry.bytes;
        if (kind != SpoolName.Kind.refused) tracker.dropped(cause, entry.stamps);
      }
    }
  }

  /** The number of batches to deliver, only this driver's if {@code own}. */
  int waiting(boolean own) {
    int n = 0;
    for (Entry entry : entries)
      if (entry.kind != SpoolName.Kind.refused && (!own || entry.isOwn())) n++;
    return n;
  }

  /** The number of batches in memory, which the end of the driver would lose. */
  int inMemory() {
    int n = 0;
    for (Entry entry : entries)
      if (entry.batch != null) n++;
    return n;
  }

  /**
   * The next batch to deliver, or null: the oldest of this driver, then those that others left. Damaged files are set
   * aside; files that another driver delivered are skipped.
   */
  Batch next() {
    while ((current = nextEntry()) != null) {
      if (current.batch != null) return current.batch;
      try (SpoolFolder open = SpoolFolder.open(folder, false)) {
        try {
          return Batch.ofBody(open.read(current.name, Batch.MAX_BYTES), current.stamps);
        } catch (NoSuchFileException e) {
          throw e;
        } catch (IOException | RuntimeException e) {
          entries.remove(current);
          LOG.warn(
              "Joinsight: cannot read {} in {} ({}); the file is set aside", current.name, folder,
              Texts.escape(e.toString()));
          open.rename(current.name, current.name + SpoolName.REFUSED);
        }
      } catch (NoSuchFileException e) {
        entries.remove(current);
      } catch (IOException | RuntimeException e) {
        entries.remove(current);
        LOG.warn("Joinsight: skipping {} in {}: {}", current.name, folder, Texts.escape(e.toString()));
      }
    }
    return null;
  }

  private Entry nextEntry() {
    Entry foreign = null;
    for (Entry entry : entries) {
      if (entry.kind == SpoolName.Kind.refused) continue;
      if (entry.isOwn()) return entry;
      if (foreign == null) foreign = entry;
    }
    return foreign;
  }

  /** Deletes the batch that {@link #next} returned: the collector has it. */
  void delivered() {
    entries.remove(current);
    delete(current);
  }

  /** Moves the batch that {@link #next} returned to the end. */
  void postpone() {
    entries.remove(current);
    entries.add(current);
  }

  private void delete(Entry entry) {
    if (entry.name == null) return;
    try (SpoolFolder open = SpoolFolder.open(folder, false)) {
      deleteQuietly(open, entry.name);
    } catch (IOException | RuntimeException e) {
      LOG.warn("Joinsight: cannot delete {} in {}: {}", entry.name, folder, Texts.escape(e.toString()));
    }
  }

  private void deleteQuietly(SpoolFolder open, String name) {
    try {
      open.delete(name);
    } catch (NoSuchFileException gone) {
      // Another driver deleted it
    } catch (IOException | RuntimeException e) {
      LOG.warn("Joinsight: cannot delete {} in {}: {}", name, folder, Texts.escape(e.toString()));
    }
  }

  /** Its folder, null if it is only in memory. */
  Path folder() {
    return folder;
  }

  @Override
  public String toString() {
    return folder == null ? "memory" : folder.toString();
  }
}
