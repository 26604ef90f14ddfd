package io.joinsight.redaction;

import io.joinsight.redaction.TextScanner.Span;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Masks the secrets in a text that are recognised by a name: {@code password = 'x'}, {@code aes_encrypt(a, 'x')}.
 *
 * <p>It checks each word of the text. For a word that names a secret it masks the values linked to it on the left and
 * on the right; for a cipher, the arguments. Columns and expressions without literals stay, to keep plans readable.
 */
final class NamedSecrets {
  private static final Pattern WORD = RedactionRules.pattern("word");
  private static final Pattern LINK = RedactionRules.pattern("link");
  private static final Pattern METHOD = RedactionRules.pattern("method");
  private static final Pattern GAP = RedactionRules.pattern("gap");
  private static final Pattern MORE = RedactionRules.pattern("more");
  private static final Pattern LEFT = RedactionRules.pattern("left");
  private static final Pattern FIELD = RedactionRules.pattern("field");
  private static final Pattern PREDICATE = RedactionRules.pattern("predicate");
  private static final Pattern NUMBER = RedactionRules.pattern("number");
  private static final Pattern QUERY = RedactionRules.pattern("query");
  private static final Pattern TYPE = RedactionRules.pattern("type");
  private static final Pattern SOURCE = RedactionRules.pattern("source");
  private static final Pattern FRAME = RedactionRules.pattern("frame");

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

  private final String text;
  private final TextScanner scan;
  private final SecretNames names;
  private final StringBuilder out;
  private int copied; // end of the part of the text that is in `out`

  NamedSecrets(String text, SecretNames names) {
    this.text = text;
    this.names = names;
    scan = new TextScanner(text);
    out = new StringBuilder(text.length());
  }

  /** The text with its secrets masked. Call it only once. */
  String masked() {
    Matcher m = WORD.matcher(text);
    for (int at = 0; m.find(at); at = Math.max(m.end(), copied)) {
      String word = m.group();
      boolean isName = names.contains(word);
      if (!isName && !SecretNames.isCipher(word)) continue;
      boolean isColumn = isColumn(m.start(), m.end());
      if (isName) mask(onTheLeft(m.start(), isColumn));
      Matcher link = scan.at(LINK, m.end());
      if (!link.lookingAt()) continue;
      boolean isCall = link.group(CALL) != null || link.group(METHOD_CALL) != null;
      if (isCall) mask(arguments(word, link));
      else if (isName) mask(value(m.start(), word, isColumn, link));
    }
    return out.append(text, copied, text.length()).toString();
  }

  private void mask(Span secret) {
    if (secret.isEmpty()) return;
    out.append(text, copied, secret.start).append(Redaction.MASK);
    copied = secret.end;
  }

  /** Whether the name is a plan's column or a field of one. */
  private boolean isColumn(int start, int end) {
    if (scan.isOneOf(end, "#") && scan.isOneOf(end + 1, "0123456789")) return true;
    return scan.before(FIELD, 0, start).find();
  }

  /** The secret before a name: compared with it, or its alias. */
  private Span onTheLeft(int name, boolean isColumn) {
    Matcher m = scan.before(LEFT, copied, name);
    if (!m.find()) return Span.NONE;
    int end = m.start(1);
    if (end > copied && scan.isOneOf(end - 1, TextScanner.QUOTES)) return scan.quotedBefore(copied, end);
    if (!isColumn || !scan.isOneOf(end, TextScanner.BLANK)) return Span.NONE; // `keys=[token#1]` compares nothing
    int start = scan.startOfOperand(copied, end, m.group(1).trim().equals("AS"));
    return scan.endOfStructure(start, end) == end ? Span.NONE : new Span(start, end);
  }

