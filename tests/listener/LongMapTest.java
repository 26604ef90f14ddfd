package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.HashMap;
import java.util.Map;
import java.util.Random;

/** Compares LongMap with a HashMap under random writes. */
public final class LongMapTest {
  public static void main(String[] arguments) {
    Random random = new Random(7);
    for (int round = 0; round < 500; round++) {
      Map<Long, String> expected = new HashMap<>();
      LongMap<String> map = new LongMap<>();
      long[] edges = {0, -1, Long.MAX_VALUE, Long.MIN_VALUE, 1L << 32, 16, 32};
      long base = random.nextLong();
      for (int write = 0; write < 200; write++) {
        long key = random.nextInt(9) == 0 ? edges[random.nextInt(edges.length)] : base + random.nextInt(300);
        String value = "v" + write;
        String old = map.put(key, value);
        String expectedOld = expected.put(key, value);
        check(expectedOld == null ? old == null : expectedOld.equals(old), "put returned " + old);
      }
      LongMap<String> copy = new LongMap<>(map);
      map.put(base, "changed");
      check(copy.size() == expected.size(), "size is " + copy.size() + ", not " + expected.size());
      for (long key = base - 5; key < base + 305; key++) same(expected.get(key), copy.get(key));
      for (long key : edges) same(expected.get(key), copy.get(key));
    }
    System.out.println("ok");
  }

  private static void same(String expected, String found) {
    check(expected == null ? found == null : expected.equals(found), "get is " + found + ", not " + expected);
  }
}
