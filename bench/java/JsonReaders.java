package io.joinsight.eventlog;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import io.joinsight.capture.StageTotals;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Scans the lines of an uncompressed event log with {@link TaskEnd} and {@link Fields}, and the same fields with
 * Jackson's streaming parser, in turns; prints MB a second of CPU of each for each round. Arguments: the log, how often
 * it is repeated in a round, rounds.
 */
public final class JsonReaders {
  private static final byte[] TASK_END = "{\"Event\":\"SparkListenerTaskEnd\"".getBytes(StandardCharsets.US_ASCII);
  private static final String[] HANDLED = {
      "LogStart",
      "ApplicationStart",
      "ApplicationEnd",
      "EnvironmentUpdate",
      "ExecutorAdded",
      "ExecutorRemoved",
      "JobStart",
      "JobEnd",
      "StageSubmitted",
      "StageCompleted",
      "SQLExecutionStart",
      "SQLAdaptiveExecutionUpdate",
      "SQLAdaptiveSQLMetricUpdates",
      "DriverAccumUpdates",
      "SQLExecutionEnd"};

  private final JsonFactory factory = new JsonFactory();
  private final Set<String> totalNames = new HashSet<>();
  private final Set<String> kept;
  private final TaskEnd taskEnd = new TaskEnd();
  private final JsonLine line = new JsonLine();
  private long checksum;

  private JsonReaders(Set<String> kept) {
    this.kept = kept;
    for (String name : StageTotals.namesInEventLogs()) totalNames.add(name);
  }

  public static void main(String[] arguments) throws Exception {
    byte[] log = Files.readAllBytes(Paths.get(arguments[0]));
    java.lang.reflect.Field names = Fields.class.getDeclaredField("NAMES");
    names.setAccessible(true);
    Set<String> kept = new HashSet<>(java.util.Arrays.asList((String[]) names.get(null)));
    JsonReaders readers = new JsonReaders(kept);
    int times = Integer.parseInt(arguments[1]);
    for (int round = 0; round < Integer.parseInt(arguments[2]); round++) {
      double ours = readers.rate(log, times, true);
      double jackson = readers.rate(log, times, false);
      System.out.printf("%d\t%.0f\t%.0f\t%.2f%n", round, ours, jackson, ours / jackson);
    }
    if (readers.checksum == 42) System.out.println();
  }

  private double rate(byte[] log, int times, boolean isOurs) throws IOException {
    long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
    for (int i = 0; i < times; i++) scan(log, isOurs);
    long took = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before;
    return (double) log.length * times / 1e6 / (took / 1e9);
  }

  private void scan(byte[] log, boolean isOurs) throws IOException {
    for (int start = 0; start < log.length;) {
      boolean isTask = startsWith(log, start, TASK_END);
      int end = -1;
      if (isTask && isOurs) end = taskEnd.readLine(log, start, log.length);
      if (end < 0) {
        end = start;
        while (end < log.length && log[end] != '\n') end++;
        if (isTask) {
          jacksonTaskEnd(log, start, end);
        } else if (isHandled(log, start, end)) {
          if (isOurs) {
            line.read(log, start, end);
            line.enter('{');
            checksum += Fields.read(line).hashCode();
          } else {
            try (JsonParser p = factory.createParser(log, start, end - start)) {
              p.nextToken();
              checksum += fields(p, false).hashCode();
            }
          }
        }
      }
      start = end + 1;
    }
  }

  private static boolean isHandled(byte[] log, int start, int end) {
    String name = new String(log, start, Math.min(end - start, 120), StandardCharsets.US_ASCII);
    for (String each : HANDLED)
      if (name.contains("SparkListener" + each + "\"")) return true;
    return false;
  }

  private static boolean startsWith(byte[] log, int start, byte[] with) {
    if (start + with.length > log.length) return false;
    for (int i = 0; i < with.length; i++)
      if (log[start + i] != with[i]) return false;
    return true;
  }

  private Map<String, Object> fields(JsonParser p, boolean all) throws IOException {
    Map<String, Object> values = new HashMap<>();
    for (String name; (name = p.nextFieldName()) != null;) {
      JsonToken token = p.nextToken();
      if (!all && !kept.contains(name)) p.skipChildren();
      else values.put(name, value(p, token, name.equals("Spark Properties") || name.equals("metadata")));
    }
    return values;
  }

  private Object value(JsonParser p, JsonToken token, boolean all) throws IOException {
    switch (token) {
      case START_OBJECT:
        return fields(p, all);
      case START_ARRAY:
        List<Object> list = new ArrayList<>();
        for (JsonToken each; (each = p.nextToken()) != JsonToken.END_ARRAY;) list.add(value(p, each, false));
        return list;
      case VALUE_STRING:
        return p.getText();
      case VALUE_NUMBER_INT:
        return p.getLongValue();
      default:
        return null;
    }
  }

  private void jacksonTaskEnd(byte[] log, int start, int end) throws IOException {
    try (JsonParser p = factory.createParser(log, start, end - start)) {
      p.nextToken();
      for (String name; (name = p.nextFieldName()) != null;) {
        p.nextToken();
        switch (name) {
          case "Stage ID":
          case "Stage Attempt ID":
            checksum += p.getLongValue();
            break;
          case "Task Info":
            info(p);
            break;
          case "Task Metrics":
            totals(p);
            break;
          default:
            p.skipChildren();
        }
      }
    }
  }

  private void info(JsonParser p) throws IOException {
    for (String name; (name = p.nextFieldName()) != null;) {
      p.nextToken();
      switch (name) {
        case "Task ID":
        case "Index":
        case "Launch Time":
        case "Getting Result Time":
        case "Finish Time":
          checksum += p.getLongValue();
          break;
        case "Executor ID":
        case "Host":
          checksum += p.getText().hashCode();
          break;
        case "Failed":
        case "Killed":
          checksum += p.getBooleanValue() ? 1 : 0;
          break;
        case "Accumulables":
          while (p.nextToken() == JsonToken.START_OBJECT) accumulable(p);
          break;
        default:
          p.skipChildren();
      }
    }
  }

  private void accumulable(JsonParser p) throws IOException {
    for (String name; (name = p.nextFieldName()) != null;) {
      JsonToken token = p.nextToken();
      if (name.equals("ID")) checksum += p.getLongValue();
      else if (name.equals("Update") && token == JsonToken.VALUE_NUMBER_INT) checksum += p.getLongValue();
      else if (name.equals("Update") && token == JsonToken.VALUE_STRING) checksum += p.getText().length();
      else if (name.equals("Metadata")) checksum += p.getText().equals("sql") ? 1 : 0;
      else p.skipChildren();
    }
  }

  private void totals(JsonParser p) throws IOException {
    for (String name; (name = p.nextFieldName()) != null;) {
      JsonToken token = p.nextToken();
      if (totalNames.contains(name)) checksum += p.getLongValue();
      else if (token == JsonToken.START_OBJECT) totals(p);
      else p.skipChildren();
    }
  }
}
