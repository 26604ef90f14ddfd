package io.joinsight.capture;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Who asked for an execution, by its job tags; Spark Connect's tags are as Spark 4.3 sets them. */
public final class RequestedByTest {
  private static final String SESSION = "7c0eb70f-91f9-4c02-8628-2cfd7f5b7d96";
  private static final String OPERATION = "d430efd0-bd35-4363-b32f-aeff485b57b4";
  private static final String SERVERS = "e7668d7c-d0a8-494f-b932-7f20f1b7a3af";
  private static final List<String> NONE = Collections.emptyList();

  public static void main(String[] arguments) {
    // Spark Connect, and what Spark adds for its own session on the server
    String[] names = {"ana",   "ana_maria", "a_Session_b",
                      "_Tag_", "",          "ünï@x.org",
                      "a\nb",  OPERATION,   "u_Session_" + SERVERS + "_Operation_" + SERVERS};
    for (String user : names) {
      check(user, SESSION, OPERATION, NONE, null, operation(user, SESSION));
      check(
          user, SESSION, OPERATION, Arrays.asList("etl", "a_Tag_b", "x y"), null, operation(user, SESSION),
          tag(user, SESSION, "etl"), tag(user, SESSION, "a_Tag_b"), tag(user, SESSION, "x y"),
          "spark-session-" + SERVERS, "spark-session-" + SERVERS + "-execution-root-id-12");
    }
    // Spark 3.5.0 exchanges the two, but not in tags of users
    check(
        "ana_maria", SESSION, OPERATION, Collections.singletonList("etl"), null, operation(SESSION, "ana_maria"),
        tag("ana_maria", SESSION, "etl"));
    // A tag of another session is not this one's
    check("ana", SESSION, OPERATION, NONE, null, operation("ana", SESSION), tag("bob", SESSION, "etl"));
    // No server
    check(null, null, null, NONE, null);
    check(null, null, null, Collections.singletonList("nightly"), null, "nightly");
    String thread = "spark-session-" + SERVERS + "-thread-" + OPERATION + "-";
    check(
        null, SERVERS, null, Arrays.asList("a-b", "c"), null, "spark-session-" + SERVERS,
        "spark-session-" + SERVERS + "-execution-root-id-3", thread + "a-b", "c");
    // What looks like Spark's tags, but is not
    check(null, null, null, NONE, null, "SparkConnect_OperationTag_User_ana_Session_1_Operation_2");
    check(null, null, null, Collections.singletonList("spark-session-mine"), null, "spark-session-mine");
    // A Thrift server
    RequestedBy statement = RequestedBy.statement("ana", SESSION, OPERATION);
    check("ana", SESSION, OPERATION, Collections.singletonList("t"), statement, "spark-session-" + SERVERS, "t");
    System.out.println("ok");
  }

  private static String operation(String user, String session) {
    return "SparkConnect_OperationTag_User_" + user + "_Session_" + session + "_Operation_" + OPERATION;
  }

  private static String tag(String user, String session, String tag) {
    return "SparkConnect_SessionTag_User_" + user + "_Session_" + session + "_Tag_" + tag;
  }

  private static void check(
      String user, String session, String operation, List<String> tags, RequestedBy statement, String... jobTags) {
    RequestedBy by = RequestedBy.of(jobTags, statement);
    List<Object> found = Arrays.asList(by.user, by.sessionId, by.operationId, by.tags);
    List<Object> expected = Arrays.asList(user, session, operation, tags);
    if (!found.equals(expected)) throw new AssertionError(Arrays.asList(jobTags) + ": " + found);
  }
}
