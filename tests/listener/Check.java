package io.joinsight;

/** What the {@code *Test} programs check with: the first thing that does not hold ends the program. */
public final class Check {
  private Check() {}

  public static void check(boolean holds, String otherwise) {
    if (!holds) throw new AssertionError(otherwise);
  }
}
