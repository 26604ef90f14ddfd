package io.joinsight.capture;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Who asked for an execution: a user of a Spark Connect or Thrift server, in a session, with an operation. Outside
 * servers Spark only names the session (since 4.0) and the tags.
 */
final class RequestedBy {
  private static final String ID = "\\p{XDigit}{8}(?:-\\p{XDigit}{4}){3}-\\p{XDigit}{12}";
  private static final String CONNECT = "SparkConnect_";

  /** A user's name may contain anything but a comma; what follows it has a fixed length. */
  private static final Pattern OPERATION = Pattern.compile(
      CONNECT + "OperationTag_User_(?<user>.*)_Session_(?<session>" + ID + ")_Operation_(?<operation>" + ID + ")",
      Pattern.DOTALL);

  /** Spark 3.5.0 and 3.5.1 exchange the user and the session. */
  private static final Pattern EXCHANGED = Pattern.compile(
      CONNECT + "OperationTag_User_(?<session>" + ID + ")_Session_(?<user>.*)_Operation_(?<operation>" + ID + ")",
      Pattern.DOTALL);

  /** The tags that a session without Spark Connect adds. */
  private static final Pattern SESSION = Pattern.compile(
      "spark-session-(?<session>" + ID + ")(?:-execution-root-id-\\d++|-thread-" + ID + "-(?<tag>.+))?+",
      Pattern.DOTALL);

  /** Spark says nothing. */
  static final RequestedBy UNKNOWN = new RequestedBy(null, null, null, new ArrayList<>());

  final String user; // null: unknown
  final String sessionId; // null: unknown
  final String operationId; // null: unknown
  final List<String> tags; // those that the user set

  private RequestedBy(String user, String sessionId, String operationId, List<String> tags) {
    this.user = user;
    this.sessionId = sessionId;
    this.operationId = operationId;
    this.tags = tags;
  }

  /** A statement of a Thrift server. */
  static RequestedBy statement(String user, String sessionId, String id) {
    return new RequestedBy(user, sessionId, id, UNKNOWN.tags);
  }

  /** {@code statement}: the Thrift server's statement that runs it; null if there is none. */
  static RequestedBy of(String[] jobTags, RequestedBy statement) {
    RequestedBy operation = statement == null ? connect(jobTags) : statement;
    String sessionTag = CONNECT + "SessionTag_User_" + operation.user + "_Session_" + operation.sessionId + "_Tag_";
    String session = null;
    List<String> tags = new ArrayList<>();
    for (String jobTag : jobTags) {
      Matcher ofSession = SESSION.matcher(jobTag);
      if (jobTag.startsWith(sessionTag)) {
        tags.add(jobTag.substring(sessionTag.length()));
      } else if (ofSession.matches()) {
        session = ofSession.group("session");
        if (ofSession.group("tag") != null) tags.add(ofSession.group("tag"));
      } else if (!jobTag.startsWith(CONNECT)) {
        tags.add(jobTag);
      }
    }
    String sessionId = operation.sessionId == null ? session : operation.sessionId;
    return new RequestedBy(operation.user, sessionId, operation.operationId, tags);
  }

  private static RequestedBy connect(String[] jobTags) {
    for (String tag : jobTags) {
      Matcher m = OPERATION.matcher(tag);
      if (!m.matches()) m = EXCHANGED.matcher(tag);
      if (m.matches()) {
        return new RequestedBy(m.group("user"), m.group("session"), m.group("operation"), UNKNOWN.tags);
      }
    }
    return UNKNOWN;
  }
}
