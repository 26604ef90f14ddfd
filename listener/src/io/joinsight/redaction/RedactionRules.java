package io.joinsight.redaction;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/** The contents of {@code redaction.json}, under its names. */
final class RedactionRules {
  private static final JsonNode FILE = read();
  static final String MASK = FILE.required("mask").asText();

  /** A pattern with its stems: a text that contains none of them, in lower case, has no match. This check is fast. */
  static final class Rule {
    final List<String> stems;
    final Pattern pattern;

    private Rule(JsonNode rule) {
      stems = strings(rule.required("stems"));
      pattern = compile(rule);
    }

    boolean mayMatch(String lowerCase) {
      return containsAny(lowerCase, stems);
    }
  }

  private RedactionRules() {}

  private static JsonNode read() {
    try (InputStream file = RedactionRules.class.getResourceAsStream("redaction.json")) {
      return new ObjectMapper().readTree(file);
    } catch (IOException e) {
      throw new IllegalStateException("the jar's redaction.json cannot be read", e);
    }
  }

  static int limit(String name) {
    return FILE.required("limits").required(name).asInt();
  }

  static Pattern pattern(String name) {
    return compile(FILE.required(name));
  }

  static List<Rule> rules(String name) {
    List<Rule> rules = new ArrayList<>();
    for (JsonNode rule : FILE.required(name)) rules.add(new Rule(rule));
    return rules;
  }

  static List<String> stems(String name) {
    return strings(FILE.required(name).required("stems"));
  }

  /** Spark's default for a redaction pattern. */
  static String sparkDefault(String name) {
    return FILE.required("defaults").required(name).asText();
  }

  static boolean containsAny(String text, List<String> parts) {
    for (String part : parts) {
      if (text.contains(part)) return true;
    }
    return false;
  }

  private static Pattern compile(JsonNode rule) {
    return Pattern.compile(String.join("|", strings(rule.required("pattern"))));
  }

  private static List<String> strings(JsonNode array) {
    List<String> strings = new ArrayList<>();
    for (JsonNode each : array) strings.add(each.asText());
    return strings;
  }
}
