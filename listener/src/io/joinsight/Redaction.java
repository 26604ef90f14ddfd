package io.joinsight;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.apache.spark.SparkConf;

/**
 * What of a text may leave the driver. Secrets are masked always, as Spark's own settings say and by the rules of
 * {@code redaction.json}; literals go where {@code spark.joinsight.redactLiterals} asks for it.
 *
 * <p>The collector's {@code eventlog/redaction.py} does the same to event logs, function by function, and a test compares
 * the two. A text whose redaction fails (see {@link OwnersPattern}) is masked as a whole.
 */
final class Redaction {
  static final String REDACT_LITERALS = Settings.PREFIX + "redactLiterals";
  private static final String PROPERTIES = "spark.redaction.regex";
  private static final String STRINGS = "spark.redaction.string.regex";
  private static final String SQL_STRINGS = "spark.sql.redaction.string.regex";
  private static final String SQL_OPTIONS = "spark.sql.redaction.options.regex";

  private static final JsonNode RULES = rules();
  private static final JsonNode LIMITS = RULES.path("limits");
  static final String MASK = RULES.path("mask").asText();
  static final int MAX_TEXT = LIMITS.path("text").asInt();
  static final int MAX_CALL_SITE = LIMITS.path("call_site").asInt();
  private static final int MAX_OPERAND = LIMITS.path("operand").asInt();
  private static final int MAX_TOKENS = LIMITS.path("tokens").asInt();
  private static final int WINDOW = LIMITS.path("window").asInt();

  private static final OwnersPattern STANDARD_PROPERTIES = standard("properties");
  private static final OwnersPattern STANDARD_OPTIONS = standard("options");
  private static final List<Stemmed> SHAPES = stemmed("shapes");
  private static final List<Stemmed> NAMES = stemmed("names");
  private static final List<String> STEMS = stems();
  private static final Pattern URL = rule("url");
  private static final Pattern CIPHER = rule("ciphers");
  private static final Pattern WORD = rule("word");
  private static final Pattern LINK = rule("link");
  private static final Pattern METHOD = rule("method");
  private static final Pattern GAP = rule("gap");
  private static final Pattern QUOTE = rule("quote");
  private static final Pattern MADE = rule("made");
  private static final Pattern MORE = rule("more");
  private static final Pattern NEXT = rule("next");
  private static final Pattern LEFT = rule("left");
  private static final Pattern FIELD = rule("field");
  private static final Pattern PREDICATE = rule("predicate");
  private static final Pattern STRUCTURE = rule("structure");
  private static final Pattern NUMBER = rule("number");
  private static final Pattern QUERY = rule("query");
  private static final Pattern TYPE = rule("type");
  private static final Pattern SOURCE = rule("source");
  private static final Pattern FRAME = rule("frame");

  // Groups of LINK
  private static final int ID = 1;
  private static final int CLOSERS = 2;
  private static final int SIGN = 3;
  private static final int WORD_SIGN = 4;
  private static final int CALL = 5;
  private static final int VALUES = 6;
  private static final int METHOD_CALL = 7;
  private static final int COMMA = 8;
  private static final int BLANKS = 9;

  private static final String OPENING = "([{";
  private static final String CLOSING = ")]}";
  private static final String SEPARATORS = ",;&|" + OPENING + CLOSING;
  private static final String BLANK = " \t\n\r\f\u000b";
  private static final String QUOTES = "\"'";
  private static final int[] NOTHING = {0, 0};

  /** A pattern, and what is in each text that it may find, in small letters: looking for that is fast. */
  private static final class Stemmed {
    final List<String> stems;
    final Pattern pattern;

    Stemmed(List<String> stems, Pattern pattern) {
      this.stems = stems;
      this.pattern = pattern;
    }
  }

  final boolean redactsLiterals;
  private final OwnersPattern properties;
  private final OwnersPattern options;
  private final List<OwnersPattern> strings;

  /** Reads Spark's settings of redaction and our own; what is wrong with them is added to {@code problems}. */
  Redaction(SparkConf conf, List<String> problems) {
    properties = pattern(conf, PROPERTIES, STANDARD_PROPERTIES, problems);
    options = pattern(conf, SQL_OPTIONS, STANDARD_OPTIONS, problems);
    strings = new ArrayList<>();
    for (String key : Arrays.asList(STRINGS, SQL_STRINGS)) {
      if (!conf.get(key, "").isEmpty()) strings.add(pattern(conf, key, null, problems));
    }
    String literals = conf.get(REDACT_LITERALS, "false").trim();
    redactsLiterals = literals.equalsIgnoreCase("true");
    if (!redactsLiterals && !literals.equalsIgnoreCase("false")) {
      problems.add(REDACT_LITERALS + "=" + literals + " is neither true nor false");
    }
  }

