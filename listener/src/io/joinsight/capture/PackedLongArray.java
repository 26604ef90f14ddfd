package io.joinsight.capture;

import java.util.Arrays;

/**
 * A fixed number of longs, initially 0, with as few bytes for each as their values need: 0, 1, 4 or 8.
 *
 * <p>Most metrics of a task are untouched (0 or −1) or small, so 100,000 tasks take 100 to 400 KB per metric, not 800.
 */
final class PackedLongArray {
  final int length;
  private byte[] bytes;
  private int[] ints;
  private long[] longs;
  private final Memory memory; // null in copies, which are not counted

  /** Adds its heap use to {@code memory}; the owner subtracts it when it drops the array. */
  PackedLongArray(int length, Memory memory) {
    this.length = length;
    this.memory = memory;
  }

  PackedLongArray copy() {
    PackedLongArray copy = new PackedLongArray(length, null);
    copy.bytes = bytes == null ? null : bytes.clone();
    copy.ints = ints == null ? null : ints.clone();
    copy.longs = longs == null ? null : longs.clone();
    return copy;
  }

  long get(int index) {
    if (longs != null) return longs[index];
    if (ints != null) return ints[index];
    return bytes == null ? 0 : bytes[index];
  }

  void set(int index, long value) {
    if (longs != null) {
      longs[index] = value;
    } else if (ints != null && value == (int) value) {
      ints[index] = (int) value;
    } else if (ints == null && value == (byte) value) {
      if (bytes == null) {
        if (value == 0) return;
        bytes = new byte[length];
        if (memory != null) memory.add(length);
      }
      bytes[index] = (byte) value;
    } else {
      widen(value);
      set(index, value);
    }
  }

  private void widen(long value) {
    long before = heapBytes();
    if (value == (int) value) {
      ints = new int[length];
      for (int i = 0; bytes != null && i < length; i++) ints[i] = bytes[i];
    } else {
      longs = new long[length];
      for (int i = 0; i < length; i++) longs[i] = ints != null ? ints[i] : bytes != null ? bytes[i] : 0;
      ints = null;
    }
    bytes = null;
    if (memory != null) memory.add(heapBytes() - before);
  }

  /** Heap use of the values, in bytes. */
  long heapBytes() {
    if (longs != null) return 8L * length;
    if (ints != null) return 4L * length;
    return bytes == null ? 0 : length;
  }

  /** Writes all values to {@code target} from {@code offset} on. */
  void copyTo(long[] target, int offset) {
    if (longs != null) {
      System.arraycopy(longs, 0, target, offset, length);
    } else if (ints != null) {
      for (int i = 0; i < length; i++) target[offset + i] = ints[i];
    } else if (bytes != null) {
      for (int i = 0; i < length; i++) target[offset + i] = bytes[i];
    } else {
      Arrays.fill(target, offset, offset + length, 0);
    }
  }
}
