package io.joinsight.capture;

import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Shortens and escapes texts for documents and logs. */
public final class Texts {
  private static final int MAX_LINE = 500;

  /** As in the collector's terminal/escaping.py, and what breaks a line. */
  private static final Pattern HIDDEN = Pattern.compile(
      "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f\\u2028-\\u202e"
      + "\\u2060-\\u206f\\u3164\\p{Cs}\\ufeff\\uffa0\\ufff0-\\ufffb\\x{1bca0}-\\x{1bca3}\\x{1d173}-\\x{1d17a}"
      + "\\x{e0000}-\\x{e00ff}\\x{e01f0}-\\x{e0fff}]");

  private Texts() {}

  /** The text, truncated with a mark to at most {@code limit} Unicode characters. */
  static String truncate(int limit, String text) {
    if (text.length() <= limit) return text;
    int characters = text.codePointCount(0, text.length());
    if (characters <= limit) return text;
    String mark = String.format(Locale.ROOT, "… [cut: %,d characters in all]", characters);
    return text.substring(0, text.offsetByCodePoints(0, limit - mark.length())) + mark;
  }

  /** The text with escapes, such as {@code \x1b}, for invisible characters and those that control a terminal. */
  public static String escape(String text) {
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
  public static String firstLine(String text) {
    String line = text.trim().split("\\R", 2)[0];
    return escape(line.length() > MAX_LINE ? line.substring(0, MAX_LINE) + "..." : line);
  }
}
