package io.joinsight.redaction;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Removes literals from statements and errors; {@link PlanTexts} does so for plans. When in doubt it removes a text: an
 * error keeps only words known to come from Spark, Java or Python.
 */
public final class Literals {
  public static final String PLACEHOLDER = "?";

  /** The tokens of a statement; the named group is a literal or a comment, which is removed. */
  private static final Pattern STATEMENT = Pattern.compile(
      "[\\p{L}_$][\\p{L}\\p{N}_$]*+|`[^`]*+`"
      + "|(?:\\.(?:py|scala|java|kt|sc|R|ipynb)|>):\\d++\\b" // a source line
      + "|(?<removed>'[^'\\\\]*+(?:(?:\\\\[\\s\\S]|'')[^'\\\\]*+)*+(?:'|\\\\?\\z)"
      + "|\"[^\"\\\\]*+(?:(?:\\\\[\\s\\S]|\"\")[^\"\\\\]*+)*+(?:\"|\\\\?\\z)"
      + "|`[\\s\\S]*+|--[^\\n]*+|/\\*[\\s\\S]*?(?:\\*/|\\z)"
      + "|\\.?+\\p{N}[\\p{L}\\p{N}_.]*+)");

  private static final Pattern ADJACENT = Pattern.compile("\\?(?:[-+:/. ]?\\?)++");

  private static final String CLASS =
      "(?:(?:[a-z]\\w*+\\.)++[A-Z][\\w$]*+|[A-Z]\\w{0,80}?(?:Error|Exception|Warning|Exit|Interrupt))(?=[:\\s]|$)";
  private static final String CLASSES = "(?:" + CLASS + "(?:: )?+)*+";

  /** The beginning of an error's line; each part is optional. */
  private static final Pattern HEAD = Pattern.compile(
      "\\s*+(?:Caused by: |Suppressed: )?+" + CLASSES + "(?:Job aborted due to stage failure: )?+"
      + "(?:Task \\d++ in stage [\\d.]++ failed \\d++ times?+, most recent failure: )?+"
      + "(?:Lost task [\\d.]++ in stage [\\d.]++ \\(TID \\d++\\) \\([^()\\s]{1,256}+(?: executor [^()\\s]{1,64}+)?+\\): )?+"
      + CLASSES + "(?:\\[[A-Z][A-Z0-9_]*+(?:\\.[A-Z0-9_]++)*+\\] ?+)?+"
      + "(?:Job \\d++ cancelled|Could not execute broadcast in \\d++ secs\\.)?+");

  /** Lines of stack traces. */
  private static final Pattern FRAME = Pattern.compile(
      "\\s++at [\\w.$<>/@\\-]++\\((?:[\\w.$\\-]++:\\d++|[\\w$]++\\.java|Native Method|Unknown Source|<generated>)\\)"
      + "|\\s*+\\.\\.\\. \\d++ more"
      + "|\\s*+Traceback \\(most recent call last\\):"
      + "|\\s*+File \"[^\"]{1,1024}+\", line \\d++, in [\\w<>.]++");

  private static final Pattern STATE = Pattern.compile("SQLSTATE: [0-9A-Z]{5}\\b");

  /** An error of Spark 3.4, which is JSON. */
  private static final Pattern JSON_ERROR = Pattern.compile("\\{\"errorClass\" ?: ?\"([A-Z][A-Z0-9_.]*+)\"");

  private Literals() {}

  /** Removes strings, numbers and comments. Names (in backticks too) and source lines stay. */
  public static String inStatement(String text) {
    Matcher m = STATEMENT.matcher(text);
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    while (m.find()) {
      if (m.group("removed") == null) continue;
      out.append(text, copied, m.start()).append(PLACEHOLDER);
      copied = m.end();
    }
    return ADJACENT.matcher(out.append(text, copied, text.length())).replaceAll(PLACEHOLDER);
  }

  /** Keeps exception classes, Spark's error class, the SQLSTATE and stack traces, and removes the rest. */
  static String inError(String text) {
    StringBuilder out = new StringBuilder();
    boolean isLastRemoved = false;
    for (String line : text.split("\\R")) {
      String kept = line(line);
      if (kept.equals(PLACEHOLDER) && isLastRemoved || kept.isEmpty()) continue;
      isLastRemoved = kept.equals(PLACEHOLDER);
      if (out.length() > 0) out.append('\n');
      out.append(kept);
    }
    return out.toString();
  }

  private static String line(String line) {
    if (FRAME.matcher(line).matches()) return line;
    Matcher json = JSON_ERROR.matcher(line);
    if (json.lookingAt()) return "[" + json.group(1) + "] " + PLACEHOLDER;
    Matcher head = HEAD.matcher(line);
    String kept = head.lookingAt() ? head.group().replaceFirst("^\\s+$", "") : "";
    Matcher state = STATE.matcher(line);
    boolean hasState = state.find(head.end());
    String message = hasState ? line.substring(head.end(), state.start()) : line.substring(head.end());
    if (!message.trim().isEmpty()) kept += PLACEHOLDER;
    return (hasState ? kept + " " + state.group() : kept).replaceFirst("\\s+$", "").replaceFirst("^ ", "");
  }
}
