package io.joinsight.eventlog;

import java.nio.charset.StandardCharsets;

/**
 * A line of JSON that is read once from start to end. Most of an event log is not used: unused values are skipped byte
 * by byte, without decoding or checking them. The loops keep their position in a local variable, which the JVM's fast
 * compiler keeps in a register.
 */
final class JsonLine {
  private static final int MAX_KNOWN = 256; // characters

  private byte[] bytes;
  private int start;
  private int at;
  private int end;
  private int nameStart;
  private int nameLength;
  private int nameHash;

  /** Starts at this line. */
  void read(byte[] line, int start, int end) {
    bytes = line;
    this.start = start;
    at = start;
    this.end = end;
  }

  /** Fails unless the line ends here. */
  void atEnd() throws Fields.Unreadable {
    if (peek() != 0 || at != end) throw unreadable("unexpected text after the event");
  }

  /** The end of the line if it is here; otherwise -1. */
  int lineEnd() {
    return peek() == '\n' && at < end ? at : -1;
  }

  private static Fields.Unreadable unreadable(String problem) {
    return new Fields.Unreadable(problem);
  }

  /** The next byte that is not white space, which identifies the type of a value; 0 at the end. */
  byte peek() {
    while (at < end) {
      byte next = bytes[at];
      if (next != ' ' && next != '\t' && next != '\r') return next;
      at++;
    }
    return 0;
  }

  private Fields.Unreadable invalid() {
    return unreadable("invalid JSON at byte " + (Math.min(at, end) - start + 1));
  }

  // Structure

  /** Enters an object or an array that starts with this bracket. */
  boolean enter(char bracket) {
    if (peek() != bracket) return false;
    at++;
    return true;
  }

  /** Moves to the value of the next field in the entered object; false at its end, which leaves the object. */
  boolean nextField() throws Fields.Unreadable {
    byte next = peek();
    if (next == ',') {
      at++;
      next = peek();
    }
    if (next == '}') {
      at++;
      return false;
    }
    if (next != '"') throw invalid();
    byte[] line = bytes;
    int i = ++at;
    nameStart = i;
    int hash = 0;
    byte c;
    while ((c = line[i++]) != '"') {
      if (c == '\\') c = line[i++];
      hash = 31 * hash + c;
    }
    at = i;
    nameLength = i - 1 - nameStart;
    nameHash = hash;
    if (at > end || peek() != ':') throw invalid();
    at++;
    return true;
  }

  /** Moves to the next element of the entered array; false at its end, which leaves the array. */
  boolean nextElement() throws Fields.Unreadable {
    byte next = peek();
    if (next == ',') {
      at++;
      next = peek();
    }
    if (next == 0) throw invalid();
    if (next != ']') return true;
    at++;
    return false;
  }

  /** Whether the field has this name. */
  boolean is(Name name) {
    if (nameHash != name.hash || nameLength != name.bytes.length) return false;
    for (int i = 0; i < nameLength; i++)
      if (bytes[nameStart + i] != name.bytes[i]) return false;
    return true;
  }

  /** The index of the field's name in a table that {@link Name#table} built; -1 if it is not in it. */
  int among(Name[] names) {
    for (int i = nameHash & names.length - 1; names[i] != null; i = i + 1 & names.length - 1) {
      if (is(names[i])) return names[i].place;
    }
    return -1;
  }

  /** The field's name. */
  String name() throws Fields.Unreadable {
    return decoded(nameStart, nameStart + nameLength);
  }

  /** A field name to look for. */
  static final class Name {
    private final byte[] bytes;
    private final int hash;
    private final int place;

    Name(String name) {
      this(name, 0);
    }

    private Name(String name, int place) {
      bytes = name.getBytes(StandardCharsets.US_ASCII);
      hash = name.hashCode();
      this.place = place;
    }

    static Name[] table(String... names) {
      Name[] table = new Name[Integer.highestOneBit(names.length) * 4];
      for (int place = 0; place < names.length; place++) {
        Name name = new Name(names[place], place);
        int i = name.hash & table.length - 1;
        while (table[i] != null) i = i + 1 & table.length - 1;
        table[i] = name;
      }
      return table;
    }
  }

  // Values

  /** Skips the value. */
  void skip() throws Fields.Unreadable {
    byte first = peek();
    byte[] line = bytes;
    int i = at;
    if (first == '"') {
      i = afterText(line, i + 1);
    } else if (first == '{' || first == '[') {
      int depth = 0;
      do {
        byte c = line[i++];
        if (c == '"') i = afterText(line, i);
        else if (c == '{' || c == '[') depth++;
        else if (c == '}' || c == ']') depth--;
        else if (c == '\n') throw invalid(); // it belongs to the next line
      } while (depth > 0 && i < end);
      if (depth > 0) throw invalid();
    } else {
      while (i < end && line[i] > ' ' && line[i] != ',' && line[i] != '}' && line[i] != ']') i++;
      if (i == at) throw invalid();
    }
    at = i;
    if (i > end) throw invalid();
  }

