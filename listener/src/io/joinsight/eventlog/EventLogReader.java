package io.joinsight.eventlog;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.joinsight.capture.Application;
import io.joinsight.capture.ApplicationSettings;
import io.joinsight.capture.Documents;
import io.joinsight.capture.Executions;
import io.joinsight.capture.Incomplete;
import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Snapshot;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;

/**
 * Reads an event log, or as much of it as can be read, and converts it to documents: executions in the order in which
 * they ended, then the application. The last line is the outcome. The contents of files never make it fail.
 *
 * <p>A request is JSON: {@code {"application_id", "attempt_id", "is_open", "is_candidate", "is_named", "files":
 * [{"path", "follows_missing"}]}}. A candidate is read only if its first line is an event; a named one also if the file
 * system fails, which is then its outcome.
 */
public final class EventLogReader implements Closeable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int PROBLEM_CHARACTERS = 200;
  private static final byte[] READY = "ready\n".getBytes(StandardCharsets.US_ASCII);
  private static final long MIN_MEMORY = 64 << 20;
  private static final int MEMORY_PART = 8; // of the heap; other logs may be read at the same time

  private final JsonNode log;
  private final boolean isOpen;
  private final Configuration configuration;
  private final Application application;
  private final Executions executions;
  private final LogEvents events;
  private final Documents documents;
  private final ArrayDeque<byte[]> ready = new ArrayDeque<>();

  private int next; // file
  private LogLines file; // null: no file is open
  private long linesBefore; // this file
  private long unreadable; // lines of this file
  private String firstUnreadable;
  private boolean atEnd;

  // The outcome
  private long lines;
  private long bytes;
  private final List<String> problems = new ArrayList<>();
  private final List<String> refused = new ArrayList<>();
  private boolean failed;
  private boolean isLog = true;

  /** {@code configuration}: the Hadoop configuration for the file systems; null: all files are local. */
  EventLogReader(String log, Configuration configuration) throws IOException {
    this.log = JSON.readTree(log);
    this.configuration = configuration;
    isOpen = this.log.path("is_open").asBoolean();
    application = new Application(new ApplicationSettings(Collections.emptyMap(), new ArrayList<>()), false);
    application.id = this.log.path("application_id").asText();
    application.attemptId = this.log.path("attempt_id").asText();
    documents = new Documents(application);
    long memory = Math.max(MIN_MEMORY, Runtime.getRuntime().maxMemory() / MEMORY_PART);
    executions = new Executions(application, memory, this::emit);
    events = new LogEvents(application, executions);
  }

  /**
   * Reads requests from standard input, one per line, and writes documents and outcomes to standard output, after a line
   * that shows that this JVM works.
   */
  public static void main(String[] arguments) throws IOException {
    PrintStream out = System.out;
    System.setOut(System.err); // any other output there would be parsed as a document
    BufferedReader logs = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    write(out, READY);
    for (String log; (log = logs.readLine()) != null;) {
      try (EventLogReader reader = new EventLogReader(log, null)) {
        for (byte[] line; (line = reader.next()) != null;) write(out, line);
      }
      out.flush();
    }
  }

  private static void write(PrintStream out, byte[] line) throws IOException {
    out.write(line, 0, line.length);
    if (out.checkError()) throw new IOException("nobody reads");
  }

  /** The next line; null at the end. */
  byte[] next() {
    while (ready.isEmpty() && !atEnd) {
      try {
        step();
      } catch (OutOfMemoryError | StackOverflowError e) {
        problems.add("cannot be read: " + e);
        failed = true;
        finish();
      }
    }
    return ready.poll();
  }

  @Override
  public void close() {
    if (file != null) file.close();
  }

  private void step() {
    if (file == null) {
      open();
      boolean mayBeLog = !log.path("is_candidate").asBoolean() || file.isEventLog();
      if (!mayBeLog && !(file.failed && log.path("is_named").asBoolean())) leaveOut();
    } else if (file.next(events)) {
      line();
    } else {
      file.close();
      if (unreadable > 0) {
        String lines = unreadable == 1 ? "1 line is unreadable: " : unreadable + " lines are unreadable, the first: ";
        problems.add(name() + ": " + lines + firstUnreadable);
      }
      failed |= file.failed;
      if (next == log.path("files").size()) finish();
      else open();
    }
  }

  private void open() {
    JsonNode entry = log.path("files").path(next);
    if (file != null && file.cutOff != null) {
      problems.add(name() + ": " + file.cutOff);
      executions.gap(new Incomplete("log_part_unreadable"));
    }
    if (entry.path("follows_missing").asBoolean()) executions.gap(new Incomplete("log_files_missing"));
    next++;
    unreadable = 0;
    firstUnreadable = null;
    linesBefore = lines;
    file = new LogLines(entry.path("path").asText(), configuration);
  }

  private void leaveOut() {
    atEnd = true;
    isLog = false;
    ready.add(outcome());
  }

  private String name() {
    String path = log.path("files").path(next - 1).path("path").asText();
    return path.substring(path.lastIndexOf('/') + 1);
  }

  private void line() {
    lines++;
    bytes += file.end - file.start + 1;
    try {
      if (file.isRead) events.take();
      else events.take(file.bytes, file.start, file.end);
    } catch (IOException e) {
      unreadable(e.getMessage());
    } catch (StackOverflowError | RuntimeException e) {
      unreadable(e.getClass().getSimpleName());
    }
  }

  private void unreadable(String problem) {
    unreadable++;
    if (firstUnreadable == null) {
      String told = "line " + (lines - linesBefore) + ": " + problem;
      firstUnreadable = told.substring(0, Math.min(told.length(), PROBLEM_CHARACTERS));
    }
    executions.gap(new Incomplete("log_lines_unreadable"));
  }

  /** Emits what remains at the end of the log. */
  private void finish() {
    atEnd = true;
    lines++; // these documents need a higher number than those of the last line
    Incomplete why = new Incomplete("log_ends");
    if (file != null && file.cutOff != null && (file.failed || !isOpen)) { // an open log may end anywhere
      problems.add(name() + ": " + file.cutOff);
      why = new Incomplete("log_cut_off", "problem", file.cutOff);
    }
    executions.finish(isOpen, why);
    if (events.isStarted()) {
      try {
        ready.add(
            documents.application(SequenceTracker.SequenceNumber.ofLog(lines, SequenceTracker.APPLICATION), null));
      } catch (Throwable e) {
        problems.add("the document of the application could not be created: " + e);
      }
    }
    lines--;
    problems.addAll(refused);
    ready.add(outcome());
  }

  private void emit(Snapshot snapshot) {
    try {
      ready.add(documents.execution(SequenceTracker.SequenceNumber.ofLog(lines, snapshot.executionId), snapshot));
    } catch (Throwable e) {
      refused.add("execution " + snapshot.executionId + " could not be converted to a document: " + e);
    }
  }

  private byte[] outcome() {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    try (JsonGenerator g = JSON.getFactory().createGenerator((OutputStream) out)) {
      g.writeStartObject();
      g.writeStringField("kind", "log");
      g.writeNumberField("lines", lines);
      g.writeNumberField("bytes", bytes);
      g.writeArrayFieldStart("problems");
      for (String problem : problems) g.writeString(problem);
      g.writeEndArray();
      g.writeBooleanField("failed", failed);
      g.writeBooleanField("is_log", isLog);
      g.writeEndObject();
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    out.write('\n');
    return out.toByteArray();
  }
}
