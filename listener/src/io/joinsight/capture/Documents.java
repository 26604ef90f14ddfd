package io.joinsight.capture;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import io.joinsight.redaction.Redaction;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.metric.CustomMetric;

/** Writes documents, a JSON object each, under version 1 of the JSON Schema. Used by the sender's thread only. */
public final class Documents {
  private static final int SCHEMA_VERSION = 1;

  /** A notebook that adds a tag to its session for each query and never removes one has more. */
  private static final int MAX_TAGS = 100;

  /** Characters of the name of an executor or a host. */
  private static final int MAX_NAME = 256;

  static final String VERSION = version();

  private final JsonFactory json = new JsonFactory();
  private final Application application;
  public final String listenerId;

  public Documents(Application application) {
    this.application = application;
    listenerId = application.listenerId();
  }

  private interface Body {
    void write(JsonGenerator g) throws Throwable;
  }

  private byte[] document(String kind, SequenceTracker.SequenceNumber stamp, Body body) throws Throwable {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream(16 * 1024);
    // Jackson's byte generator throws at half a surrogate pair in a user's text; a Writer replaces it with "?".
    try (JsonGenerator g = json.createGenerator(new OutputStreamWriter(bytes, StandardCharsets.UTF_8))) {
      g.writeStartObject();
      g.writeStringField("kind", kind);
      g.writeNumberField("schema_version", SCHEMA_VERSION);
      g.writeStringField("origin", application.isLive ? "live" : "event_log");
      g.writeObjectFieldStart("listener");
      g.writeStringField("id", application.listenerId());
      g.writeStringField("version", VERSION);
      g.writeStringField("spark_version", application.sparkVersion);
      g.writeEndObject();
      g.writeNumberField("sequence", stamp.number);
      if (!stamp.supersedes.isEmpty()) {
        g.writeFieldName("supersedes");
        stamp.supersedes.write(g);
      }
      g.writeStringField("application_id", application.id);
      g.writeStringField("attempt_id", application.attemptId);
      g.writeStringField("application_name", application.settings.redaction.text(application.name));
      g.writeStringField("job_name", application.settings.redaction.text(application.jobName()));
      body.write(g);
      g.writeEndObject();
    }
    bytes.write('\n');
    return bytes.toByteArray();
  }

  /** {@code tracker}: the listener's; null for an event log. */
  public byte[] application(SequenceTracker.SequenceNumber stamp, SequenceTracker tracker) throws Throwable {
    return document("application", stamp, g -> {
      g.writeStringField("state", application.endedAt == null ? "running" : "ended");
      g.writeNumberField("started_at_ms", application.startedAt);
      number(g, "ended_at_ms", application.endedAt);
      g.writeStringField("user", application.settings.redaction.text(application.user));
      g.writeStringField("master", application.settings.redaction.text(application.settings.master));
      strings(g, "tags", application.settings.tags);
      strings(g, "configuration", application.settings.configuration);
      if (tracker == null) return;
      g.writeNumberField("documents_made", tracker.made());
      g.writeObjectFieldStart("dropped");
      for (Map.Entry<String, IdRanges> entry : tracker.dropped().entrySet()) {
        g.writeFieldName(entry.getKey());
        entry.getValue().write(g);
      }
      g.writeEndObject();
      g.writeFieldName("refused");
      tracker.refused().write(g);
      g.writeNumberField("listener_failures", application.failures);
      number(g, "events_dropped", application.droppedEvents());
    });
  }

