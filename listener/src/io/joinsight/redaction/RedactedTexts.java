package io.joinsight.redaction;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Texts and what redaction made of them, because most texts come again: operators, stages, locations of tables. Those
 * that were used last stay, in two generations; both together take at most some 2 MB. Safe for several threads.
 */
final class RedactedTexts {
  /** The size of a generation: characters, and {@link #ENTRY} for each text. */
  static final int LIMIT = 500_000;

  private static final int ENTRY = 100;
  private static final int LONGEST = 1_000; // longer texts seldom come again

  private volatile Map<String, String> young = new ConcurrentHashMap<>();
  private volatile Map<String, String> old = new ConcurrentHashMap<>();
  private final AtomicInteger size = new AtomicInteger(); // of the young ones

  /** The redacted text; null if it is not known. */
  String get(String raw) {
    String text = young.get(raw);
    if (text != null) return text;
    text = old.get(raw);
    if (text != null) put(raw, text);
    return text;
  }

  void put(String raw, String text) {
    if (raw.length() > LONGEST) return;
    int bytes = ENTRY + raw.length() + (raw.equals(text) ? 0 : text.length());
    if (size.addAndGet(bytes) > LIMIT) {
      old = young;
      young = new ConcurrentHashMap<>();
      size.set(bytes);
    }
    young.put(raw, text);
  }

  /** How many are known, for tests. */
  int count() {
    return young.size() + old.size();
  }
}
