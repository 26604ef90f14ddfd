package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.Random;

/** Compares PackedLongArray with a plain long[] under random writes of all widths. */
public final class PackedLongArrayTest {
  public static void main(String[] arguments) {
    Random random = new Random(7);
    for (int round = 0; round < 2000; round++) {
      int length = 1 + random.nextInt(40);
      long[] expected = new long[length];
      Memory memory = new Memory(0);
      PackedLongArray packed = new PackedLongArray(length, memory);
      int bits = 1 + random.nextInt(64);
      for (int write = 0; write < 60; write++) {
        int index = random.nextInt(length);
        long value = random.nextInt(8) == 0 ? edge(random) : random.nextLong() >> (64 - bits);
        expected[index] = value;
        PackedLongArray before = packed.copy();
        long old = before.get(index);
        packed.set(index, value);
        check(before.get(index) == old, "a copy changed with its original");
        long[] copied = new long[length + 2];
        java.util.Arrays.fill(copied, 99);
        packed.copyTo(copied, 1);
        for (int i = 0; i < length; i++) {
          check(packed.get(i) == expected[i], "get(" + i + ") is " + packed.get(i) + ", not " + expected[i]);
          check(copied[i + 1] == expected[i], "copyTo wrote " + copied[i + 1] + ", not " + expected[i]);
        }
        check(copied[0] == 99 && copied[length + 1] == 99, "copyTo wrote outside its range");
        check(packed.heapBytes() <= 8L * length, "more than 8 bytes a value");
        check(packed.heapBytes() == memory.used(), "on the account are " + memory.used() + " bytes");
      }
    }
    Memory memory = new Memory(0);
    PackedLongArray untouched = new PackedLongArray(1_000_000, memory);
    untouched.set(5, 0);
    check(untouched.heapBytes() == 0, "zeros took memory");
    untouched.set(5, -1);
    check(untouched.heapBytes() == 1_000_000, "-1 took more than a byte a value");
    System.out.println("ok");
  }

  private static long edge(Random random) {
    long[] edges = {
        0,
        -1,
        127,
        128,
        -128,
        -129,
        Integer.MAX_VALUE,
        Integer.MAX_VALUE + 1L,
        Integer.MIN_VALUE,
        Integer.MIN_VALUE - 1L,
        Long.MAX_VALUE,
        Long.MIN_VALUE};
    return edges[random.nextInt(edges.length)];
  }
}