  public byte[] execution(SequenceTracker.SequenceNumber stamp, Snapshot s) throws Throwable {
    return document("execution", stamp, g -> {
      g.writeNumberField("execution_id", s.executionId);
      g.writeNumberField("root_execution_id", s.rootId);
      g.writeStringField("state", s.state);
      g.writeNumberField("started_at_ms", s.startedAt);
      number(g, "ended_at_ms", s.endedAt);
      number(g, "reported_at_ms", s.reportedAt);
      Redaction redaction = s.redaction;
      text(g, "description", redaction.statement(s.description), Redaction.MAX_TEXT);
      text(g, "call_site", redaction.statement(s.callSite), Redaction.MAX_CALL_SITE);
      text(g, "statement", redaction.statement(s.statement), Redaction.MAX_TEXT);
      text(g, "error", redaction.error(s.error), Redaction.MAX_TEXT);
      text(g, "job_group", redaction.text(s.jobGroup), Redaction.MAX_TEXT);
      tags(g, "job_tags", Arrays.asList(s.jobTags), redaction);
      text(g, "user", redaction.text(s.requestedBy.user), Redaction.MAX_TEXT);
      text(g, "session_id", redaction.text(s.requestedBy.sessionId), Redaction.MAX_TEXT);
      text(g, "operation_id", redaction.text(s.requestedBy.operationId), Redaction.MAX_TEXT);
      tags(g, "user_tags", s.requestedBy.tags, redaction);
      text(g, "streaming_query_id", redaction.text(s.streamingQueryId), Redaction.MAX_TEXT);
      if (s.streamingBatchId != null) number(g, "streaming_batch_id", parse(s.streamingBatchId));
      strings(g, "tags", application.settings.tags);
      strings(g, "configuration", s.configuration);
      PlanTable table = new PlanTable(s.plans);
      g.writeArrayFieldStart("nodes");
      PlanTexts texts = new PlanTexts(redaction, table.nodes());
      for (PlanNode node : table.nodes()) node(g, node, texts);
      g.writeEndArray();
      g.writeArrayFieldStart("plans");
      for (PlanTable.Tree tree : table.trees) {
        g.writeStartObject();
        g.writeNumberField("at_ms", tree.at);
        ints(g, "nodes", tree.nodes);
        ints(g, "parents", tree.parents);
        g.writeEndObject();
      }
      g.writeEndArray();
      g.writeNumberField("plans_dropped", s.plansDropped);
      if (!s.joinHints.isEmpty()) {
        g.writeArrayFieldStart("join_hints");
        for (JoinHint hint : s.joinHints) hint(g, hint);
        g.writeEndArray();
      }
      g.writeArrayFieldStart("announced");
      for (PlanMetric metric : s.metricUpdates) metric(g, metric);
      g.writeEndArray();
      g.writeArrayFieldStart("accumulators");
      for (AccumulatorValues values : s.values) accumulator(g, values);
      g.writeEndArray();
      g.writeArrayFieldStart("jobs");
      for (LiveExecution.Job job : s.jobs) job(g, job);
      g.writeEndArray();
      g.writeArrayFieldStart("stages");
      for (StageAttempt stage : s.stages) stage(g, stage, s.isFinal(), redaction);
      g.writeEndArray();
      if (!s.nested.isEmpty()) {
        g.writeArrayFieldStart("nested");
        for (LiveExecution.Nested each : s.nested) nested(g, each);
        g.writeEndArray();
      }
      g.writeArrayFieldStart("incomplete");
      for (Incomplete reason : s.incomplete) g.writeString(reason.text);
      g.writeEndArray();
      Set<String> codes = new LinkedHashSet<>();
      for (Incomplete reason : s.incomplete) codes.add(reason.code);
      g.writeArrayFieldStart("incomplete_codes");
      for (String code : codes) g.writeString(code);
      g.writeEndArray();
    });
  }

  private static void node(JsonGenerator g, PlanNode node, PlanTexts texts) throws IOException {
    g.writeStartObject();
    g.writeStringField("name", texts.name(node.name));
    g.writeStringField("simple", texts.simple(node.name, node.simple));
    Map<String, String> metadata = texts.metadata(node.metadata);
    if (!metadata.isEmpty()) strings(g, "metadata", metadata);
    if (!node.metrics.isEmpty()) {
      g.writeArrayFieldStart("metrics");
      for (PlanMetric metric : node.metrics) metric(g, metric);
      g.writeEndArray();
    }
    g.writeEndObject();
  }

  private static void hint(JsonGenerator g, JoinHint hint) throws IOException {
    g.writeStartObject();
    g.writeNumberField("metric", hint.metric);
    text(g, "left", hint.left, Redaction.MAX_TEXT);
    text(g, "right", hint.right, Redaction.MAX_TEXT);
    g.writeEndObject();
  }

  private static void metric(JsonGenerator g, PlanMetric metric) throws IOException {
    g.writeStartObject();
    g.writeStringField("name", metric.name);
    g.writeNumberField("id", metric.id);
    g.writeStringField("type", metric.type);
    g.writeEndObject();
  }

