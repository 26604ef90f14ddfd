package io.joinsight;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.SparkConf;

/**
 * What of a text may leave the driver. Secrets are masked always, as Spark's own settings say and by what they look
 * like; literals go where {@code spark.joinsight.redactLiterals} asks for it.
 *
 * <p>Every pattern here is linear in the text: repetitions are possessive or bounded. A text whose redaction fails (a
 * user's pattern may overflow the stack) is masked as a whole.
 */
final class Redaction {
  static final String MASK = "*********(redacted)";
  static final String REDACT_LITERALS = Settings.PREFIX + "redactLiterals";
  private static final String PROPERTIES = "spark.redaction.regex";
  private static final String STRINGS = "spark.redaction.string.regex";
  private static final String SQL_STRINGS = "spark.sql.redaction.string.regex";
  private static final String SQL_OPTIONS = "spark.sql.redaction.options.regex";
  private static final String PROPERTIES_STANDARD = "(?i)secret|password|token|access[.]?key";
  private static final String SQL_OPTIONS_STANDARD = "(?i)url";
  private static final Pattern EVERYTHING = Pattern.compile("(?s).+");

  /** Names that secrets go by. */
  private static final Pattern SECRET_NAME =
      Pattern.compile(
          "(?i)pass(?:word|wd|phrase|code)|pwd|secret|token|credential|authorization|signature"
              + "|(?:access|account|api|auth|encryption|master|private|shared|storage)[._-]?key"
              + "|\\b(?:pass|auth|sig|sas)\\b");

  /**
   * A name and what stands between it and its value, as {@code a=v}, {@code "a": "v"}, {@code a -> v}, {@code a 'v'},
   * {@code --a v}, {@code (a#1 = v)} and {@code EqualTo(a,v)}. Groups: name, a column's expression id, the sign.
   */
  private static final Pattern ASSIGNMENT =
      Pattern.compile(
          "(?<![\\w.\\-])([\\w.\\-]++)(#\\d{1,10}L?+)?+(?:\\\\{0,2}[\"'`])?+"
              + "(\\s{0,3}+(?:<=>|=>|->|:=|={1,3}+|:(?!//))\\s{0,3}+|,(?=\\S)|\\s{1,3}+(?=\\S))");

  /** A literal that a plan calls by a name: {@code v AS a#1}. Groups: literal, name. */
  private static final Pattern ALIAS =
      Pattern.compile("(?<=\\[|, )((?:(?! AS )[^,\\[\\]()#])++) AS ([\\w.\\-]++)#\\d");

  private static final Pattern COLUMN = Pattern.compile("[\\w.\\-]{1,200}+#\\d");
  private static final Pattern SCHEME = Pattern.compile("(?i)(?:bearer|basic|digest|negotiate|token)\\s{1,3}+");
  private static final Pattern TYPE =
      Pattern.compile(
          "(?i)(?:string|binary|boolean|tinyint|smallint|int|integer|bigint|long|float|double|decimal|date|timestamp"
              + "|timestamp_ntz|interval|array|map|struct|void|variant|char|varchar)(?![\\w.\\-])");

  private static final Pattern SOURCE = Pattern.compile("\\.(?:py|scala|java|kt|sc|R|ipynb|sql)$");

  /** Secrets that are known by their shape. A group, where there is one, is what goes; else all of it. */
  private static final Pattern SHAPE =
      Pattern.compile(
          "(?i:jdbc:oracle:\\w{1,10}+:[^\\s/\"']{1,128}/([^\\s\"'@]{1,256})@)"
              + "|(?i:\\bbearer\\s{1,3}+)([\\w.~+/=\\-]{8,}+)"
              + "|\\b(?:AKIA|ASIA)[A-Z0-9]{16}\\b"
              + "|\\bAIza[\\w\\-]{35}"
              + "|\\beyJ[\\w\\-]{8,}+\\.[\\w\\-]{8,}+(?:\\.[\\w\\-]*+)?+"
              + "|\\b(?:gh[opsru]_|github_pat_)\\w{30,}+"
              + "|\\bdapi[0-9a-f]{32}"
              + "|\\bxox[abprs]-[\\w\\-]{10,}+"
              + "|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\\s\\S]*?(?:-----END [A-Z ]{0,30}PRIVATE KEY-----|\\z)");

  private static final String OPENING = "([{";
  private static final String CLOSING = ")]}";
  private static final String SEPARATORS = ",;&|" + OPENING + CLOSING;

  final boolean redactsLiterals;
  private final Pattern properties;
  private final Pattern options;
  private final List<Pattern> strings;

