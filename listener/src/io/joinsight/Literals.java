package io.joinsight;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Takes the literals out of statements and errors; {@link PlanTexts} does so for plans. In doubt a text goes: an error
 * is left with what is known to be Spark's, Java's or Python's own words.
 */
final class Literals {
  static final String GONE = "?";

  /** What a statement is made of and a scan must not look into; the named group is what goes. */
  private static final Pattern STATEMENT =
      Pattern.compile(
          "[\\p{L}_$][\\p{L}\\p{N}_$]*+|`[^`]*+`"
              + "|(?:\\.(?:py|scala|java|kt|sc|R|ipynb)|>):\\d++\\b" // a line of source
              + "|(?<gone>'[^'\\\\]*+(?:(?:\\\\[\\s\\S]|'')[^'\\\\]*+)*+(?:'|\\\\?\\z)"
              + "|\"[^\"\\\\]*+(?:(?:\\\\[\\s\\S]|\"\")[^\"\\\\]*+)*+(?:\"|\\\\?\\z)"
              + "|`[\\s\\S]*+|--[^\\n]*+|/\\*[\\s\\S]*?(?:\\*/|\\z)"
              + "|\\.?+\\p{N}[\\p{L}\\p{N}_.]*+)");

  private static final Pattern ADJACENT = Pattern.compile("\\?(?:[-+:/. ]?\\?)++");

  private static final String CLASS =
      "(?:(?:[a-z]\\w*+\\.)++[A-Z][\\w$]*+|[A-Z]\\w{0,80}?(?:Error|Exception|Warning|Exit|Interrupt))(?=[:\\s]|$)";
  private static final String CLASSES = "(?:" + CLASS + "(?:: )?+)*+";

  /** How a line of an error may begin. Each part may be missing. */
  private static final Pattern HEAD =
      Pattern.compile(
          "\\s*+(?:Caused by: |Suppressed: )?+"
              + CLASSES
              + "(?:Job aborted due to stage failure: )?+"
              + "(?:Task \\d++ in stage [\\d.]++ failed \\d++ times?+, most recent failure: )?+"
              + "(?:Lost task [\\d.]++ in stage [\\d.]++ \\(TID \\d++\\) \\([^()\\s]{1,256}+(?: executor [^()\\s]{1,64}+)?+\\): )?+"
              + CLASSES
              + "(?:\\[[A-Z][A-Z0-9_]*+(?:\\.[A-Z0-9_]++)*+\\] ?+)?+"
              + "(?:Job \\d++ cancelled|Could not execute broadcast in \\d++ secs\\.)?+");

  /** Lines of stack traces. */
  private static final Pattern FRAME =
      Pattern.compile(
          "\\s++at [\\w.$<>/@\\-]++\\((?:[\\w.$\\-]++:\\d++|[\\w$]++\\.java|Native Method|Unknown Source|<generated>)\\)"
              + "|\\s*+\\.\\.\\. \\d++ more"
              + "|\\s*+Traceback \\(most recent call last\\):"
              + "|\\s*+File \"[^\"]{1,1024}+\", line \\d++, in [\\w<>.]++");

  private static final Pattern STATE = Pattern.compile("SQLSTATE: [0-9A-Z]{5}\\b");

  /** An error of Spark 3.4, which is JSON. */
  private static final Pattern JSON_ERROR = Pattern.compile("\\{\"errorClass\" ?: ?\"([A-Z][A-Z0-9_.]*+)\"");

  private Literals() {}

  /** Without strings, numbers and comments. Names stay, quoted by backticks too, and the lines of source files. */
  static String inStatement(String text) {
    Matcher m = STATEMENT.matcher(text);
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    while (m.find()) {
      if (m.group("gone") == null) continue;
      out.append(text, copied, m.start()).append(GONE);
      copied = m.end();
    }
    return ADJACENT.matcher(out.append(text, copied, text.length())).replaceAll(GONE);
  }

  /** With its exception classes, Spark's error class, the SQLSTATE and stack traces; what else was said is gone. */
  static String inError(String text) {
    StringBuilder out = new StringBuilder();
    boolean gone = false; // the last line is
    for (String line : text.split("\\R")) {
      String kept = line(line);
      if (kept.equals(GONE) && gone || kept.isEmpty()) continue;
      gone = kept.equals(GONE);
      if (out.length() > 0) out.append('\n');
      out.append(kept);
    }
    return out.toString();
  }

  private static String line(String line) {
    if (FRAME.matcher(line).matches()) return line;
    Matcher json = JSON_ERROR.matcher(line);
    if (json.lookingAt()) return "[" + json.group(1) + "] " + GONE;
    Matcher head = HEAD.matcher(line);
    String kept = head.lookingAt() ? head.group().replaceFirst("^\\s+$", "") : "";
    Matcher state = STATE.matcher(line);
    boolean hasState = state.find(head.end());
    String said = hasState ? line.substring(head.end(), state.start()) : line.substring(head.end());
    if (!said.trim().isEmpty()) kept += GONE;
    return (hasState ? kept + " " + state.group() : kept).replaceFirst("\\s+$", "").replaceFirst("^ ", "");
  }
}
