package io.joinsight.redaction;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/**
 * Redacts texts before they leave the driver. Secrets are always masked: by Spark's redaction settings, then by the
 * rules in {@code redaction.json}; {@link NamedSecrets} applies its rules about names. Literals are removed only if
 * {@code spark.joinsight.redactLiterals} is set.
 *
 * <p>If redaction fails (see {@link UserPattern}), the whole text is masked.
 */
public final class Redaction {
  static final String REDACT_LITERALS = "spark.joinsight.redactLiterals";
  private static final String PROPERTIES = "spark.redaction.regex";
  private static final String STRINGS = "spark.redaction.string.regex";
  private static final String SQL_STRINGS = "spark.sql.redaction.string.regex";
  private static final String SQL_OPTIONS = "spark.sql.redaction.options.regex";

  /** Settings whose patterns define which names are secret. */
  public static final List<String> NAMES_SECRETS = Arrays.asList(PROPERTIES, SQL_OPTIONS);

  public static final String MASK = RedactionRules.MASK;
  public static final int MAX_TEXT = RedactionRules.limit("text");
  public static final int MAX_CALL_SITE = RedactionRules.limit("call_site");

  private static final List<RedactionRules.Rule> SHAPES = RedactionRules.rules("shapes");
  private static final Pattern URL = RedactionRules.pattern("url");

  public final boolean redactsLiterals;
  private final UserPattern properties;
  private final UserPattern options;
  private final List<UserPattern> strings;
  private final SecretNames names;
  private final RedactedTexts known; // null: of a session with patterns of its own, of which there may be many

  /** Reads the redaction settings of Spark and Joinsight, and adds errors in them to {@code problems}. */
  public Redaction(Map<String, String> conf, List<String> problems) {
    this(
        redactsLiterals(conf, problems), pattern(conf, PROPERTIES, UserPattern.SPARK_PROPERTIES, problems),
        pattern(conf, SQL_OPTIONS, UserPattern.SPARK_OPTIONS, problems), new ArrayList<>(), new RedactedTexts());
    for (String key : Arrays.asList(STRINGS, SQL_STRINGS)) {
      if (!conf.getOrDefault(key, "").isEmpty()) strings.add(pattern(conf, key, null, problems));
    }
  }

  private Redaction(
      boolean redactsLiterals, UserPattern properties, UserPattern options, List<UserPattern> strings,
      RedactedTexts known) {
    this.redactsLiterals = redactsLiterals;
    this.properties = properties;
    this.options = options;
    this.strings = strings;
    this.known = known;
    names = new SecretNames(properties, options);
  }

  private static boolean redactsLiterals(Map<String, String> conf, List<String> problems) {
    String value = conf.getOrDefault(REDACT_LITERALS, "false").trim();
    boolean isTrue = value.equalsIgnoreCase("true");
    if (!isTrue && !value.equalsIgnoreCase("false")) {
      problems.add(REDACT_LITERALS + "=" + value + " is neither true nor false");
    }
    return isTrue;
  }

  private static UserPattern pattern(Map<String, String> conf, String key, UserPattern unset, List<String> problems) {
    if (!conf.containsKey(key)) return unset;
    String regex = conf.get(key);
    try {
      return UserPattern.of(regex);
    } catch (PatternSyntaxException e) {
      problems.add(key + "=" + regex + " is not a valid regular expression (" + e.getDescription() + ")");
      return UserPattern.EVERYTHING;
    }
  }

  /**
   * The redaction for a session that changed these settings. Spark masks values in them that look secret, so a pattern
   * such as {@code password=\w+} is unknown; then all texts of the session are masked.
   */
  public Redaction ofSession(Map<String, String> changed) {
    String sessionStrings = changed.getOrDefault(SQL_STRINGS, "");
    String sessionOptions = changed.get(SQL_OPTIONS);
    if (sessionStrings.isEmpty() && sessionOptions == null) return this;
    List<UserPattern> all = new ArrayList<>(strings);
    if (!sessionStrings.isEmpty()) all.add(UserPattern.ofOrEverything(sessionStrings));
    UserPattern patternForOptions = sessionOptions == null ? options : UserPattern.ofOrEverything(sessionOptions);
    return new Redaction(redactsLiterals, properties, patternForOptions, all, null);
  }

  /** Masks a property's value if it or its key matches {@code spark.redaction.regex}, as Spark does. */
  public Map<String, String> properties(Map<String, String> raw) {
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

  /** Redacts a text that has no literals: a name, a label, a path. */
  public String text(String raw) {
    if (raw == null || raw.isEmpty()) return raw;
    String text = known == null ? null : known.get(raw);
    if (text != null) return text;
    text = masked(raw);
    if (known != null) known.put(raw, text);
    return text;
  }

  private String masked(String raw) {
    try {
      String text = raw;
      for (UserPattern pattern : strings) text = pattern.mask(text, MASK);
      text = masked(URL, withoutShapes(text));
      return names.mayBeIn(text) ? new NamedSecrets(text, names).masked() : text;
    } catch (StackOverflowError | RuntimeException e) {
      return MASK;
    }
  }

  /** Redacts a text that may contain SQL: a description, a call site, the name of a stage or a node. */
  public String statement(String raw) {
    String text = text(raw);
    return redactsLiterals && text != null ? Literals.inStatement(text) : text;
  }

  /** Redacts an error, or the reason why a stage failed. */
  public String error(String raw) {
    String text = text(raw);
    return redactsLiterals && text != null ? Literals.inError(text) : text;
  }

  private static String withoutShapes(String raw) {
    String text = raw;
    String lower = raw.toLowerCase(Locale.ROOT);
    for (RedactionRules.Rule shape : SHAPES) {
      if (shape.mayMatch(lower)) text = masked(shape.pattern, text);
    }
    return text;
  }

  /** Masks each match, or only its group if one matched. */
  private static String masked(Pattern pattern, String text) {
    Matcher m = pattern.matcher(text);
    if (!m.find()) return text;
    StringBuilder out = new StringBuilder(text.length());
    int copied = 0;
    do {
      int group = 0;
      for (int i = 1; i <= m.groupCount(); i++) {
        if (m.group(i) != null) group = i;
      }
      out.append(text, copied, m.start(group)).append(MASK);
      copied = m.end(group);
    } while (m.find());
    return out.append(text, copied, text.length()).toString();
  }
}
