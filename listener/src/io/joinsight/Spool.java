package io.joinsight;

import java.io.IOException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What the collector has not taken yet: a folder with a file for each batch, so that it outlives the driver. A file
 * appears whole or not at all. Where the folder cannot be written or trusted, batches are held in memory.
 *
 * <p>Files are named {@code final-<ms>-<listener>-<n>.ndjson.gz}, or {@code running-...} for documents of running
 * executions; what ends with {@code .refused} was refused by the collector and is kept for a person to look at. Files of
 * a driver that died here before are taken over; all that is not ours by name and owner stays as it is. Both folder and
 * memory are bounded: refused ones go first, then those of running executions, then those of ended ones, of each the
 * oldest first.
 *
 * <p>Used by the sender's thread alone. Several drivers may share a folder: a file that another one delivered is gone.
 */
final class Spool {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final String END = ".ndjson.gz";
  private static final String REFUSED = ".refused";
  private static final String UNFINISHED = ".tmp";
  private static final Pattern NAME =
      Pattern.compile("(final|running)-(\\d{1,15})-([A-Za-z0-9-]{1,80})-(\\d{1,15})\\.ndjson\\.gz(\\.refused)?(\\.tmp)?");
  private static final long ABANDONED_MS = 3_600_000; // what is still unfinished by then was cut off
  private static final int NAMED = 5; // of the files that are not ours

  /** In the order in which they are given up. */
  private enum Kind {
    refused,
    running,
    ended
  }

  private static final class Entry {
    final Kind kind;
    String name; // of its file; null: held in memory
    Batch batch; // null: in the folder
    final long bytes;
    final List<Account.Stamp> stamps; // none: of another driver
    final Set<Long> executions = new HashSet<>(); // of which nothing newer is there

