package io.joinsight.eventlog;

import io.joinsight.capture.Commands;
import io.joinsight.capture.Fallbacks;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The fields of a JSON object in an event log. Only fields in use are decoded; all others are skipped. */
final class Fields {
  /** A required field is missing or has the wrong type. */
  static final class Unreadable extends IOException {
    private static final long serialVersionUID = 1;

    Unreadable(String problem) {
      super(problem);
    }
  }

  /** A list of which the first element is read. */
  private static final String FIRST_IS_ENOUGH = "RDD Info";

  /** A long text, of which little is of use, and mostly nothing. */
  static final String DESCRIPTION = "physicalPlanDescription";

  private static final byte[] OF_USE = Fallbacks.MARK.getBytes(StandardCharsets.US_ASCII);
  private static final byte[] OF_COMMAND = Commands.START.replace("\n", "\\n").getBytes(StandardCharsets.US_ASCII);

  /**
   * Names of fields in all events, as Spark's JsonProtocol writes them. For the first ones, all nested fields are kept.
   */
  private static final String[] NAMES = {
      "Spark Properties",
      "modifiedConfigs",
      "metadata",
      "Attributes",
      "Event",
      "Spark Version",
      "App Name",
      "App ID",
      "Timestamp",
      "User",
      "App Attempt ID",
      "executionId",
      "rootExecutionId",
      "description",
      "details",
      DESCRIPTION,
      "sparkPlanInfo",
      "time",
      "jobTags",
      "jobGroupId",
      "groupId",
      "userName",
      "sessionId",
      "errorMessage",
      "accumUpdates",
      "sqlPlanMetrics",
      "nodeName",
      "simpleString",
      "children",
      "metrics",
      "name",
      "accumulatorId",
      "metricType",
      "Job ID",
      "Submission Time",
      "Completion Time",
      "Stage Infos",
      "Properties",
      "Job Result",
      "Result",
      "Exception",
      "Message",
      "Stage Info",
      "Stage ID",
      "Stage Attempt ID",
      "Stage Name",
      "Number of Tasks",
      "Failure Reason",
      "spark.sql.execution.id",
      "spark.jobGroup.id",
      "spark.job.tags",
      "sql.streaming.queryId",
      "streaming.sql.batchId",
      "Parent IDs",
      "RDD ID",
      "Executor ID",
      "Executor Info",
      "Total Cores",
      "Resource Profile Id",
      FIRST_IS_ENOUGH,
  };

  private static final int MAPS = 4;
  private static final JsonLine.Name[] KEPT = JsonLine.Name.table(NAMES);

  private final Map<String, Object> values;

  private Fields(Map<String, Object> values) {
    this.values = values;
  }

  /** Reads the object that was entered. */
  static Fields read(JsonLine line) throws Unreadable {
    return read(line, false);
  }

  private static Fields read(JsonLine line, boolean all) throws Unreadable {
    Map<String, Object> values = new HashMap<>();
    while (line.nextField()) {
      int place = all ? -1 : line.among(KEPT);
      String name = all ? line.name() : place < 0 ? null : NAMES[place];
      if (name == null) line.skip();
      else if (name.equals(FIRST_IS_ENOUGH)) values.put(name, first(line));
      else if (name.equals(DESCRIPTION)) values.put(name, line.textWith(OF_COMMAND, OF_USE));
      else values.put(name, value(line, place >= 0 && place < MAPS));
    }
    return new Fields(values);
  }

  private static Object first(JsonLine line) throws Unreadable {
    if (line.peek() != '[') return value(line, false);
    List<Object> list = new ArrayList<>(1);
    line.enter('[');
    while (line.nextElement()) {
      if (list.isEmpty()) list.add(value(line, false));
      else line.skip();
    }
    return list;
  }

  private static Object value(JsonLine line, boolean all) throws Unreadable {
    switch (line.peek()) {
      case '{':
        line.enter('{');
        return read(line, all);
      case '[':
        line.enter('[');
        List<Object> list = new ArrayList<>();
        while (line.nextElement()) list.add(value(line, false));
        return list;
      case '"':
        return line.text();
      case 'n':
        line.skip();
        return null;
      default: // no field in use is a fraction or a boolean
        return line.isNumber(false) ? (Object) line.number : Boolean.FALSE;
    }
  }

  private <T> T get(String name, Class<T> type) throws Unreadable {
    Object value = values.get(name);
    if (value != null && !type.isInstance(value)) throw new Unreadable("\"" + name + "\" has the wrong type");
    return type.cast(value);
  }

  /** Null if absent. */
  Long number(String name) throws Unreadable {
    return get(name, Long.class);
  }

  long number(String name, long otherwise) throws Unreadable {
    Long number = number(name);
    return number == null ? otherwise : number;
  }

  /** A required identifier or count, up to this maximum. */
  int required(String name, int most) throws Unreadable {
    Long number = number(name);
    if (number == null) throw new Unreadable("missing \"" + name + "\"");
    if (number < 0 || number > most) throw new Unreadable("\"" + name + "\" is out of range");
    return number.intValue();
  }

  /** Null if absent. */
  String text(String name) throws Unreadable {
    return get(name, String.class);
  }

  String text(String name, String otherwise) throws Unreadable {
    String text = text(name);
    return text == null ? otherwise : text;
  }

  /** Null if absent. */
  Fields object(String name) throws Unreadable {
    return get(name, Fields.class);
  }

  /** Empty if absent. */
  <T> List<T> list(String name, Class<T> type) throws Unreadable {
    List<?> list = get(name, List.class);
    if (list == null) return Collections.emptyList();
    List<T> checked = new ArrayList<>(list.size());
    for (Object each : list) {
      if (!type.isInstance(each)) throw new Unreadable("\"" + name + "\" contains a value of the wrong type");
      checked.add(type.cast(each));
    }
    return checked;
  }

  /** Empty if absent. */
  Map<String, String> strings(String name) throws Unreadable {
    Fields object = object(name);
    if (object == null || object.values.isEmpty()) return Collections.emptyMap();
    Map<String, String> strings = new LinkedHashMap<>();
    for (String key : object.values.keySet()) strings.put(key, object.text(key, ""));
    return strings;
  }
}
