package io.joinsight.delivery;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;

/**
 * The response to a batch: the collector's JSON object with the number of {@code accepted} documents and the {@code
 * refused} lines, or anything that another server at its address sends.
 */
final class Reply {
  private static final JsonFactory JSON = new JsonFactory();
  private static final int MAX_TEXT = 2_000;

  final int status;
  final String text; // the beginning, for the log
  final long retryAfterMs;
  private final TreeSet<Integer> refusedLines = new TreeSet<>();
  private boolean hasAccepted;
  private boolean hasRefused;

  Reply(int status, byte[] body, long retryAfterMs) {
    this.status = status;
    text = new String(body, 0, Math.min(body.length, MAX_TEXT), StandardCharsets.UTF_8);
    this.retryAfterMs = retryAfterMs;
    try (JsonParser json = JSON.createParser(body)) {
      read(json);
    } catch (IOException cutOffOrNoJson) {
      hasAccepted = false;
    }
  }

  private void read(JsonParser json) throws IOException {
    if (json.nextToken() != JsonToken.START_OBJECT) return;
    while (json.nextToken() == JsonToken.FIELD_NAME) {
      String name = json.currentName();
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
      boolean isLine = json.currentName().equals("line");
      if (json.nextToken() == JsonToken.VALUE_NUMBER_INT && isLine) refusedLines.add(json.getIntValue());
      json.skipChildren();
    }
  }

  /** Whether this is a collector's complete response to so many documents; after any other one they must be kept. */
  boolean isOfCollector(int documents) {
    boolean isAboutThem = refusedLines.isEmpty() || refusedLines.first() >= 1 && refusedLines.last() <= documents;
    return hasAccepted && hasRefused && isAboutThem;
  }

  /** The numbers of the refused lines, from 1; empty if all or none were refused. */
  Set<Integer> refusedLines() {
    return refusedLines;
  }
}
