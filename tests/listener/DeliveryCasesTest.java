package io.joinsight.delivery;

import static io.joinsight.Check.check;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.joinsight.capture.SequenceTracker;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkConf;

/** The cases of {@code tests/delivery_cases.json}: names of spool files, and what follows from a reply. */
public final class DeliveryCasesTest {
  private static final byte[] TAKEN = "{\"accepted\": 1, \"refused\": []}".getBytes(StandardCharsets.UTF_8);

  public static void main(String[] arguments) throws Exception {
    JsonNode cases = new ObjectMapper().readTree(Paths.get(arguments[1]).toFile());
    names(cases.get("names").properties());
    for (JsonNode each : cases.get("replies")) reply(each, Paths.get(arguments[0]));
    System.out.println("ok");
  }

  /** Those of complete files stand in the order of their age. */
  private static void names(Set<Map.Entry<String, JsonNode>> names) {
    List<SpoolName> complete = new ArrayList<>();
    for (Map.Entry<String, JsonNode> each : names) {
      SpoolName name = SpoolName.parse(each.getKey());
      boolean isComplete = name != null && !name.isUnfinished;
      check((isComplete ? name.kind.name() : "null").equals(each.getValue().asText()), each.getKey());
      if (isComplete) complete.add(name);
    }
    List<SpoolName> sorted = new ArrayList<>(complete);
    Collections.sort(sorted);
    check(sorted.equals(complete), "the order of names");
  }

  private static void reply(JsonNode its, Path folder) {
    byte[] body = its.get("body").asText().getBytes(StandardCharsets.UTF_8);
    int[] posts = {0};
    Transport transport = new Transport() {
      @Override
      public Reply post(byte[] batch) {
        return posts[0]++ == 0 ? new Reply(its.get("status").asInt(), body, 0) : new Reply(200, TAKEN, 0);
      }

      @Override
      public void abort() {}
    };
    SequenceTracker tracker = new SequenceTracker();
    List<Batch.Line> lines = new ArrayList<>();
    for (int i = 0; i < its.get("documents").asInt(); i++)
      lines.add(
          new Batch.Line(("{\"line\": " + i + "}\n").getBytes(StandardCharsets.UTF_8), tracker.next(i, true), true));
    Settings settings = new Settings(new SparkConf(false).set("spark.joinsight.url", "http://collector"));
    Spool spool = new Spool(folder.resolve("spool"), 1 << 20, 1 << 20, "listener", tracker);
    Delivery delivery = new Delivery(settings, transport, tracker, spool, new Backoff(System::nanoTime));
    boolean isTaken = delivery.deliver(Batch.of(lines)) == Delivery.Outcome.TAKEN;
    check((isTaken ? posts[0] == 3 ? "halved" : "taken" : "kept").equals(its.get("then").asText()), its.toString());
    check(tracker.refused().count() == its.path("refused").asLong(), "refused: " + its);
  }
}
