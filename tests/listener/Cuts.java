package io.joinsight.capture;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;

/** Reads pairs of a text and a limit from standard input and prints the truncated texts as JSON. */
public final class Cuts {
  public static void main(String[] arguments) throws Exception {
    ObjectMapper json = new ObjectMapper();
    ArrayNode left = json.createArrayNode();
    for (JsonNode pair : json.readTree(System.in)) left.add(Texts.truncate(pair.get(1).asInt(), pair.get(0).asText()));
    System.out.println(json.writeValueAsString(left));
  }
}
