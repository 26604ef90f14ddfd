package io.joinsight.capture;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Map;

/**
 * A reason why an execution's numbers may be partial: a code for programs and a sentence for people, from the file that
 * the collector reads too.
 */
public final class Incomplete {
  private static final Map<String, String> TEXTS = read();

  public final String code;
  final String text;

  /** The code's sentence with its placeholders filled: {@code "tasks", 8, "stage", 3}. */
  public Incomplete(String code, Object... namesAndValues) {
    this.code = code;
    String filled = TEXTS.get(code);
    for (int i = 0; i < namesAndValues.length; i += 2) {
      filled = filled.replace("{" + namesAndValues[i] + "}", String.valueOf(namesAndValues[i + 1]));
    }
    text = filled;
  }

  private static Map<String, String> read() {
    try (InputStream table = Incomplete.class.getResourceAsStream("incomplete.json")) {
      return new ObjectMapper().readValue(table, new TypeReference<Map<String, String>>() {});
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
