package io.joinsight;

import java.util.Locale;

/** Long texts: what is left of one ends with a mark that says so. The collector's eventlog/cutting.py does the same. */
final class Cut {
  private Cut() {}

  /** The text, or its beginning and the mark: at most {@code limit} characters (Unicode's, not Java's) in all. */
  static String to(int limit, String text) {
    if (text.length() <= limit) return text;
    int characters = text.codePointCount(0, text.length());
    if (characters <= limit) return text;
    String mark = String.format(Locale.ROOT, "… [cut: %,d characters in all]", characters);
    return text.substring(0, text.offsetByCodePoints(0, limit - mark.length())) + mark;
  }
}