    Entry(Kind kind, String name, Batch batch, long bytes, List<Account.Stamp> stamps) {
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
  private final Account account;
  private final List<Entry> entries = new LinkedList<>(); // oldest first
  private Entry offered; // what next() returned last
  private int written;
  private boolean complained;

  /** {@code folder} may be null: then all is held in memory. */
  Spool(Path folder, long folderLimit, long memoryLimit, String listenerId, Account account) {
    this.folder = folder;
    this.folderLimit = folderLimit;
    this.memoryLimit = memoryLimit;
    this.listenerId = listenerId;
    this.account = account;
  }

  /** Takes over what an earlier driver left, and removes what one that was killed left half written. */
  void open() {
    if (folder == null) return;
    List<SpoolFolder.Found> ours = new ArrayList<>();
    List<String> others = new ArrayList<>();
    try (SpoolFolder open = SpoolFolder.open(folder, false)) {
      for (SpoolFolder.Found file : open.list()) {
        Matcher name = NAME.matcher(file.name);
        if (!name.matches() || !file.isOurs) {
          others.add(file.name);
        } else if (name.group(6) == null) {
          ours.add(file);
        } else if (System.currentTimeMillis() - file.modifiedAt > ABANDONED_MS) {
          open.delete(file.name);
        }
      }
    } catch (NoSuchFileException none) {
      return;
    } catch (IOException | RuntimeException e) {
      complain(e);
    }
    if (!others.isEmpty()) {
      LOG.warn("Joinsight: {} files in {} are not ours and stay as they are: {}",
          others.size(), folder, Visible.of(others.subList(0, Math.min(NAMED, others.size())).toString()));
    }
    ours.sort(Comparator.comparing(file -> age(file.name)));
    for (SpoolFolder.Found file : ours) {
      Kind kind =
          file.name.endsWith(REFUSED) ? Kind.refused : file.name.startsWith("final-") ? Kind.ended : Kind.running;
      entries.add(new Entry(kind, file.name, null, file.bytes, Collections.emptyList()));
    }
    int waiting = waiting(false);
    if (waiting > 0) LOG.info("Joinsight: {} batches of an earlier driver wait in {}", waiting, folder);
  }

  /** What sorts names by the time of their making, then by listener and number. */
  private static String age(String fileName) {
    Matcher name = NAME.matcher(fileName);
    if (!name.matches()) throw new IllegalArgumentException(fileName);
    return String.format("%015d %s %015d", Long.parseLong(name.group(2)), name.group(3), Long.parseLong(name.group(4)));
  }

  /** Keeps a batch; of documents of running executions, those of older batches that it makes superfluous go. */
  void add(Batch batch, boolean isFinal) {
    Set<Long> executions = new HashSet<>();
    for (Account.Stamp stamp : batch.stamps) executions.add(stamp.executionId);
    supersede(executions);
    Entry entry = keep(batch, isFinal ? Kind.ended : Kind.running);
    entry.executions.addAll(executions);
    if (entry.name != null) persist();
    bound();
  }

  /** Keeps what the collector refused, as far as there is a folder. */
  void setAside(Batch batch) {
    if (folder == null) return;
    Entry entry = keep(batch, Kind.refused);
    if (entry.name == null) entries.remove(entry);
    bound();
  }

  private Entry keep(Batch batch, Kind kind) {
    String name = folder == null ? null : write(batch.body, kind);
    Entry entry = new Entry(kind, name, name == null ? batch : null, batch.body.length, batch.stamps);
    entries.add(entry);
    return entry;
  }

  private void supersede(Set<Long> executions) {
    for (Iterator<Entry> i = entries.iterator(); i.hasNext(); ) {
      Entry entry = i.next();
      if (entry.kind != Kind.running || !entry.isOwn()) continue;
      entry.executions.removeAll(executions);
      if (!entry.executions.isEmpty()) continue;
      i.remove();
      delete(entry);
    }
  }

  /** Writes what is held in memory, where that is possible by now. */
  void persist() {
    if (folder == null) return;
    for (Entry entry : entries) {
      if (entry.batch == null) continue;
      entry.name = write(entry.batch.body, entry.kind);
      if (entry.name == null) return;
      entry.batch = null;
    }
  }

  private String write(byte[] body, Kind kind) {
    String prefix = kind == Kind.ended ? "final" : "running";
    String name = prefix + "-" + System.currentTimeMillis() + "-" + listenerId + "-" + ++written + END;
    if (kind == Kind.refused) name += REFUSED;
    try (SpoolFolder open = SpoolFolder.open(folder, true)) {
      try {
        open.write(name + UNFINISHED, body);
        open.rename(name + UNFINISHED, name);
      } catch (IOException | RuntimeException e) {
        deleteQuietly(open, name + UNFINISHED);
        throw e;
      }
      complained = false;
      return name;
    } catch (IOException | RuntimeException e) {
      complain(e);
      return null;
    }
  }

  private void complain(Exception e) {
    if (!complained) {
      LOG.warn("Joinsight: cannot use the spool folder {}, documents are held in memory: {}", folder, Visible.of(e.toString()));
    }
    complained = true;
  }

  private void bound() {
    bound(true, folderLimit, "spool");
    bound(false, memoryLimit, "memory");
  }

  private void bound(boolean inFolder, long limit, String cause) {
    long bytes = 0;
    for (Entry entry : entries) if ((entry.name != null) == inFolder) bytes += entry.bytes;
    for (Kind kind : Kind.values()) {
      for (Iterator<Entry> i = entries.iterator(); i.hasNext() && bytes > limit; ) {
        Entry entry = i.next();
        if (entry.kind != kind || (entry.name != null) != inFolder) continue;
        i.remove();
        delete(entry);
        bytes -= entry.bytes;
        if (kind != Kind.refused) account.dropped(cause, entry.stamps);
      }
    }
  }

  /** Batches that wait for the collector: of this driver alone, or of all. */
  int waiting(boolean own) {
    int n = 0;
    for (Entry entry : entries) if (entry.kind != Kind.refused && (!own || entry.isOwn())) n++;
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
      try (SpoolFolder open = SpoolFolder.open(folder, false)) {
        try {
          return Batch.ofBody(open.read(offered.name, Batch.MAX_BYTES), offered.stamps);
        } catch (NoSuchFileException e) {
          throw e;
        } catch (IOException | RuntimeException e) {
          entries.remove(offered);
          LOG.warn("Joinsight: {} in {} cannot be read ({}), it is set aside", offered.name, folder, Visible.of(e.toString()));
          open.rename(offered.name, offered.name + REFUSED);
        }
      } catch (NoSuchFileException e) {
        entries.remove(offered);
      } catch (IOException | RuntimeException e) {
        entries.remove(offered);
        LOG.warn("Joinsight: {} in {} is left alone: {}", offered.name, folder, Visible.of(e.toString()));
      }
    }
    return null;
  }

  private Entry choose() {
    Entry foreign = null;
    for (Entry entry : entries) {
      if (entry.kind == Kind.refused) continue;
      if (entry.isOwn()) return entry;
      if (foreign == null) foreign = entry;
    }
    return foreign;
  }

  /** The batch that {@link #next} returned is with the collector. */
  void delivered() {
    entries.remove(offered);
    delete(offered);
  }

  /** The batch that {@link #next} returned is not let through: the others come first. */
  void postpone() {
    entries.remove(offered);
    entries.add(offered);
  }

  private void delete(Entry entry) {
    if (entry.name == null) return;
    try (SpoolFolder open = SpoolFolder.open(folder, false)) {
      deleteQuietly(open, entry.name);
    } catch (IOException | RuntimeException e) {
      LOG.warn("Joinsight: {} in {} cannot be deleted: {}", entry.name, folder, Visible.of(e.toString()));
    }
  }

  private void deleteQuietly(SpoolFolder open, String name) {
    try {
      open.delete(name);
    } catch (NoSuchFileException gone) {
      // that is what was wanted
    } catch (IOException | RuntimeException e) {
      LOG.warn("Joinsight: {} in {} cannot be deleted: {}", name, folder, Visible.of(e.toString()));
    }
  }

  @Override
  public String toString() {
    return folder == null ? "memory" : folder.toString();
  }
}