  private static int afterText(byte[] line, int i) {
    byte c;
    while ((c = line[i++]) != '"')
      if (c == '\\') i++;
    return i;
  }

  /** Reads the string value at the current position. */
  String text() throws Fields.Unreadable {
    int from = at + 1;
    skip();
    return decoded(from, at - 1);
  }

  /**
   * Reads a string that many lines have, which is then a String of the table {@code known}, of a power of two; null if it
   * is not a string.
   */
  String text(String[] known) throws Fields.Unreadable {
    boolean isText = peek() == '"';
    int from = at + 1;
    skip();
    if (!isText) return null;
    int length = at - 1 - from;
    int hash = 0;
    for (int i = 0; i < length; i++) hash = 31 * hash + bytes[from + i];
    String there = known[hash & known.length - 1];
    if (there != null && there.length() == length && there.hashCode() == hash) {
      int i = 0;
      while (i < length && there.charAt(i) == bytes[from + i]) i++;
      if (i == length) return there;
    }
    String text = decoded(from, at - 1);
    boolean isPlain = text.length() == length; // without escapes
    if (isPlain && length <= MAX_KNOWN) known[hash & known.length - 1] = text;
    return text;
  }

  /** Reads a string that begins with {@code start} or contains {@code part}, which are ASCII; of any other, null. */
  String textWith(byte[] start, byte[] part) throws Fields.Unreadable {
    boolean isText = peek() == '"';
    int from = at + 1;
    skip();
    if (!isText) return null;
    if (isAt(from, start)) return decoded(from, at - 1);
    for (int i = from; i < at - part.length; i++) {
      if (isAt(i, part)) return decoded(from, at - 1);
    }
    return null;
  }

  /** Whether these bytes are at {@code from}, in the text that ends here. */
  private boolean isAt(int from, byte[] part) {
    int same = 0;
    while (same < part.length && from + same < at && bytes[from + same] == part[same]) same++;
    return same == part.length;
  }

  private String decoded(int from, int to) throws Fields.Unreadable {
    int escape = from;
    while (escape < to && bytes[escape] != '\\') escape++;
    String text = new String(bytes, from, escape - from, StandardCharsets.UTF_8);
    if (escape == to) return text;
    StringBuilder out = new StringBuilder(to - from).append(text);
    for (int i = escape; i < to;) {
      char c = (char) bytes[i + 1];
      i += 2;
      if (c == 'u') {
        if (i + 4 > to) throw invalid();
        int code = 0;
        for (int digits = 0; digits < 4; digits++) {
          int digit = Character.digit(bytes[i++], 16);
          if (digit < 0) throw invalid();
          code = 16 * code + digit;
        }
        out.append((char) code);
      } else {
        int escaped = "bfnrt\"\\/".indexOf(c);
        if (escaped < 0) throw invalid();
        out.append("\b\f\n\r\t\"\\/".charAt(escaped));
      }
      int plain = i;
      while (i < to && bytes[i] != '\\') i++;
      out.append(new String(bytes, plain, i - plain, StandardCharsets.UTF_8));
    }
    return out.toString();
  }

  boolean isNull() {
    return peek() == 'n';
  }

  boolean isTrue() throws Fields.Unreadable {
    boolean isTrue = peek() == 't';
    skip();
    return isTrue;
  }

  /** Whether the value is this string; false for other types. */
  boolean isText(Name name) throws Fields.Unreadable {
    boolean is = peek() == '"' && end - at > name.bytes.length + 1 && bytes[at + 1 + name.bytes.length] == '"';
    for (int i = 0; is && i < name.bytes.length; i++) is = bytes[at + 1 + i] == name.bytes[i];
    skip();
    return is;
  }

  long number() throws Fields.Unreadable {
    if (!isNumber(false)) throw unreadable("a number has the wrong type");
    return number;
  }

  long number;

  /**
   * Whether the value is an integer that fits a long, which becomes {@link #number}, or a string with one if allowed;
   * reads it.
   */
  boolean isNumber(boolean mayBeText) throws Fields.Unreadable {
    int from = peek() == '"' && mayBeText ? at + 1 : at;
    skip();
    int to = from > 0 && bytes[from - 1] == '"' && mayBeText ? at - 1 : at;
    boolean isNegative = from < to && bytes[from] == '-';
    int i = isNegative ? from + 1 : from;
    if (i >= to || to - i > 19) return false;
    long negative = 0;
    for (; i < to; i++) {
      int digit = bytes[i] - '0';
      if (digit < 0 || digit > 9) return false;
      negative = 10 * negative - digit;
      if (negative > 0) return false; // exceeds a long
    }
    if (!isNegative && negative == Long.MIN_VALUE) return false;
    number = isNegative ? negative : -negative;
    return true;
  }
}
