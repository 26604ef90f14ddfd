package io.joinsight.capture;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.joinsight.redaction.Reads;
import io.joinsight.redaction.Redaction;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Reads texts from standard input, one array per line, and writes the redacted texts as JSON. */
public final class Redact {
  private static final ObjectMapper JSON = new ObjectMapper();

  public static void main(String[] arguments) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    PrintStream out = new PrintStream(System.out, true, "UTF-8");
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      ArrayNode answers = JSON.createArrayNode();
      for (JsonNode question : JSON.readTree(line)) answers.add(answer(question));
      out.println(JSON.writeValueAsString(answers));
    }
  }

  private static ObjectNode answer(JsonNode question) {
    Map<String, String> conf = strings(question.path("conf"));
    List<String> problems = new ArrayList<>();
    Redaction redaction = new Redaction(conf, problems).ofSession(strings(question.path("session")));
    ObjectNode answer = JSON.createObjectNode();
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
    if (question.path("isConfigured").asBoolean()) {
      ApplicationSettings settings = new ApplicationSettings(conf, new ArrayList<>());
      ObjectNode configuration = answer.putObject("configuration");
      settings.sessionConfiguration(strings(question.path("session")), redaction).forEach(configuration::put);
    }
    Reads.count(question, answer.putArray("reads"));
    problems.forEach(answer.putArray("problems")::add);
    return answer;
  }

  private static void plan(Redaction redaction, JsonNode plan, ArrayNode answer) {
    List<PlanNode> nodes = nodes(plan);
    PlanTexts texts = new PlanTexts(redaction, nodes);
    for (PlanNode node : nodes) {
      answer.addArray().add(texts.name(node.name)).add(texts.simple(node.name, node.simple));
    }
  }

  private static List<PlanNode> nodes(JsonNode plan) {
    List<PlanNode> nodes = new ArrayList<>();
    for (JsonNode node : plan) nodes.add(new PlanNode(node.get(0).asText(), node.get(1).asText()));
    return nodes;
  }

  private static Map<String, String> strings(JsonNode object) {
    Map<String, String> strings = new TreeMap<>();
    object.properties().forEach(entry -> strings.put(entry.getKey(), entry.getValue().asText()));
    return strings;
  }
}
