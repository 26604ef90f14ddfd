package io.joinsight;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Shortens and escapes texts for documents and logs. */
final class Texts {
  private static final int MAX_LINE = 500;
  private static final Pattern HIDDEN = Pattern.compile("[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]");

  private Texts() {}

  /** The text, truncated with a mark to at most {@code limit} Unicode characters. */
  static String truncate(int limit, String text) {
    if (text.length() <= limit) return text;
    int characters = text.codePointCount(0, text.length());
    if (characters <= limit) return text;
    String mark = String.format(Locale.ROOT, "… [cut: %,d characters in all]", characters);
    return text.substring(0, text.offsetByCodePoints(0, limit - mark.length())) + mark;
  }

  /**
   * The text with escapes, such as {@code \x1b}, for invisible characters and those that control a terminal, as in the
   * collector's terminal/escaping.py.
   */
  static String escape(String text) {
    Matcher m = HIDDEN.matcher(text);
    if (!m.find()) return text;
    StringBuffer escaped = new StringBuffer();
    do {
      int code = m.group().codePointAt(0);
      String form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
      m.appendReplacement(escaped, Matcher.quoteReplacement(String.format(form, code)));
    } while (m.find());
    return m.appendTail(escaped).toString();
  }

  /** The first line, escaped and shortened for a log. */
  static String firstLine(String text) {
    String line = text.trim().split("\\R", 2)[0];
    return escape(line.length() > MAX_LINE ? line.substring(0, MAX_LINE) + "..." : line);
  }
}