  private Redaction(Redaction of, OwnersPattern options, List<OwnersPattern> strings) {
    this.redactsLiterals = of.redactsLiterals;
    this.properties = of.properties;
    this.options = options;
    this.strings = strings;
  }

  private static OwnersPattern pattern(SparkConf conf, String key, OwnersPattern standard, List<String> problems) {
    if (!conf.contains(key)) return standard;
    String regex = conf.get(key);
    try {
      return owned(regex);
    } catch (PatternSyntaxException e) {
      problems.add(key + "=" + regex + " is no regular expression (" + e.getDescription() + ")");
      return OwnersPattern.EVERYTHING;
    }
  }

  private static OwnersPattern owned(String regex) throws PatternSyntaxException {
    for (OwnersPattern standard : Arrays.asList(STANDARD_PROPERTIES, STANDARD_OPTIONS)) {
      if (standard.regex().equals(regex)) return standard;
    }
    return OwnersPattern.of(regex);
  }

  /**
   * The redaction of a session that changed these settings. Spark masks values that look secret in them, a pattern such
   * as {@code password=\w+} too: what that pattern was is not known then, and all texts of the session are masked.
   */
  Redaction ofSession(Map<String, String> changed) {
    String stringsOfSession = changed.getOrDefault(SQL_STRINGS, "");
    String optionsOfSession = changed.get(SQL_OPTIONS);
    if (stringsOfSession.isEmpty() && optionsOfSession == null) return this;
    List<OwnersPattern> all = new ArrayList<>(strings);
    if (!stringsOfSession.isEmpty()) all.add(ofSession(stringsOfSession));
    return new Redaction(this, optionsOfSession == null ? options : ofSession(optionsOfSession), all);
  }

  private static OwnersPattern ofSession(String regex) {
    try {
      return owned(regex);
    } catch (PatternSyntaxException e) {
      return OwnersPattern.EVERYTHING;
    }
  }

  private static JsonNode rules() {
    try (InputStream file = Redaction.class.getResourceAsStream("redaction.json")) {
      return new ObjectMapper().readTree(file);
    } catch (IOException e) {
      throw new IllegalStateException("the jar's redaction.json cannot be read", e);
    }
  }

  private static OwnersPattern standard(String name) {
    return OwnersPattern.trusted(RULES.path("defaults").path(name).asText());
  }

  private static Pattern rule(String name) {
    return rule(RULES.path(name));
  }

  private static Pattern rule(JsonNode rule) {
    return Pattern.compile(String.join("|", strings(rule.path("pattern"))));
  }

  private static List<String> strings(JsonNode array) {
    List<String> strings = new ArrayList<>();
    for (JsonNode each : array) strings.add(each.asText());
    return strings;
  }

  private static List<Stemmed> stemmed(String name) {
    List<Stemmed> rules = new ArrayList<>();
    for (JsonNode rule : RULES.path(name)) rules.add(new Stemmed(strings(rule.path("stems")), rule(rule)));
    return rules;
  }

  private static List<String> stems() {
    List<String> stems = new ArrayList<>();
    for (Stemmed name : NAMES) stems.addAll(name.stems);
    for (String name : Arrays.asList("ciphers", "defaults")) stems.addAll(strings(RULES.path(name).path("stems")));
    return stems;
  }

  /** Properties as Spark redacts them: a value goes when it or its key matches {@code spark.redaction.regex}. */
  Map<String, String> properties(Map<String, String> raw) {
    Map<String, String> redacted = new TreeMap<>();
    for (Map.Entry<String, String> entry : raw.entrySet()) {
      redacted.put(entry.getKey(), property(entry.getKey(), entry.getValue()));
    }
    return redacted;
  }

  private String property(String key, String value) {
    try {
      return properties.find(key) || properties.find(value) ? MASK : text(value);
    } catch (RuntimeException e) {
      return MASK;
    }
  }

