package io.joinsight;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Set;
import java.util.TreeSet;

/**
 * What came back for a batch: from the collector, whose answers are JSON objects that say how many documents were
 * {@code accepted} and which lines were {@code refused}, or from whatever stands in its place.
 */
final class Reply {
  private static final JsonFactory JSON = new JsonFactory();

  final int status;
  final String text;
  final long retryAfterMs;
  private final Set<Integer> refusedLines = new TreeSet<>();
  private boolean hasAccepted;
  private boolean hasRefused;

  Reply(int status, String text, long retryAfterMs) {
    this.status = status;
    this.text = text;
    this.retryAfterMs = retryAfterMs;
    try (JsonParser json = JSON.createParser(text)) {
      read(json);
    } catch (IOException cutOffOrNoJson) {
      hasAccepted = false;
    }
  }

  private void read(JsonParser json) throws IOException {
    if (json.nextToken() != JsonToken.START_OBJECT) return;
    while (json.nextToken() == JsonToken.FIELD_NAME) {
      String name = json.getCurrentName();
      JsonToken value = json.nextToken();
      if (name.equals("accepted")) hasAccepted = value == JsonToken.VALUE_NUMBER_INT;
      if (name.equals("refused") && value == JsonToken.START_ARRAY) {
        hasRefused = true;
        while (json.nextToken() == JsonToken.START_OBJECT) readRefused(json);
      } else {
        json.skipChildren();
      }
    }
  }

  private void readRefused(JsonParser json) throws IOException {
    while (json.nextToken() == JsonToken.FIELD_NAME) {
      boolean isLine = json.getCurrentName().equals("line");
      if (json.nextToken() == JsonToken.VALUE_NUMBER_INT && isLine) refusedLines.add(json.getIntValue());
      json.skipChildren();
    }
  }

  /** Whether it is a collector that has answered, to the whole batch: nothing else may make us forget documents. */
  boolean isOfCollector() {
    return hasAccepted && hasRefused;
  }

  /** The numbers of the lines that were refused, from 1; none where all were, or none was. */
  Set<Integer> refusedLines() {
    return refusedLines;
  }
}
