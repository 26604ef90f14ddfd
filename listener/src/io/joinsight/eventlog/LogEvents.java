package io.joinsight.eventlog;

import io.joinsight.capture.Application;
import io.joinsight.capture.ApplicationSettings;
import io.joinsight.capture.Commands;
import io.joinsight.capture.Executions;
import io.joinsight.capture.Fallbacks;
import io.joinsight.capture.PlanMetric;
import io.joinsight.capture.PlanNode;
import io.joinsight.capture.SparkEvents;
import io.joinsight.capture.Stage;
import io.joinsight.capture.TaskSlots;
import io.joinsight.redaction.Redaction;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Passes the events in an event log, one per line, to {@link Executions}. Task ends, by far the most frequent events,
 * are scanned by {@link TaskEnd}; other relevant events are read as {@link Fields}; the rest are skipped by name.
 */
final class LogEvents implements LogLines.LineReader {
  private static final String SQL = "org.apache.spark.sql.execution.ui.SparkListener";
  private static final String TASK_END = "SparkListenerTaskEnd";
  private static final byte[] START = "{\"Event\":\"".getBytes(StandardCharsets.US_ASCII);
  private static final byte[] TASK_END_START = ("{\"Event\":\"" + TASK_END + "\"").getBytes(StandardCharsets.US_ASCII);
  private static final int MAX_NAME = 200;
  private static final int MAX_EXECUTION = 1 << 26; // capacity in bits
  private static final int MAX_TASKS = 1 << 24; // maximum number of values kept for a stage

  private final Application application;
  private final Executions executions;

  /** When the latest event happened: plan updates have no time of their own. */
  private long now;

  private boolean started;

  private final JsonLine line = new JsonLine();
  private final TaskEnd taskEnd = new TaskEnd();
  private final Map<String, Handler> handlers = new HashMap<>();

  LogEvents(Application application, Executions executions) {
    this.application = application;
    this.executions = executions;
    handlers.put("SparkListenerLogStart", e -> application.sparkVersion = e.text("Spark Version", "unknown"));
    handlers.put("SparkListenerApplicationStart", this::applicationStart);
    handlers.put("SparkListenerApplicationEnd", e -> application.endedAt = e.number("Timestamp", 0));
    handlers.put("SparkListenerEnvironmentUpdate", e -> environmentUpdate(e.strings("Spark Properties")));
    handlers.put("SparkListenerExecutorAdded", this::executorAdded);
    handlers.put("SparkListenerExecutorRemoved", e -> executions.executorRemoved(e.text("Executor ID")));
    handlers.put("SparkListenerJobStart", this::jobStart);
    handlers.put("SparkListenerJobEnd", this::jobEnd);
    handlers.put("SparkListenerStageSubmitted", this::stageSubmitted);
    handlers.put("SparkListenerStageCompleted", this::stageCompleted);
    handlers.put(SQL + "SQLExecutionStart", this::start);
    handlers.put(SQL + "SQLAdaptiveExecutionUpdate", this::adaptiveUpdate);
    handlers.put(
        SQL + "SQLAdaptiveSQLMetricUpdates",
        e -> executions.metricUpdates(execution(e), now, metrics(e, "sqlPlanMetrics")));
    handlers.put(SQL + "DriverAccumUpdates", this::driverUpdates);
    handlers.put(SQL + "SQLExecutionEnd", this::end);
    handlers.put(
        SparkEvents.STATEMENT_START,
        e -> executions.statementStarted(e.text("groupId"), e.text("userName"), e.text("sessionId")));
  }

  /** Processes an event of one kind. */
  private interface Handler {
    void take(Fields event) throws IOException;
  }

  /** Reads a task end, which {@link #take()} then processes. */
  @Override
  public int read(byte[] bytes, int start, int filled) {
    if (filled - start < TASK_END_START.length) return -1;
    for (int i = 0; i < TASK_END_START.length; i++)
      if (bytes[start + i] != TASK_END_START[i]) return -1;
    return taskEnd.readLine(bytes, start, filled);
  }

  /** Processes the task end that was read. */
  void take() {
    if (taskEnd.isOfTask()) at(taskEnd.tell(executions));
  }

