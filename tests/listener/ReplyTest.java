package io.joinsight.delivery;

import static io.joinsight.Check.check;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;

/** Answers of a collector are told from those of others, and name the lines that it refuses. */
public final class ReplyTest {
  public static void main(String[] arguments) {
    String[] others = {
        "",
        "<html>Bad Request</html>",
        "{}",
        "[]",
        "1",
        "null",
        "{\"accepted\": 1",
        "{\"accepted\": 1}",
        "{\"accepted\": \"1\", \"refused\": []}",
        "{\"accepted\": 1, \"refused\": null}",
        "{\"status\": 400, \"error\": \"Bad Request\", \"path\": \"/\"}",
        "[{\"accepted\": 1, \"refused\": []}]",
        "{\"x\": {\"accepted\": 1, \"refused\": []}}",
    };
    for (String text : others) check(!new Reply(400, bytes(text), 0).isOfCollector(1), text);
    Reply reply = new Reply(
        400,
        bytes(
            "{\"refused\": [{\"line\": 2, \"reason\": \"{\\\"line\\\": 9}\"}, {\"reason\": \"x\", \"at\": {\"line\": 8}, \"line\": 5}],"
            + " \"new\": [{\"line\": 7}], \"accepted\": 3}"),
        0);
    check(
        reply.isOfCollector(5) && !reply.isOfCollector(4)
            && reply.refusedLines().equals(new HashSet<>(Arrays.asList(2, 5))),
        reply.refusedLines().toString());
    System.out.println("ok");
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }
}
