package io.joinsight;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A pattern of the job's owner, which may be anything. Java's regular expressions backtrack and cannot be stopped, so
 * the characters that it reads of a text are counted: beyond a number of them it is {@link Exhausted}, and the text is
 * masked as a whole. A pattern to which this happens again and again is not tried any more.
 */
final class OwnersPattern {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final long READS = 10_000_000;
  private static final long READS_PER_CHARACTER = 100;
  private static final int FAILURES = 10;
  private static final int REMEMBERED = 100;

  /** Finds every text. */
  static final OwnersPattern EVERYTHING = trusted("(?s).+");

  private static final Map<String, OwnersPattern> KNOWN =
      new LinkedHashMap<String, OwnersPattern>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, OwnersPattern> eldest) {
          return size() > REMEMBERED;
        }
      };

  private final Pattern pattern;
  private final boolean isTrusted;
  private final AtomicInteger failures = new AtomicInteger();

  private OwnersPattern(Pattern pattern, boolean isTrusted) {
    this.pattern = pattern;
    this.isTrusted = isTrusted;
  }

  /** A pattern that is nobody's: nothing is counted. */
  static OwnersPattern trusted(String regex) {
    return new OwnersPattern(Pattern.compile(regex), true);
  }

  /** The pattern, the same object for the same text. */
  static OwnersPattern of(String regex) throws PatternSyntaxException {
    synchronized (KNOWN) {
      return KNOWN.computeIfAbsent(regex, key -> new OwnersPattern(Pattern.compile(key), false));
    }
  }

  String regex() {
    return pattern.pattern();
  }

  boolean find(String text) {
    try {
      return matcher(text).find();
    } catch (Exhausted | StackOverflowError e) {
      throw failed(text);
    }
  }

  /** The text with a mask for what is found, but for finds that are empty. */
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
    if (failures.get() >= FAILURES) throw new Exhausted();
    return pattern.matcher(new Counted(text, READS + READS_PER_CHARACTER * text.length()));
  }

  private Exhausted failed(String text) {
    if (failures.incrementAndGet() == 1) {
      LOG.warn(
          "Joinsight: a redaction pattern of this application takes too long or too deep a search on a text of {}"
              + " characters: such texts are masked as a whole. The pattern: {}",
          text.length(), pattern);
    }
    return new Exhausted();
  }

  /** So often nobody should have to read a text. */
  static final class Exhausted extends RuntimeException {
    Exhausted() {
      super(null, null, false, false);
    }
  }

  private static final class Counted implements CharSequence {
    private final String text;
    private long left;

    Counted(String text, long reads) {
      this.text = text;
      this.left = reads;
    }

    @Override
    public char charAt(int index) {
      if (--left < 0) throw new Exhausted();
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
