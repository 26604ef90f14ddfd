package io.joinsight.eventlog;

import io.joinsight.capture.Executions;
import io.joinsight.capture.StageTotals;
import io.joinsight.capture.StageValues;
import io.joinsight.eventlog.JsonLine.Name;
import java.util.Arrays;

/** A task end, scanned from a line of an event log. One object is reused for all of them. */
final class TaskEnd {
  private static final Name STAGE = new Name("Stage ID");
  private static final Name ATTEMPT = new Name("Stage Attempt ID");
  private static final Name END_REASON = new Name("Task End Reason");
  private static final Name REASON = new Name("Reason");
  private static final Name RESUBMITTED = new Name("Resubmitted");
  private static final Name INFO = new Name("Task Info");
  private static final Name METRICS = new Name("Task Metrics");
  private static final Name TASK = new Name("Task ID");
  private static final Name INDEX = new Name("Index");
  private static final Name EXECUTOR = new Name("Executor ID");
  private static final Name HOST = new Name("Host");
  private static final Name LAUNCHED = new Name("Launch Time");
  private static final Name GETTING_RESULT = new Name("Getting Result Time");
  private static final Name FINISHED = new Name("Finish Time");
  private static final Name FAILED = new Name("Failed");
  private static final Name KILLED = new Name("Killed");
  private static final Name ACCUMULABLES = new Name("Accumulables");
  private static final Name ID = new Name("ID");
  private static final Name UPDATE = new Name("Update");
  private static final Name METADATA = new Name("Metadata");
  private static final Name SQL = new Name("sql");

  private static final Name[] TOTALS = Name.table(StageTotals.namesInEventLogs());

  private final JsonLine line = new JsonLine();
  private final long[] totals = new long[StageTotals.COUNT];
  private long stage;
  private long attempt;
  private boolean hasTask;
  private boolean hasMetrics;
  private long taskId;
  private long index;
  private final String[] known = new String[128]; // executors and hosts, each for thousands of tasks
  private String executor;
  private String host;
  private long launchedAt;
  private long gettingResultAt;
  private long finishedAt;
  private boolean failed;
  private boolean killed;
  private boolean lost;
  private int updates;
  private long[] ids = new long[64];
  private long[] values = new long[64];

  /** Reads a line whose end is unknown; returns the end, or -1 if the line is incomplete or invalid. */
  int readLine(byte[] bytes, int start, int filled) {
    try {
      readObject(bytes, start, filled);
      return line.lineEnd();
    } catch (Fields.Unreadable | IndexOutOfBoundsException e) {
      return -1;
    }
  }

  void read(byte[] bytes, int start, int end) throws Fields.Unreadable {
    readObject(bytes, start, end);
    line.atEnd();
  }

  private void readObject(byte[] bytes, int start, int end) throws Fields.Unreadable {
    line.read(bytes, start, end);
    stage = -1;
    attempt = 0;
    hasMetrics = false;
    hasTask = false;
    lost = false;
    if (!line.enter('{')) throw new Fields.Unreadable("not a JSON object");
    while (line.nextField()) {
      if (line.is(STAGE)) {
        stage = line.number();
      } else if (line.is(ATTEMPT)) {
        attempt = line.number();
      } else if (line.is(END_REASON) && line.enter('{')) {
        while (line.nextField()) {
          if (line.is(REASON)) lost = line.isText(RESUBMITTED);
          else line.skip();
        }
      } else if (line.is(INFO) && !line.isNull()) {
        hasTask = true;
        info();
      } else if (line.is(METRICS) && !line.isNull()) {
        hasMetrics = true;
        Arrays.fill(totals, 0);
        metrics();
      } else {
        line.skip();
      }
    }
    if (stage < 0) throw new Fields.Unreadable("missing \"Stage ID\"");
  }

  /** Whether the event describes a task. */
  boolean isOfTask() {
    return hasTask;
  }

  /** Processes the task end and returns its time. */
  long tell(Executions executions) {
    int place = (int) index;
    boolean success = finishedAt != 0 && !failed && !killed; // as Spark's TaskInfo.successful
    if (hasMetrics) StageTotals.addTimes(totals, launchedAt, gettingResultAt, finishedAt);
    StageValues target = executions.taskEnded(
        (int) stage, (int) attempt, place, taskId, executor, host, launchedAt, finishedAt, success, killed, lost,
        hasMetrics ? totals : null);
    if (target != null) {
      target.expect(updates);
      for (int i = 0; i < updates; i++) target.update(i, ids[i], place, taskId, values[i]);
      executions.taskReported(target, place, success);
    }
    return finishedAt;
  }

  private void info() throws Fields.Unreadable {
    taskId = -1;
    index = -1;
    executor = null;
    host = null;
    launchedAt = 0;
    gettingResultAt = 0;
    finishedAt = 0;
    failed = false;
    killed = false;
    updates = 0;
    if (!line.enter('{')) throw new Fields.Unreadable("\"Task Info\" has the wrong type");
    while (line.nextField()) {
      if (line.is(TASK)) taskId = line.number();
      else if (line.is(INDEX)) index = line.number();
      else if (line.is(EXECUTOR)) executor = line.text(known);
      else if (line.is(HOST)) host = line.text(known);
      else if (line.is(LAUNCHED)) launchedAt = line.number();
      else if (line.is(GETTING_RESULT)) gettingResultAt = line.number();
      else if (line.is(FINISHED)) finishedAt = line.number();
      else if (line.is(FAILED)) failed = line.isTrue();
      else if (line.is(KILLED)) killed = line.isTrue();
      else if (line.is(ACCUMULABLES) && line.enter('[')) accumulables();
      else line.skip();
    }
    if (taskId < 0 || index < 0) throw new Fields.Unreadable("a task lacks \"Task ID\" or \"Index\"");
  }

  /** Updates of SQL metrics, in the task's order. If one of a task's values is not a number, none of them count. */
  private void accumulables() throws Fields.Unreadable {
    boolean areNumbers = true;
    while (line.nextElement()) {
      long id = -1;
      boolean hasUpdate = false;
      boolean isNumber = false;
      boolean isSql = false;
      long update = 0;
      if (!line.enter('{')) throw new Fields.Unreadable("\"Accumulables\" contains a value of the wrong type");
      while (line.nextField()) {
        if (line.is(ID)) {
          id = line.number();
        } else if (line.is(UPDATE)) {
          hasUpdate = !line.isNull();
          isNumber = line.isNumber(true);
          update = line.number;
        } else if (line.is(METADATA)) {
          isSql = line.isText(SQL);
        } else {
          line.skip();
        }
      }
      if (!isSql || !hasUpdate) continue;
      areNumbers &= isNumber && id >= 0;
      if (updates == ids.length) {
        ids = Arrays.copyOf(ids, 2 * updates);
        values = Arrays.copyOf(values, 2 * updates);
      }
      ids[updates] = id;
      values[updates++] = update;
    }
    if (!areNumbers) updates = 0;
  }

  /** All numbers of the object and of nested objects, by name. */
  private void metrics() throws Fields.Unreadable {
    if (!line.enter('{')) throw new Fields.Unreadable("\"Task Metrics\" has the wrong type");
    while (line.nextField()) {
      int place = line.among(TOTALS);
      if (place >= 0) totals[place] = line.number();
      else if (line.enter('{')) nested();
      else line.skip();
    }
  }

  private void nested() throws Fields.Unreadable {
    while (line.nextField()) {
      int place = line.among(TOTALS);
      if (place >= 0) totals[place] = line.number();
      else line.skip();
    }
  }
}
