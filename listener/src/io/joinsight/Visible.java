package io.joinsight;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Text of others for a line of the log: what would command a terminal, or not be seen, becomes an escape such as {@code
 * \x1b}. The collector's commands do the same in terminal.py.
 */
final class Visible {
  private static final Pattern HIDDEN = Pattern.compile("[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}]");

  private Visible() {}

  static String of(String text) {
    Matcher m = HIDDEN.matcher(text);
    if (!m.find()) return text;
    StringBuffer shown = new StringBuffer();
    do {
      int code = m.group().codePointAt(0);
      String form = code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x";
      m.appendReplacement(shown, Matcher.quoteReplacement(String.format(form, code)));
    } while (m.find());
    return m.appendTail(shown).toString();
  }
}
