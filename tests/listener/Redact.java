package io.joinsight;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.execution.SparkPlanInfo;

/** Reads texts from standard input, redacts them and prints what became of them, all as JSON; test_redaction_of_texts.py asks. */
public final class Redact {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    JsonNode questions = JSON.readTree(System.in);
    ArrayNode answers = JSON.createArrayNode();
    for (JsonNode question : questions) answers.add(answer(question));
    System.out.println(JSON.writeValueAsString(answers));
  }

  private static ObjectNode answer(JsonNode question) {
    SparkConf conf = new SparkConf(false);
    strings(question.path("conf")).forEach(conf::set);
    List<String> problems = new ArrayList<>();
    Redaction redaction = new Redaction(conf, problems).ofSession(strings(question.path("session")));
    ObjectNode answer = JSON.createObjectNode();
    long started = System.nanoTime();
    ArrayNode texts = answer.putArray("texts");
    for (JsonNode text : question.path("texts")) texts.add(redaction.text(text.asText()));
    ArrayNode statements = answer.putArray("statements");
    for (JsonNode text : question.path("statements")) statements.add(redaction.statement(text.asText()));
    ArrayNode errors = answer.putArray("errors");
    for (JsonNode text : question.path("errors")) errors.add(redaction.error(text.asText()));
    ObjectNode properties = answer.putObject("properties");
    redaction.properties(strings(question.path("properties"))).forEach(properties::put);
    plan(redaction, question.path("plan"), answer.putArray("plan"));
    ObjectNode metadata = answer.putObject("metadata");
    PlanTexts texts2 = new PlanTexts(redaction, nodes(question.path("plan")));
    texts2.metadata(strings(question.path("metadata"))).forEach(metadata::put);
    answer.put("ms", (System.nanoTime() - started) / 1_000_000);
    problems.forEach(answer.putArray("problems")::add);
    return answer;
  }

  private static void plan(Redaction redaction, JsonNode plan, ArrayNode answer) {
    List<SparkPlanInfo> nodes = nodes(plan);
    PlanTexts texts = new PlanTexts(redaction, nodes);
    for (SparkPlanInfo node : nodes) {
      answer.addArray().add(texts.name(node.nodeName())).add(texts.simple(node.nodeName(), node.simpleString()));
    }
  }

  private static List<SparkPlanInfo> nodes(JsonNode plan) {
    scala.collection.immutable.Seq nothing = scala.collection.immutable.Nil$.MODULE$;
    List<SparkPlanInfo> nodes = new ArrayList<>();
    for (JsonNode node : plan) {
      nodes.add(
          new SparkPlanInfo(
              node.get(0).asText(), node.get(1).asText(), nothing, scala.collection.immutable.Map$.MODULE$.empty(), nothing));
    }
    return nodes;
  }

  private static Map<String, String> strings(JsonNode object) {
    Map<String, String> strings = new TreeMap<>();
    object.fields().forEachRemaining(entry -> strings.put(entry.getKey(), entry.getValue().asText()));
    return strings;
  }
}
