package io.joinsight.redaction;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Finds the ends of brackets, quoted texts, values and expressions in a text. Repeated reading is limited by {@code
 * redaction.json}.
 */
final class TextScanner {
  static final String BLANK = " \t\n\r\f\u000b";
  static final String QUOTES = "\"'";
  private static final String OPENING = "([{";
  private static final String CLOSING = ")]}";
  private static final String SEPARATORS = ",;&|" + OPENING + CLOSING;

  /** The number of characters to search before a name or after a bracket. */
  static final int WINDOW = RedactionRules.limit("window");

  private static final int MAX_OPERAND = RedactionRules.limit("operand");
  private static final int MAX_TOKENS = RedactionRules.limit("tokens");
  private static final Pattern QUOTE = RedactionRules.pattern("quote");
  private static final Pattern MADE = RedactionRules.pattern("made");
  private static final Pattern NEXT = RedactionRules.pattern("next");
  private static final Pattern STRUCTURE = RedactionRules.pattern("structure");

  /** A part of the text, from {@code start} to before {@code end}. */
  static final class Span {
    static final Span NONE = new Span(0, 0);

    final int start;
    final int end;

    Span(int start, int end) {
      this.start = start;
      this.end = end;
    }

    boolean isEmpty() {
      return start >= end;
    }
  }

  final String text;

  TextScanner(String text) {
    this.text = text;
  }

  boolean isOneOf(int at, String characters) {
    return at < text.length() && characters.indexOf(text.charAt(at)) >= 0;
  }

  boolean isOpening(int at) {
    return isOneOf(at, OPENING);
  }

  private boolean isClosing(int at) {
    return isOneOf(at, CLOSING);
  }

  private boolean isQuote(int at) {
    return isOneOf(at, QUOTES);
  }

  /** A matcher whose region begins at {@code start}. */
  Matcher at(Pattern pattern, int start) {
    return pattern.matcher(text).region(start, text.length());
  }

  boolean startsWith(Pattern pattern, int start) {
    return at(pattern, start).lookingAt();
  }

  /** A matcher whose region is the window before {@code end}, at most from {@code least} on. */
  Matcher before(Pattern pattern, int least, int end) {
    return pattern.matcher(text).region(Math.max(least, end - WINDOW), end);
  }

  /** Whether the text from here to the enclosing bracket, or to the end, is an expression without literals. */
  boolean isStructure(int start) {
    return endOfStructure(start, text.length()) >= 0;
  }

  /** The end of the expression that starts here, a closing bracket or {@code end}; −1 if it has a literal. */
  int endOfStructure(int start, int end) {
    int at = start;
    int depth = 0;
    boolean hasColumn = false;
    Matcher m = STRUCTURE.matcher(text);
    for (int tokens = 0; tokens < MAX_TOKENS; tokens++) {
      if (at == end || depth == 0 && isClosing(at)) return hasColumn || at == start ? at : -1;
      if (!m.region(at, end).lookingAt()) return -1;
      hasColumn |= m.group(1) != null;
      if (isOpening(m.end() - 1)) depth++;
      if (m.end() - at == 1 && isClosing(at)) depth--;
      at = m.end();
    }
    return -1;
  }

  /** The contents of the brackets that open here; empty if they contain nothing or an expression without literals. */
  Span inside(int open, boolean hasQuotes) {
    return isStructure(open + 1) ? Span.NONE : new Span(open + 1, closing(open, hasQuotes));
  }

  /** The operand that a column is compared with: Spark writes literals without quotes, up to the closing bracket. */
  Span operand(int start) {
    if (isStructure(start)) return Span.NONE;
    if (isOneOf(start, "(")) return inside(start, false);
    int depth = 0;
    for (int at = start; at < text.length(); at++) {
      if (isOpening(at)) depth++;
      if (isClosing(at) && --depth < 0 && separates(at)) return new Span(start, at);
    }
    return new Span(start, text.length());
  }

  /** The start of the operand that ends here: after an open bracket or, for a list's element, a comma. */
  int startOfOperand(int least, int end, boolean isElement) {
    int depth = 0;
    int at = end;
    for (int steps = 0; at > least && steps < MAX_OPERAND; steps++) {
      if (isClosing(at - 1)) {
        depth++;
      } else if (isOpening(at - 1)) {
        if (depth == 0) break;
        depth--;
      } else if (isElement && depth == 0 && at - 2 >= least && text.startsWith(", ", at - 2)) {
        break;
      }
      at = text.offsetByCodePoints(at, -1);
    }
    return at;
  }

  /** The quoted text that ends here, if it starts after {@code least}. */
  Span quotedBefore(int least, int end) {
    int start = end - 1;
    for (int steps = 0; start > least && steps < MAX_OPERAND; steps++) {
      start = text.offsetByCodePoints(start, -1);
      if (text.charAt(start) == text.charAt(end - 1)) return new Span(start, end);
    }
    return Span.NONE;
  }

  /** Whether a quoted text begins within the window, in the brackets that opened before {@code start}. */
  boolean hasText(int start) {
    int depth = 0;
    int at = start;
    for (int steps = 0; at < text.length() && steps < WINDOW; steps++) {
      if (isQuote(at)) return true;
      if (isOpening(at)) depth++;
      if (isClosing(at) && --depth < 0) return false;
      at = text.offsetByCodePoints(at, 1);
    }
    return false;
  }

  /** The closing bracket of the one that opens here, or the end of the text. */
  int closing(int open, boolean hasQuotes) {
    int depth = 0;
    for (int at = open; at < text.length();) {
      if (hasQuotes && isQuote(at)) {
        at = endOfQuoted(at, text.charAt(at - 1) == '\\');
        continue;
      }
      if (isOpening(at)) depth++;
      if (isClosing(at) && --depth <= 0 && (hasQuotes || separates(at))) return at;
      at++;
    }
    return text.length();
  }

  /** The end of a quoted text, or of a call that makes one; {@code start} if neither starts here. */
  int endOfText(int start) {
    Matcher m = at(QUOTE, start);
    if (m.lookingAt()) return endOfQuoted(m.end() - 1, !m.group(1).isEmpty());
    m = at(MADE, start);
    return m.lookingAt() ? Math.min(text.length(), closing(m.start(1), true) + 1) : start;
  }

  private int endOfQuoted(int open, boolean isEscaped) {
    char quote = text.charAt(open);
    for (int at = open + 1; at < text.length(); at++) {
      char c = text.charAt(at);
      char next = at + 1 < text.length() ? text.charAt(at + 1) : 0;
      if (isEscaped && c == '\\' && next == quote) return at + 2;
      if (isEscaped) continue;
      if (c == '\\' || c == quote && next == quote) at++;
      else if (c == quote) return at + 1;
    }
    return text.length(); // never closed: the whole rest may be the secret
  }

  /** The end of a value without quotes: before the next word or assignment. */
  int endOfBare(int start) {
    int at = text.startsWith(Redaction.MASK, start) ? start + Redaction.MASK.length() : start;
    for (; at < text.length(); at++) {
      if (isOneOf(at, BLANK) || isOneOf(at, "\"'`<>")) break;
      if (isOneOf(at, SEPARATORS) && separates(at)) break;
    }
    return at;
  }

  /** Whether the separator here ends the value and is not part of it. */
  private boolean separates(int at) {
    int next = at;
    while (next - at < 8 && isOneOf(next, SEPARATORS)) next++;
    if (next == text.length() || next - at > 1 && isClosing(at)) return true;
    return isOneOf(next, BLANK) || isQuote(next) || startsWith(NEXT, next);
  }
}
