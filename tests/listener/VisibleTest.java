package io.joinsight;

/** Looks at what the listener writes into logs of texts that are not its own; exits with 1 at the first difference. */
public final class VisibleTest {
  public static void main(String[] arguments) {
    check("Umsätze 東京 שלום é 😀", "Umsätze 東京 שלום é 😀");
    check("\033[2J\u0007\r\n\t", "\\x1b[2J\\x07\\x0d\\x0a\\x09");
    check("\u009b2J\u0085\u007f\u00ad", "\\x9b2J\\x85\\x7f\\xad");
    check("\u202egnp\u2066\u200b\u2028\ufeff", "\\u202egnp\\u2066\\u200b\\u2028\\ufeff");
    check("\udb40\udc41 \ud83d $1 \\", "\\U000e0041 \\ud83d $1 \\");
    line("no \033[31m\u009b\r\nX: y", "no \\x1b[31m\\x9b");
    line("\u202e" + repeat('x', 600), "\\u202e" + repeat('x', 499) + "...");
    System.out.println("ok");
  }

  private static void check(String text, String expected) {
    equal(Visible.of(text), expected);
  }

  /** What a collector, or what else answers there, says of itself. */
  private static void line(String text, String expected) {
    equal(Sender.firstLine(text), expected);
  }

  private static void equal(String found, String expected) {
    if (found.equals(expected)) return;
    System.err.println(found + " is not " + expected);
    System.exit(1);
  }

  private static String repeat(char c, int times) {
    return new String(new char[times]).replace('\0', c);
  }
}