  private void accumulator(JsonGenerator g, AccumulatorValues values) throws IOException {
    AccumulatorValues.Aggregate s = values.aggregate();
    g.writeStartObject();
    g.writeNumberField("id", values.id);
    g.writeStringField("type", values.type);
    Summary summary = s.summary;
    g.writeNumberField("count", summary == null ? 0 : summary.count);
    if (summary != null) {
      g.writeNumberField("sum", summary.sum);
      summary(g, summary);
      if (summary.positive > 0 && summary.positive < summary.count) {
        g.writeNumberField("positive", summary.positive);
        g.writeNumberField("positive_median", summary.positiveMedian);
      }
    }
    if (s.isApproximate) g.writeBooleanField("approximate", true);
    if (s.isMaxOfTask) {
      g.writeNumberField("max_stage", s.maxStage);
      g.writeNumberField("max_stage_attempt", s.maxAttempt);
      g.writeNumberField("max_task", s.maxTask);
    }
    if (s.stages.length > 0) ints(g, "stages", s.stages);
    if (values.isCustom()) g.writeStringField("text", application.isLive ? customText(values.type, s.all) : "N/A");
    g.writeEndObject();
  }

  /** A DataSource V2 metric has its own aggregation, in a class that only the driver has. */
  private static String customText(String type, long[] values) {
    try {
      String className = type.substring(type.indexOf('_') + 1);
      Class<?> metric = Class.forName(className, true, Thread.currentThread().getContextClassLoader());
      return ((CustomMetric) metric.getConstructor().newInstance()).aggregateTaskMetrics(values);
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      return "N/A"; // as Spark's UI shows it
    }
  }

  private static void job(JsonGenerator g, LiveExecution.Job job) throws IOException {
    g.writeStartObject();
    g.writeNumberField("id", job.id);
    g.writeNumberField("submitted_at_ms", job.submittedAt);
    ints(g, "stages", job.stages);
    g.writeStringField("state", job.state);
    number(g, "ended_at_ms", job.endedAt);
    g.writeEndObject();
  }

  private static void nested(JsonGenerator g, LiveExecution.Nested nested) throws IOException {
    g.writeStartObject();
    g.writeNumberField("id", nested.id);
    g.writeNumberField("started_at_ms", nested.startedAt);
    number(g, "ended_at_ms", nested.endedAt);
    g.writeEndObject();
  }

  private static void stage(JsonGenerator g, StageAttempt stage, boolean executionEnded, Redaction redaction)
      throws IOException {
    g.writeStartObject();
    g.writeNumberField("id", stage.stageId);
    g.writeNumberField("attempt", stage.attempt);
    g.writeStringField("name", redaction.statement(stage.name));
    g.writeNumberField("tasks", stage.tasks);
    String state = stage.completed ? (stage.failure == null ? "succeeded" : "failed") : "running";
    if (stage.submittedAt == null) state = executionEnded ? "skipped" : "pending";
    g.writeStringField("state", state);
    g.writeNumberField("succeeded_tasks", stage.succeeded);
    g.writeNumberField("failed_tasks", stage.failed);
    g.writeNumberField("killed_tasks", stage.killed);
    number(g, "submitted_at_ms", stage.submittedAt);
    number(g, "completed_at_ms", stage.completedAt);
    text(g, "failure", redaction.error(stage.failure), Redaction.MAX_TEXT);
    if (stage.parents.length > 0) ints(g, "parents", stage.parents);
    if (stage.rdd >= 0) g.writeNumberField("rdd", stage.rdd);
    if (stage.firstLaunch() >= 0) g.writeNumberField("first_launch_at_ms", stage.firstLaunch());
    if (stage.lastFinish() >= 0) g.writeNumberField("last_finish_at_ms", stage.lastFinish());
    if (stage.oldestTask() >= 0 && state.equals("running") && !executionEnded) {
      g.writeNumberField("oldest_launch_at_ms", stage.oldestLaunch());
      g.writeNumberField("oldest_task", stage.oldestTask());
    }
    Occupancy occupancy = stage.occupancy();
    int known = occupancy == null ? 1 : occupancy.width; // as many slots there are at least
    if (stage.slots >= known) g.writeNumberField("slots", stage.slots);
    if (occupancy != null) {
      g.writeNumberField("width", occupancy.width);
      if (occupancy.tailAt >= 0) g.writeNumberField("tail_at_ms", occupancy.tailAt);
    }
    if (stage.executors() > 0) {
      g.writeNumberField("executors", stage.executors());
      g.writeNumberField("hosts", stage.hosts());
    }
    WorkByExecutor.Slow slowest = stage.slowest();
    if (slowest != null) slowest(g, slowest, redaction);
    for (int i = 0; i < StageTotals.COUNT; i++) {
      if (stage.totals[i] != 0 || (i >= StageTotals.FIRST_WITH_ZERO && stage.submittedAt != null))
        g.writeNumberField(StageTotals.name(i), Math.max(0, stage.totals[i]));
    }
    for (int i = 0; i < StageAttempt.SUMMARIES.length; i++) {
      Summary summary = stage.summary(i);
      if (summary == null || (summary.max == 0 && i >= StageAttempt.FIRST_OF_SHUFFLE)) continue;
      g.writeObjectFieldStart(StageAttempt.SUMMARIES[i]);
      summary(g, summary);
      if (i == 0) { // the quartiles of the run time
        g.writeNumberField("p25", summary.p25);
        g.writeNumberField("p75", summary.p75);
      }
      g.writeNumberField("max_task", stage.maxTask(i));
      g.writeEndObject();
    }
    if (!stage.samples().isEmpty()) samples(g, stage.samples());
    g.writeEndObject();
  }

