package io.joinsight.redaction;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Counts the characters that patterns read. */
public final class Reads {
  private Reads() {}

  /** How often a pattern reads a character of each text: "find" all, or "match" at each place, or "end" at each place. */
  public static void count(JsonNode question, ArrayNode answer) {
    if (!question.has("pattern")) return;
    Pattern pattern = Pattern.compile(question.get("pattern").asText());
    String how = question.get("how").asText();
    for (JsonNode each : question.path("texts")) {
      UserPattern.Counted text = new UserPattern.Counted(each.asText(), Long.MAX_VALUE);
      Matcher m = pattern.matcher(text);
      if (how.equals("find")) {
        while (m.find()) {}
      }
      for (int at = 0; at < text.length() && !how.equals("find"); at++) {
        if (how.equals("match")) m.region(at, text.length()).lookingAt();
        else m.region(Math.max(0, at - 100), at).find();
      }
      answer.add(text.reads());
    }
  }
}
