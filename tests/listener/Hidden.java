package io.joinsight.capture;

/** Prints the code points that the listener escapes in logs, a line each. */
public final class Hidden {
  public static void main(String[] arguments) {
    StringBuilder found = new StringBuilder();
    for (int code = 0; code <= Character.MAX_CODE_POINT; code++) {
      String text = new String(Character.toChars(code));
      if (!Texts.escape(text).equals(text)) found.append(code).append('\n');
    }
    System.out.print(found);
  }
}