  /** A text in which no literal stands: names, labels, paths. */
  String text(String raw) {
    if (raw == null || raw.isEmpty()) return raw;
    try {
      String text = raw;
      for (OwnersPattern pattern : strings) text = pattern.mask(text, MASK);
      return withoutNamed(masked(URL, withoutShapes(text)));
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

  private boolean isSecret(String word) {
    return isName(word) || properties.find(word) || options.find(word);
  }

  private static boolean isName(String word) {
    String lower = word.toLowerCase(Locale.ROOT);
    for (Stemmed name : NAMES) if (containsAny(lower, name.stems) && name.pattern.matcher(word).find()) return true;
    return false;
  }

  /** Whether a word of the text may be secret: most texts have none. */
  private boolean mayName(String text) {
    if (properties != STANDARD_PROPERTIES || options != STANDARD_OPTIONS) return true;
    return containsAny(text.toLowerCase(Locale.ROOT), STEMS) && (isSecret(text) || CIPHER.matcher(text).find());
  }

  private static boolean containsAny(String text, List<String> parts) {
    for (String part : parts) if (text.contains(part)) return true;
    return false;
  }

  private static String withoutShapes(String raw) {
    String text = raw;
    String lower = raw.toLowerCase(Locale.ROOT);
    for (Stemmed shape : SHAPES) if (containsAny(lower, shape.stems)) text = masked(shape.pattern, text);
    return text;
  }

  /** Masks what is found, of it the group that took part, else all. */
  private static String masked(Pattern pattern, String text) {
    Matcher m = pattern.matcher(text);
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

  private String withoutNamed(String text) {
    if (!mayName(text)) return text;
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    int at = 0;
    for (Matcher m = WORD.matcher(text); m.find(at); ) {
      at = m.end();
      String word = m.group();
      boolean isName = isSecret(word);
      if (!isName && !CIPHER.matcher(word).find()) continue;
      if (isName) {
        int[] left = onTheLeft(text, copied, m.start(), isColumn(text, m.start(), at));
        if (left[0] < left[1]) {
          out.append(text, copied, left[0]).append(MASK);
          copied = left[1];
        }
      }
      Matcher link = at(LINK, text, at);
      if (!link.lookingAt()) continue;
      int[] value = value(text, m.start(), word, link, isName);
      if (value[0] < value[1]) {
        out.append(text, copied, value[0]).append(MASK);
        copied = value[1];
        at = value[1];
      }
    }
    return out.append(text, copied, text.length()).toString();
  }

  private static Matcher at(Pattern pattern, String text, int start) {
    return pattern.matcher(text).region(start, text.length());
  }

  /** Where the secret starts and ends that a name is linked to. */
  private int[] value(String text, int name, String word, Matcher link, boolean isName) {
    int start = link.end();
    boolean ofColumn = isColumn(text, name, name + word.length());
    boolean isQuoted = indexOfAny(link.group(CLOSERS), "\"'`") >= 0;
    if (link.group(CALL) != null || link.group(METHOD_CALL) != null) return arguments(text, word, link);
    if (!isName) return NOTHING;
    if (link.group(VALUES) != null) return rows(text, start);
    String sign = link.group(SIGN);
    if (sign != null) {
      boolean isSchema = sign.contains(":") && at(TYPE, text, start).lookingAt();
      boolean isPlace = strip(sign).equals(":") && SOURCE.matcher(word).find();
      if (isSchema || isPlace) return NOTHING;
    }
    if (link.group(COMMA) != null && !isQuoted) return argument(text, name, link);
    Matcher gap = at(GAP, text, start);
    if (!ofColumn && gap.lookingAt()) start = gap.end();
    if (ofColumn && (sign != null || link.group(WORD_SIGN) != null)) return operand(text, start);
    int end;
    if (isOneOf(text, start, OPENING)) {
      boolean isList = link.group(COMMA) != null || link.group(BLANKS) != null;
      if (isList || at(QUERY, text, start).lookingAt()) return NOTHING;
      int[] inside = inside(text, start, true);
      end = Math.min(text.length(), Math.max(inside[1], start + 1) + 1);
      if (!at(MORE, text, end).lookingAt()) return inside;
    } else {
      end = endOfText(text, start);
    }
    boolean mayBeBare = sign != null || link.group(BLANKS) != null && word.startsWith("--");
    if (end == start && mayBeBare) end = endOfBare(text, start);
    if (end == start) return NOTHING;
    for (Matcher m = at(MORE, text, end); m.lookingAt(); m.region(end, text.length())) end = endOfText(text, m.end());
    return new int[] {start, end};
  }

  /** Of a call: those of a cipher or of a class go, of all others texts in quotes do. */
  private int[] arguments(String text, String word, Matcher link) {
    int start = link.end();
    String last = word.substring(word.lastIndexOf('.') + 1);
    boolean isCall = link.group(CALL) != null;
    boolean isCipher = CIPHER.matcher(word).find();
    boolean isName = isSecret(last);
    if (isCall && !(isCipher || isName || METHOD.matcher(word).find() && isSecret(word))) return NOTHING;
    if (!isCall && !isSecret(word)) return NOTHING;
    if (at(FRAME, text, start).lookingAt() || endOfStructure(text, start, text.length()) >= 0) return NOTHING;
    boolean isClass = isCall && isName && last.charAt(0) >= 'A' && last.charAt(0) <= 'Z';
    return isCipher || isClass || hasText(text, start) ? inside(text, start - 1, true) : NOTHING;
  }

  /** Whether this name is that of a plan's column, or of a field in one. */
  private static boolean isColumn(String text, int name, int end) {
    if (isOneOf(text, end, "#") && isOneOf(text, end + 1, "0123456789")) return true;
    return FIELD.matcher(text).region(Math.max(0, name - WINDOW), name).find();
  }

  private static boolean isOneOf(String text, int at, String characters) {
    return at < text.length() && characters.indexOf(text.charAt(at)) >= 0;
  }

  private static int indexOfAny(String text, String characters) {
    for (int at = 0; at < text.length(); at++) if (isOneOf(text, at, characters)) return at;
    return -1;
  }

  private static String strip(String text) {
    int start = 0;
    int end = text.length();
    while (start < end && isOneOf(text, start, BLANK)) start++;
    while (end > start && isOneOf(text, end - 1, BLANK)) end--;
    return text.substring(start, end);
  }

  private static int count(String text, char character) {
    int count = 0;
    for (int at = 0; at < text.length(); at++) if (text.charAt(at) == character) count++;
    return count;
  }

  // Where secrets start and end. What is not masked is never read again and again: it is bounded by `limits`.

  /** The secret that is compared with a name, or called by it, and stands before it. */
  private static int[] onTheLeft(String text, int least, int name, boolean ofColumn) {
    Matcher m = LEFT.matcher(text).region(Math.max(least, name - WINDOW), name);
    if (!m.find()) return NOTHING;
    int end = m.start(1);
    if (end > least && isOneOf(text, end - 1, QUOTES)) {
      int start = end - 1;
      for (int steps = 0; start > least && steps < MAX_OPERAND; steps++) {
        start = text.offsetByCodePoints(start, -1);
        if (text.charAt(start) == text.charAt(end - 1)) return new int[] {start, end};
      }
      return NOTHING;
    }
    if (!ofColumn || !isOneOf(m.group(1), 0, BLANK)) return NOTHING; // `keys=[token#1]` compares nothing
    int start = startOfOperand(text, least, end, strip(m.group(1)).equals("AS"));
    return endOfStructure(text, start, end) == end ? NOTHING : new int[] {start, end};
  }

  /** At the bracket that opens around what ends here; an element of a list starts at a comma, too. */
  private static int startOfOperand(String text, int least, int end, boolean isElement) {
    int depth = 0;
    int at = end;
    for (int steps = 0; at > least && steps < MAX_OPERAND; steps++) {
      if (isOneOf(text, at - 1, CLOSING)) {
        depth++;
      } else if (isOneOf(text, at - 1, OPENING)) {
        if (depth == 0) break;
        depth--;
      } else if (isElement && depth == 0 && at - 2 >= least && text.startsWith(", ", at - 2)) {
        break;
      }
      at = text.offsetByCodePoints(at, -1);
    }
    return at;
  }

  /** Where the expression ends that starts here, at a bracket or at {@code end}, if no literal is in it; else -1. */
  private static int endOfStructure(String text, int start, int end) {
    int at = start;
    int depth = 0;
    boolean hasColumn = false;
    Matcher m = STRUCTURE.matcher(text);
    for (int tokens = 0; tokens < MAX_TOKENS; tokens++) {
      if (at == end || depth == 0 && isOneOf(text, at, CLOSING)) return hasColumn || at == start ? at : -1;
      if (!m.region(at, end).lookingAt()) return -1;
      hasColumn |= m.group(1) != null;
      if (isOneOf(text, m.end() - 1, OPENING)) depth++;
      if (m.end() - at == 1 && isOneOf(text, at, CLOSING)) depth--;
      at = m.end();
    }
    return -1;
  }

  /** What a column is compared with: Spark writes literals without quotes, up to the closing bracket. */
  private static int[] operand(String text, int start) {
    if (endOfStructure(text, start, text.length()) >= 0) return NOTHING;
    if (isOneOf(text, start, "(")) return inside(text, start, false);
    int depth = 0;
    for (int at = start; at < text.length(); at++) {
      if (isOneOf(text, at, OPENING)) depth++;
      if (isOneOf(text, at, CLOSING) && --depth < 0 && separates(text, at)) return new int[] {start, at};
    }
    return new int[] {start, text.length()};
  }

  /** In {@code EqualTo(password,x)}, {@code In(password, [x, y])} and {@code StartsWith(password#1, x)}. */
  private static int[] argument(String text, int name, Matcher link) {
    int start = link.end();
    String closers = link.group(CLOSERS);
    Matcher predicate = PREDICATE.matcher(text).region(Math.max(0, name - WINDOW), name);
    // Of `f(g(password#1), x)` two brackets open, and one closes
    boolean isCompared =
        predicate.find()
            && closers.indexOf(']') < 0
            && count(closers, ')') - count(closers, '(') < count(predicate.group(), '(');
    if (link.group(ID) != null) {
      return isCompared && !at(NUMBER, text, start).lookingAt() ? operand(text, start) : NOTHING;
    }
    int end = isCompared ? endOfText(text, start) : start;
    if (end > start) return new int[] {start, end};
    if (!closers.isEmpty() || name == 0 || text.charAt(name - 1) != '(') return NOTHING;
    if (isOneOf(text, start, "[")) return inside(text, start, false);
    if (text.charAt(start - 1) != ',') return NOTHING;
    end = endOfText(text, start);
    return new int[] {start, end > start ? end : endOfBare(text, start)};
  }

  /** The rows of VALUES. */
  private static int[] rows(String text, int start) {
    int end = start;
    while (isOneOf(text, end, "(")) {
      end = closing(text, end, true) + 1;
      int after = end;
      while (after - end < 4 && isOneOf(text, after, BLANK + ",")) after++;
      if (!isOneOf(text, after, "(")) break;
      end = after;
    }
    return new int[] {start, Math.min(end, text.length())};
  }

  /** What is in the brackets that open here; nothing if they are empty or hold columns alone. */
  private static int[] inside(String text, int start, boolean hasQuotes) {
    if (endOfStructure(text, start + 1, text.length()) >= 0) return NOTHING;
    return new int[] {start + 1, closing(text, start, hasQuotes)};
  }

  /** Whether a text in quotes begins in the brackets that opened before {@code start}, near to it. */
  private static boolean hasText(String text, int start) {
    int depth = 0;
    int at = start;
    for (int steps = 0; at < text.length() && steps < WINDOW; steps++) {
      if (isOneOf(text, at, QUOTES)) return true;
      if (isOneOf(text, at, OPENING)) depth++;
      if (isOneOf(text, at, CLOSING) && --depth < 0) return false;
      at = text.offsetByCodePoints(at, 1);
    }
    return false;
  }

  /** Where the bracket closes that opens here, or the end of the text. */
  private static int closing(String text, int start, boolean hasQuotes) {
    int depth = 0;
    for (int at = start; at < text.length(); ) {
      if (hasQuotes && isOneOf(text, at, QUOTES)) {
        at = endOfQuoted(text, at, text.charAt(at - 1) == '\\');
        continue;
      }
      if (isOneOf(text, at, OPENING)) depth++;
      if (isOneOf(text, at, CLOSING) && --depth <= 0 && (hasQuotes || separates(text, at))) return at;
      at++;
    }
    return text.length();
  }

  /** Where a text in quotes ends, or what is made of one; {@code start} if none starts here. */
  private static int endOfText(String text, int start) {
    Matcher m = at(QUOTE, text, start);
    if (m.lookingAt()) return endOfQuoted(text, m.end() - 1, !m.group(1).isEmpty());
    m = at(MADE, text, start);
    return m.lookingAt() ? Math.min(text.length(), closing(text, m.start(1), true) + 1) : start;
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

  /** Where a value without quotes ends: where the next word or assignment starts. */
  private static int endOfBare(String text, int start) {
    int at = text.startsWith(MASK, start) ? start + MASK.length() : start;
    for (; at < text.length(); at++) {
      if (isOneOf(text, at, BLANK) || isOneOf(text, at, "\"'`<>")) break;
      if (isOneOf(text, at, SEPARATORS) && separates(text, at)) break;
    }
    return at;
  }

  /** Whether the separator here ends the value, rather than being a character of it. */
  private static boolean separates(String text, int at) {
    int next = at;
    while (next - at < 8 && isOneOf(text, next, SEPARATORS)) next++;
    if (next == text.length() || next - at > 1 && isOneOf(text, at, CLOSING)) return true;
    return isOneOf(text, next, BLANK) || isOneOf(text, next, QUOTES) || at(NEXT, text, next).lookingAt();
  }
}