  /** Reads Spark's settings of redaction and our own; what is wrong with them is added to {@code problems}. */
  Redaction(SparkConf conf, List<String> problems) {
    properties = pattern(conf, PROPERTIES, PROPERTIES_STANDARD, problems);
    options = pattern(conf, SQL_OPTIONS, SQL_OPTIONS_STANDARD, problems);
    strings = new ArrayList<>();
    for (String key : Arrays.asList(STRINGS, SQL_STRINGS)) {
      if (!conf.get(key, "").isEmpty()) strings.add(pattern(conf, key, "", problems));
    }
    String literals = conf.get(REDACT_LITERALS, "false").trim();
    redactsLiterals = literals.equalsIgnoreCase("true");
    if (!redactsLiterals && !literals.equalsIgnoreCase("false")) {
      problems.add(REDACT_LITERALS + "=" + literals + " is neither true nor false");
    }
  }

  private Redaction(Redaction of, Pattern options, List<Pattern> strings) {
    this.redactsLiterals = of.redactsLiterals;
    this.properties = of.properties;
    this.options = options;
    this.strings = strings;
  }

  private static Pattern pattern(SparkConf conf, String key, String standard, List<String> problems) {
    String regex = conf.get(key, standard);
    try {
      return Pattern.compile(regex);
    } catch (PatternSyntaxException e) {
      problems.add(key + "=" + regex + " is no regular expression (" + e.getDescription() + ")");
      return EVERYTHING;
    }
  }

  /**
   * The redaction of a session that changed these settings. Spark masks values that look secret in them, a pattern such
   * as {@code password=\w+} too: what that pattern was is not known then, and all texts of the session are masked.
   */
  Redaction ofSession(Map<String, String> changed) {
    String stringsOfSession = changed.getOrDefault(SQL_STRINGS, "");
    String optionsOfSession = changed.get(SQL_OPTIONS);
    if (stringsOfSession.isEmpty() && optionsOfSession == null) return this;
    List<Pattern> all = new ArrayList<>(strings);
    if (!stringsOfSession.isEmpty()) all.add(ofSession(stringsOfSession));
    return new Redaction(this, optionsOfSession == null ? options : ofSession(optionsOfSession), all);
  }

  private static Pattern ofSession(String regex) {
    try {
      return Pattern.compile(regex);
    } catch (PatternSyntaxException e) {
      return EVERYTHING;
    }
  }

  /** Properties as Spark redacts them: a value goes when it or its key matches {@code spark.redaction.regex}. */
  Map<String, String> properties(Map<String, String> raw) {
    Map<String, String> redacted = new TreeMap<>();
    for (Map.Entry<String, String> entry : raw.entrySet()) {
      String value = entry.getValue();
      boolean secret = properties.matcher(entry.getKey()).find() || properties.matcher(value).find();
      redacted.put(entry.getKey(), secret ? MASK : text(value));
    }
    return redacted;
  }

  /** A text in which no literal stands: names, labels, paths. */
  String text(String raw) {
    if (raw == null || raw.isEmpty()) return raw;
    try {
      String text = raw;
      for (Pattern pattern : strings) text = pattern.matcher(text).replaceAll(Matcher.quoteReplacement(MASK));
      return shapes(users(assignments(text)));
    } catch (StackOverflowError | RuntimeException e) {
      return MASK;
    }
  }

  /** A description, a call site, a stage's or a node's name: SQL may stand in it. */
  String statement(String raw) {
    String text = text(raw);
    return redactsLiterals && text != null ? Literals.inStatement(text) : text;
  }

  /** An error or a stage's failure. */
  String error(String raw) {
    String text = text(raw);
    return redactsLiterals && text != null ? Literals.inError(text) : text;
  }

  private boolean isSecret(CharSequence name) {
    return SECRET_NAME.matcher(name).find() || properties.matcher(name).find() || options.matcher(name).find();
  }

  private String assignments(String text) {
    if (!isSecret(text)) return text; // none of its parts is, either
    StringBuilder out = new StringBuilder(text.length());
    Matcher m = ASSIGNMENT.matcher(text);
    int copied = 0;
    for (int from = 0; from < text.length() && m.find(from); ) {
      from = m.end(); // a value may itself be an assignment
      if (!assigns(text, m) || !isSecret(m.group(1))) continue;
      boolean ofColumn = m.group(2) != null;
      Matcher scheme = SCHEME.matcher(text).region(from, text.length());
      int start = scheme.lookingAt() ? scheme.end() : from;
      boolean isColumn = ofColumn && COLUMN.matcher(text).region(start, text.length()).lookingAt();
      boolean isSchema = m.group(3).contains(":") && TYPE.matcher(text).region(start, text.length()).lookingAt();
      boolean isPlace = m.group(3).equals(":") && SOURCE.matcher(m.group(1)).find();
      if (isColumn || isSchema || isPlace || text.startsWith(MASK, start)) continue;
      int end = ofColumn ? endOfOperand(text, start) : endOfValue(text, start);
      if (end == start) continue;
      out.append(text, copied, start).append(MASK);
      copied = end;
      from = end;
    }
    return aliases(out.append(text, copied, text.length()).toString());
  }