  /** Processes a line. Fails if it is not an event, or lacks an identifier. */
  void take(byte[] line, int start, int end) throws IOException {
    String name = name(line, start, end);
    if (name == null) {
      if (isBlank(line, start, end)) return;
      name = object(line, start, end).text("Event");
      if (name == null) throw new Fields.Unreadable("missing \"Event\"");
    }
    if (name.equals(TASK_END)) {
      taskEnd.read(line, start, end);
      take();
      return;
    }
    Handler handler = handlers.get(name);
    if (handler != null) handler.take(object(line, start, end));
  }

  /** The event's name, if the line starts the way Spark starts them. */
  private static String name(byte[] line, int start, int end) {
    int from = start + START.length;
    if (end < from) return null;
    for (int i = 0; i < START.length; i++)
      if (line[start + i] != START[i]) return null;
    for (int i = from; i < end && i - from <= MAX_NAME; i++) {
      if (line[i] == '"') return new String(line, from, i - from, StandardCharsets.ISO_8859_1);
    }
    return null;
  }

  private static boolean isBlank(byte[] line, int start, int end) {
    for (int i = start; i < end; i++)
      if (line[i] > ' ' || line[i] < 0) return false;
    return true;
  }

  private Fields object(byte[] bytes, int start, int end) throws IOException {
    line.read(bytes, start, end);
    if (!line.enter('{')) throw new Fields.Unreadable("not a JSON object");
    Fields fields = Fields.read(line);
    line.atEnd();
    return fields;
  }

  /** The time, which also updates {@link #now}. */
  private long at(long time) {
    now = Math.max(now, time);
    return time;
  }

  // The application

  private void applicationStart(Fields event) throws IOException {
    if (started) return;
    started = true;
    String id = event.text("App ID");
    if (id != null) {
      application.id = id;
      application.attemptId = event.text("App Attempt ID", "");
    }
    application.name = event.text("App Name", application.name);
    application.user = event.text("User", "");
    application.startedAt = at(event.number("Timestamp", 0));
  }

  /** The log contains the application's start; without it, only its executions show that it ran. */
  boolean isStarted() {
    return started;
  }

  private void environmentUpdate(Map<String, String> properties) {
    Map<String, String> conf = new HashMap<>();
    for (Map.Entry<String, String> each : properties.entrySet()) {
      // Spark masks values that look secret, including its own pattern for secrets; this default then applies
      boolean isMaskedPattern =
          Redaction.MASK.equals(each.getValue()) && Redaction.NAMES_SECRETS.contains(each.getKey());
      if (!isMaskedPattern) conf.put(each.getKey(), each.getValue());
    }
    ApplicationSettings settings = new ApplicationSettings(conf, new ArrayList<>());
    application.settings = settings;
    if (!started) application.name = application.settings.applicationName;
  }

  private void executorAdded(Fields event) throws IOException {
    Fields info = event.object("Executor Info");
    if (info == null) throw new Fields.Unreadable("missing \"Executor Info\"");
    int cores = info.required("Total Cores", Integer.MAX_VALUE);
    String node = info.strings("Attributes").get(SparkEvents.NODE);
    executions.executorAdded(event.text("Executor ID"), cores, profile(info), node);
  }

  private static int profile(Fields info) throws IOException {
    return (int) info.number("Resource Profile Id", TaskSlots.DEFAULT_PROFILE);
  }

  // Executions

  private static int execution(Fields event) throws IOException {
    return event.required("executionId", MAX_EXECUTION);
  }

  private void start(Fields event) throws IOException {
    List<String> tags = new ArrayList<>(event.list("jobTags", String.class));
    Collections.sort(tags);
    String group = event.text("jobGroupId");
    executions.start(
        execution(event), event.number("rootExecutionId"), at(event.number("time", 0)), event.text("description", ""),
        event.text("details", ""), event.strings("modifiedConfigs"), tags.toArray(new String[0]),
        group == null || group.isEmpty() ? null : group, planOf(event));
  }

  private void adaptiveUpdate(Fields event) throws IOException {
    PlanNode plan = planOf(event);
    if (plan != null) executions.adaptiveUpdate(execution(event), now, plan);
  }

  private void end(Fields event) throws IOException {
    long time = at(event.number("time", 0));
    executions.end(execution(event), time, event.text("errorMessage"), null, Collections::emptyList);
  }

  private static PlanNode planOf(Fields event) throws IOException {
    PlanNode plan = plan(event.object("sparkPlanInfo"));
    if (plan == null) return null;
    String description = event.text(Fields.DESCRIPTION);
    Commands.addTo(plan, description);
    Fallbacks.addTo(plan, description);
    return plan;
  }

