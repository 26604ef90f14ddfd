package io.joinsight.capture;

import static io.joinsight.Check.check;

/** Checks how texts of others appear in logs. */
public final class TextsTest {
  public static void main(String[] arguments) {
    escaped("Umsätze 東京 שלום é 😀", "Umsätze 東京 שלום é 😀");
    escaped("\033[2J\u0007\r\n\t", "\\x1b[2J\\x07\\x0d\\x0a\\x09");
    escaped("\u009b2J\u0085\u007f\u00ad", "\\x9b2J\\x85\\x7f\\xad");
    escaped("\u202egnp\u2066\u200b\u2028\ufeff", "\\u202egnp\\u2066\\u200b\\u2028\\ufeff");
    escaped("\udb40\udc41 \ud83d $1 \\", "\\U000e0041 \\ud83d $1 \\");
    line("no \033[31m\u009b\r\nX: y", "no \\x1b[31m\\x9b");
    line("\u202e" + repeat('x', 600), "\\u202e" + repeat('x', 499) + "...");
    System.out.println("ok");
  }

  private static void escaped(String text, String expected) {
    String found = Texts.escape(text);
    check(found.equals(expected), found + " is not " + expected);
  }

  /** The first line of a reply, from the collector or whatever else answers there. */
  private static void line(String text, String expected) {
    String found = Texts.firstLine(text);
    check(found.equals(expected), found + " is not " + expected);
  }

  private static String repeat(char c, int times) {
    return new String(new char[times]).replace('\0', c);
  }
}