  /** The arguments of a call to a cipher or a class, or of another call if they contain a quoted text. */
  private Span arguments(String word, Matcher link) {
    int start = link.end();
    boolean isCall = link.group(CALL) != null; // false: a method of the named object
    boolean isCipher = SecretNames.isCipher(word);
    String last = word.substring(word.lastIndexOf('.') + 1);
    boolean isName = names.contains(last);
    if (isCall && !(isCipher || isName || METHOD.matcher(word).find() && names.contains(word))) return Span.NONE;
    if (!isCall && !names.contains(word)) return Span.NONE;
    if (scan.startsWith(FRAME, start) || scan.isStructure(start)) return Span.NONE;
    boolean isClass = isCall && isName && last.charAt(0) >= 'A' && last.charAt(0) <= 'Z';
    return isCipher || isClass || scan.hasText(start) ? scan.inside(start - 1, true) : Span.NONE;
  }

  /** The secret after a name. */
  private Span value(int name, String word, boolean isColumn, Matcher link) {
    int start = link.end();
    String sign = link.group(SIGN);
    boolean isElement = link.group(COMMA) != null;
    boolean isApart = link.group(BLANKS) != null;
    if (link.group(VALUES) != null) return rows(start);
    if (sign != null) {
      boolean isSchema = sign.contains(":") && scan.startsWith(TYPE, start);
      boolean isPlace = sign.trim().equals(":") && SOURCE.matcher(word).find();
      if (isSchema || isPlace) return Span.NONE;
    }
    if (isElement && !hasQuote(link.group(CLOSERS))) return argument(name, link);
    if (isColumn && (sign != null || link.group(WORD_SIGN) != null)) return scan.operand(start);
    Matcher gap = scan.at(GAP, start);
    if (!isColumn && gap.lookingAt()) start = gap.end();
    int end;
    if (scan.isOpening(start)) {
      if (isElement || isApart || scan.startsWith(QUERY, start)) return Span.NONE;
      Span inside = scan.inside(start, true);
      end = Math.min(text.length(), Math.max(inside.end, start + 1) + 1);
      if (!scan.startsWith(MORE, end)) return inside;
    } else {
      end = scan.endOfText(start);
      if (end == start && (sign != null || isApart && word.startsWith("--"))) end = scan.endOfBare(start);
      if (end == start) return Span.NONE;
    }
    for (Matcher m = scan.at(MORE, end); m.lookingAt(); m.region(end, text.length())) end = scan.endOfText(m.end());
    return new Span(start, end);
  }

  private static boolean hasQuote(String text) {
    return text.chars().anyMatch(c -> "\"'`".indexOf(c) >= 0);
  }

  /** In {@code EqualTo(password,x)}, {@code In(password, [x, y])} and {@code StartsWith(password#1, x)}. */
  private Span argument(int name, Matcher link) {
    int start = link.end();
    String closers = link.group(CLOSERS);
    Matcher predicate = scan.before(PREDICATE, 0, name);
    // In `f(g(password#1), x)` two brackets open before the name and one closes after it
    boolean isCompared = predicate.find() && closers.indexOf(']') < 0
        && count(closers, ')') - count(closers, '(') < count(predicate.group(), '(');
    if (link.group(ID) != null) {
      return isCompared && !scan.startsWith(NUMBER, start) ? scan.operand(start) : Span.NONE;
    }
    int end = isCompared ? scan.endOfText(start) : start;
    if (end > start) return new Span(start, end);
    if (!closers.isEmpty() || name == 0 || text.charAt(name - 1) != '(') return Span.NONE;
    if (scan.isOneOf(start, "[")) return scan.inside(start, false);
    if (text.charAt(start - 1) != ',') return Span.NONE;
    end = scan.endOfText(start);
    return new Span(start, end > start ? end : scan.endOfBare(start));
  }

  private static long count(String text, char character) {
    return text.chars().filter(c -> c == character).count();
  }

  /** The rows of VALUES. */
  private Span rows(int start) {
    int end = start;
    while (scan.isOneOf(end, "(")) {
      end = scan.closing(end, true) + 1;
      int after = end;
      while (after - end < 4 && scan.isOneOf(after, TextScanner.BLANK + ",")) after++;
      if (!scan.isOneOf(after, "(")) break;
      end = after;
    }
    return new Span(start, Math.min(end, text.length()));
  }
}