  private static PlanNode plan(Fields info) throws IOException {
    if (info == null) return null;
    PlanNode node = new PlanNode(info.text("nodeName", ""), info.text("simpleString", ""));
    node.metadata = info.strings("metadata");
    node.metrics.addAll(metrics(info, "metrics"));
    for (Fields child : info.list("children", Fields.class)) node.children.add(plan(child));
    return node;
  }

  private static List<PlanMetric> metrics(Fields fields, String name) throws IOException {
    List<PlanMetric> metrics = new ArrayList<>();
    for (Fields each : fields.list(name, Fields.class)) {
      Long id = each.number("accumulatorId");
      if (id == null) throw new Fields.Unreadable("a metric has no \"accumulatorId\"");
      metrics.add(new PlanMetric(each.text("name", ""), id, each.text("metricType", "")));
    }
    return metrics;
  }

  private void driverUpdates(Fields event) throws IOException {
    int id = execution(event);
    List<long[]> pairs = new ArrayList<>();
    for (List<?> each : event.list("accumUpdates", List.class)) {
      boolean isPair = each.size() == 2 && each.get(0) instanceof Long && each.get(1) instanceof Long;
      if (!isPair) throw new Fields.Unreadable("\"accumUpdates\" must contain pairs of numbers");
      pairs.add(new long[] {(Long) each.get(0), (Long) each.get(1)});
    }
    for (long[] pair : pairs) executions.driverUpdate(id, pair[0], pair[1]);
  }

  // Jobs and stages

  private void jobStart(Fields event) throws IOException {
    int job = event.required("Job ID", Integer.MAX_VALUE);
    long time = at(event.number("Submission Time", 0));
    Fields properties = event.object("Properties");
    if (properties == null) return;
    Map<String, String> given = new HashMap<>();
    for (String key : Executions.PROPERTIES) given.put(key, properties.text(key));
    String execution = given.get(Executions.EXECUTION_ID);
    if (execution == null || !execution.matches("\\d{1,8}") || Integer.parseInt(execution) > MAX_EXECUTION) return;
    List<Stage> stages = new ArrayList<>();
    for (Fields each : event.list("Stage Infos", Fields.class)) stages.add(stage(each));
    executions.jobStart(job, time, given::get, stages);
  }

  private void jobEnd(Fields event) throws IOException {
    Fields result = event.object("Job Result");
    boolean succeeded = result != null && "JobSucceeded".equals(result.text("Result"));
    int job = event.required("Job ID", Integer.MAX_VALUE);
    Fields exception = result == null ? null : result.object("Exception");
    String message = exception == null ? null : exception.text("Message");
    executions.jobEnd(job, at(event.number("Completion Time", 0)), succeeded, message);
  }

  private void stageSubmitted(Fields event) throws IOException {
    Stage stage = stage(event.object("Stage Info"));
    executions.stageSubmitted(stage);
    if (stage.submittedAt != null) at(stage.submittedAt);
  }

  private void stageCompleted(Fields event) throws IOException {
    Stage stage = stage(event.object("Stage Info"));
    executions.stageCompleted(stage);
    if (stage.completedAt != null) at(stage.completedAt);
  }

  private static Stage stage(Fields info) throws IOException {
    if (info == null) throw new Fields.Unreadable("missing \"Stage Info\"");
    int attempt = (int) info.number("Stage Attempt ID", 0);
    int tasks = info.number("Number of Tasks") == null ? 0 : info.required("Number of Tasks", MAX_TASKS);
    Stage stage = new Stage(info.required("Stage ID", Integer.MAX_VALUE), attempt, info.text("Stage Name", ""), tasks);
    List<Long> parents = info.list("Parent IDs", Long.class);
    stage.parents = new int[parents.size()];
    for (int i = 0; i < stage.parents.length; i++) stage.parents[i] = parents.get(i).intValue();
    stage.profile = profile(info);
    for (Fields rdd : info.list("RDD Info", Fields.class)) stage.rdd = (int) rdd.number("RDD ID", -1);
    stage.submittedAt = info.number("Submission Time");
    stage.completedAt = info.number("Completion Time");
    stage.failure = info.text("Failure Reason");
    return stage;
  }
}