  private String aliases(String text) {
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    for (Matcher m = ALIAS.matcher(text); m.find(); ) {
      if (!isSecret(m.group(2))) continue;
      out.append(text, copied, m.start(1)).append(MASK);
      copied = m.end(1);
    }
    return out.append(text, copied, text.length()).toString();
  }

  /** Whether what looks like a sign is one: a comma only in {@code f(name,value)}, a blank before a quote or an option's value. */
  private static boolean assigns(String text, Matcher m) {
    String sign = m.group(3);
    if (sign.equals(",")) return m.start() > 0 && text.charAt(m.start() - 1) == '(';
    if (!sign.trim().isEmpty()) return true;
    char next = text.charAt(m.end());
    return next == '"' || next == '\'' || m.group(1).startsWith("--");
  }

  /** Where the value ends that starts here: at its closing quote, else where the next word or assignment starts. */
  private static int endOfValue(String text, int start) {
    int open = start;
    while (open < text.length() && text.charAt(open) == '\\') open++;
    if (open < text.length() && (text.charAt(open) == '"' || text.charAt(open) == '\'')) {
      return endOfQuoted(text, open, open > start);
    }
    int at = start;
    for (; at < text.length(); at++) {
      char c = text.charAt(at);
      if (Character.isWhitespace(c) || "\"'`<>".indexOf(c) >= 0) break;
      if (SEPARATORS.indexOf(c) >= 0 && separates(text, at)) break;
    }
    return at;
  }

  private static int endOfQuoted(String text, int open, boolean isEscaped) {
    char quote = text.charAt(open);
    for (int at = open + 1; at < text.length(); at++) {
      char c = text.charAt(at);
      char next = at + 1 < text.length() ? text.charAt(at + 1) : 0;
      if (isEscaped && c == '\\' && next == quote) return at + 2;
      if (isEscaped) continue;
      if (c == '\\' || c == quote && next == quote) at++;
      else if (c == quote) return at + 1;
    }
    return text.length(); // never closed: all of it may be the secret
  }

  /** Whether the separator here ends the value, rather than being a character of it. */
  private static boolean separates(String text, int at) {
    int next = at;
    while (next < text.length() && next - at < 8 && SEPARATORS.indexOf(text.charAt(next)) >= 0) next++;
    if (next == text.length() || next - at > 1 && CLOSING.indexOf(text.charAt(at)) >= 0) return true;
    char c = text.charAt(next);
    if (Character.isWhitespace(c) || c == '"' || c == '\'') return true;
    Matcher m = ASSIGNMENT.matcher(text).region(next, Math.min(text.length(), next + 80));
    return m.lookingAt() && (m.group(3).contains("=") || m.group(3).contains("->"));
  }

  /** The end of what a column is compared with: Spark writes literals without quotes, up to the closing bracket. */
  private static int endOfOperand(String text, int start) {
    int depth = 0;
    for (int at = start; at < text.length(); at++) {
      char c = text.charAt(at);
      if (OPENING.indexOf(c) >= 0) depth++;
      if (CLOSING.indexOf(c) >= 0 && --depth < 0 && separates(text, at)) return at;
    }
    return text.length();
  }

  /** {@code //user:password@host}: the password goes, of Amazon's keys the user too. It may hold slashes. */
  private static String users(String text) {
    StringBuilder out = null;
    int copied = 0;
    for (int from = text.indexOf("//"); from >= 0; from = text.indexOf("//", from)) {
      int user = from + 2;
      from = user;
      int colon = user;
      while (colon < text.length() && colon - user < 128 && "/:@".indexOf(text.charAt(colon)) < 0 && inUrl(text, colon)) colon++;
      if (colon == text.length() || text.charAt(colon) != ':') continue;
      int last = -1;
      for (int at = colon + 1; at < text.length() && at - colon < 256 && inUrl(text, at); at++) if (text.charAt(at) == '@') last = at;
      if (last <= colon + 1) continue;
      if (out == null) out = new StringBuilder(text.length());
      boolean ofAmazon = text.startsWith("AKIA", user) || text.startsWith("ASIA", user);
      out.append(text, copied, ofAmazon ? user : colon + 1).append(MASK);
      copied = last;
      from = last;
    }
    return out == null ? text : out.append(text, copied, text.length()).toString();
  }

  private static boolean inUrl(String text, int at) {
    char c = text.charAt(at);
    return !Character.isWhitespace(c) && "\"'<>".indexOf(c) < 0;
  }

  private static String shapes(String text) {
    Matcher m = SHAPE.matcher(text);
    if (!m.find()) return text;
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    do {
      int group = 0;
      for (int i = 1; i <= m.groupCount(); i++) if (m.group(i) != null) group = i;
      out.append(text, copied, m.start(group)).append(MASK);
      copied = m.end(group);
    } while (m.find());
    return out.append(text, copied, text.length()).toString();
  }
}
