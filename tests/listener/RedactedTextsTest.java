package io.joinsight.redaction;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;

/** Remembers more texts than fit, in several threads: what is known is right, stays while it is used, and is bounded. */
public final class RedactedTextsTest {
  private static final int THREADS = 3;
  private static final int TEXTS = 50_000;
  private static final int USED_EVERY = 100;

  public static void main(String[] args) throws Exception {
    RedactedTexts known = new RedactedTexts();
    AtomicReference<Throwable> problem = new AtomicReference<>();
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      int seed = i;
      Thread thread = new Thread(() -> use(known, new Random(seed), null));
      thread.setUncaughtExceptionHandler((any, thrown) -> problem.set(thrown));
      thread.start();
      threads.add(thread);
    }
    for (Thread thread : threads) thread.join();
    if (problem.get() != null) throw new AssertionError(problem.get());
    use(known, new Random(THREADS), "in use"); // while no other thread makes it the oldest
    known.put(String.join("", Collections.nCopies(2_000, "x")), "short");
    if (known.get(String.join("", Collections.nCopies(2_000, "x"))) != null) throw new AssertionError("a long text");
    System.out.println("ok");
  }

  private static void use(RedactedTexts known, Random random, String used) {
    if (used != null) known.put(used, redacted(used));
    for (int i = 0; i < TEXTS; i++) {
      String text = "text " + random.nextInt(2 * TEXTS);
      String found = known.get(text);
      if (found == null) known.put(text, redacted(text));
      else if (!found.equals(redacted(text))) throw new AssertionError(text + " became " + found);
      boolean isUsed = used != null && i % USED_EVERY == 0;
      if (isUsed && known.get(used) == null) throw new AssertionError(used + " is no longer known");
      // Of each generation at most the limit, and one text of each thread beyond it; an entry counts as 100
      if (known.count() > 2 * (RedactedTexts.LIMIT / 100 + THREADS)) throw new AssertionError(known.count() + " texts");
    }
  }

  private static String redacted(String text) {
    return text.hashCode() % 3 == 0 ? "*" + text : text;
  }
}