  private static void slowest(JsonGenerator g, WorkByExecutor.Slow slow, Redaction redaction) throws IOException {
    g.writeObjectFieldStart("slowest");
    text(g, "executor", redaction.text(slow.executor), MAX_NAME);
    text(g, "host", redaction.text(slow.host), MAX_NAME);
    g.writeNumberField("tasks", slow.tasks);
    g.writeNumberField("run_time_ms", slow.runTime);
    g.writeNumberField("cpu_time_ms", slow.cpuTime / 1_000_000);
    g.writeNumberField("median_ms", slow.median);
    g.writeNumberField("others_median_ms", slow.medianOfOthers);
    g.writeNumberField("excess_ms", slow.excess);
    g.writeEndObject();
  }

  private static void samples(JsonGenerator g, Map<String, Long> samples) throws IOException {
    g.writeObjectFieldStart("samples");
    for (Map.Entry<String, Long> entry : new TreeMap<>(samples).entrySet()) {
      g.writeNumberField(entry.getKey(), entry.getValue());
    }
    g.writeEndObject();
  }

  private static void summary(JsonGenerator g, Summary summary) throws IOException {
    g.writeNumberField("min", summary.min);
    g.writeNumberField("median", summary.median);
    g.writeNumberField("p95", summary.p95);
    g.writeNumberField("max", summary.max);
  }

  private static void number(JsonGenerator g, String name, Long value) throws IOException {
    if (value != null) g.writeNumberField(name, value);
  }

  private static Long parse(String number) {
    try {
      return Long.valueOf(number);
    } catch (NumberFormatException e) {
      return null;
    }
  }

  private static void text(JsonGenerator g, String name, String value, int limit) throws IOException {
    if (value != null) g.writeStringField(name, Texts.truncate(limit, value));
  }

  private static void tags(JsonGenerator g, String name, List<String> tags, Redaction redaction) throws IOException {
    g.writeArrayFieldStart(name);
    for (String tag : tags.subList(0, Math.min(MAX_TAGS, tags.size()))) {
      g.writeString(Texts.truncate(Redaction.MAX_TEXT, redaction.text(tag)));
    }
    g.writeEndArray();
  }

  private static void ints(JsonGenerator g, String name, int[] values) throws IOException {
    g.writeArrayFieldStart(name);
    for (int value : values) g.writeNumber(value);
    g.writeEndArray();
  }

  private static void strings(JsonGenerator g, String name, Map<String, String> values) throws IOException {
    g.writeObjectFieldStart(name);
    for (Map.Entry<String, String> entry : values.entrySet()) g.writeStringField(entry.getKey(), entry.getValue());
    g.writeEndObject();
  }

  private static String version() {
    String version = Documents.class.getPackage().getImplementationVersion();
    return version == null ? "unknown" : version;
  }
}
