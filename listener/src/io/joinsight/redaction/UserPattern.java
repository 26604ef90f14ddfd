package io.joinsight.redaction;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A redaction pattern from the job's settings, which may be any regular expression. Java's regular expressions
 * backtrack and cannot be interrupted, so the characters that a search reads are counted: beyond a limit it ends with
 * {@link Exhausted}, and the whole text is masked. After {@link #MAX_FAILURES} such failures a pattern is not used
 * again.
 */
final class UserPattern {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final long READS = 10_000_000;
  private static final long READS_PER_CHARACTER = 100;
  private static final int MAX_FAILURES = 10;
  private static final int CACHED = 100;

  /** Matches every text. */
  static final UserPattern EVERYTHING = new UserPattern(Pattern.compile("(?s).+"), true);

  /** Spark's defaults. */
  static final UserPattern SPARK_PROPERTIES = sparkDefault("properties");
  static final UserPattern SPARK_OPTIONS = sparkDefault("options");

  private static final Map<String, UserPattern> CACHE = new LinkedHashMap<String, UserPattern>() {
    @Override
    protected boolean removeEldestEntry(Map.Entry<String, UserPattern> eldest) {
      return size() > CACHED;
    }
  };

  private final Pattern pattern;
  private final boolean isTrusted; // reads are not counted
  private final AtomicInteger failures = new AtomicInteger();

  private UserPattern(Pattern pattern, boolean isTrusted) {
    this.pattern = pattern;
    this.isTrusted = isTrusted;
  }

  private static UserPattern sparkDefault(String name) {
    return new UserPattern(Pattern.compile(RedactionRules.sparkDefault(name)), true);
  }

  /** The compiled pattern; the same object for the same expression. */
  static UserPattern of(String regex) throws PatternSyntaxException {
    if (regex.equals(SPARK_PROPERTIES.pattern.pattern())) return SPARK_PROPERTIES;
    if (regex.equals(SPARK_OPTIONS.pattern.pattern())) return SPARK_OPTIONS;
    synchronized (CACHE) {
      return CACHE.computeIfAbsent(regex, key -> new UserPattern(Pattern.compile(key), false));
    }
  }

  /** The compiled pattern; {@link #EVERYTHING} if the expression is invalid. */
  static UserPattern ofOrEverything(String regex) {
    try {
      return of(regex);
    } catch (PatternSyntaxException e) {
      return EVERYTHING;
    }
  }

  boolean find(String text) {
    try {
      return matcher(text).find();
    } catch (Exhausted | StackOverflowError e) {
      throw failed(text);
    }
  }

  /** The text with each non-empty match masked. */
  String mask(String text, String mask) {
    try {
      Matcher m = matcher(text);
      StringBuilder out = new StringBuilder(text.length());
      int copied = 0;
      while (m.find()) {
        if (m.end() == m.start()) continue;
        out.append(text, copied, m.start()).append(mask);
        copied = m.end();
      }
      return out.append(text, copied, text.length()).toString();
    } catch (Exhausted | StackOverflowError e) {
      throw failed(text);
    }
  }

  private Matcher matcher(String text) {
    if (isTrusted) return pattern.matcher(text);
    if (failures.get() >= MAX_FAILURES) throw new Exhausted();
    return pattern.matcher(new Counted(text, READS + READS_PER_CHARACTER * text.length()));
  }

  private Exhausted failed(String text) {
    if (failures.incrementAndGet() == 1) {
      LOG.warn(
          "Joinsight: a redaction pattern of this application needs too long or too deep a search in a text of {}"
              + " characters. Such texts are masked completely. The pattern: {}",
          text.length(), pattern);
    }
    return new Exhausted();
  }

  /** A search has read too many characters. */
  static final class Exhausted extends RuntimeException {
    private static final long serialVersionUID = 1;

    Exhausted() {
      super(null, null, false, false);
    }
  }

  /** A text that allows {@code limit} reads of characters, counting repeated reads. */
  static final class Counted implements CharSequence {
    private final String text;
    private final long limit;
    private long reads;

    Counted(String text, long limit) {
      this.text = text;
      this.limit = limit;
    }

    long reads() {
      return reads;
    }

    @Override
    public char charAt(int index) {
      if (++reads > limit) throw new Exhausted();
      return text.charAt(index);
    }

    @Override
    public int length() {
      return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
      return text.substring(start, end);
    }

    @Override
    public String toString() {
      return text;
    }
  }
}
