package io.joinsight.capture;

/**
 * The distribution of values that are not kept individually. Count, sum, minimum and maximum are exact, quantiles
 * within 1 %. Values are counted in buckets of 1/64 of a power of two; each value below 64 has its own bucket.
 */
final class Histogram {
  private static final int BITS = 6;
  private static final int SIZE = 1 << BITS;

  /** Approximate heap use of a histogram. */
  static final int BYTES = 4096;

  private final int[][] octaves = new int[Long.SIZE - BITS][];
  private long negatives;
  private long count;
  private long sum;
  private long min = Long.MAX_VALUE;
  private long max = Long.MIN_VALUE;

  void add(long value) {
    add(value, 1);
  }

  void add(long value, int times) {
    if (times == 0) return;
    count += times;
    sum += value * times;
    min = Math.min(min, value);
    max = Math.max(max, value);
    if (value < 0) {
      negatives += times;
      return;
    }
    int shift = Math.max(0, Long.SIZE - BITS - 1 - Long.numberOfLeadingZeros(value));
    int octave = value < SIZE ? 0 : shift + 1;
    if (octaves[octave] == null) octaves[octave] = new int[SIZE];
    octaves[octave][(int) (value >>> shift) & (SIZE - 1)] += times;
  }

  void addAll(Histogram other) {
    count += other.count;
    sum += other.sum;
    min = Math.min(min, other.min);
    max = Math.max(max, other.max);
    negatives += other.negatives;
    for (int i = 0; i < octaves.length; i++) {
      if (other.octaves[i] == null) continue;
      if (octaves[i] == null) octaves[i] = new int[SIZE];
      for (int j = 0; j < SIZE; j++) octaves[i][j] += other.octaves[i][j];
    }
  }

  long count() {
    return count;
  }

  /** How many values are above 0; exact. */
  long positive() {
    return count - negatives - (octaves[0] == null ? 0 : octaves[0][0]);
  }

  long sum() {
    return sum;
  }

  long min() {
    return min;
  }

  long max() {
    return max;
  }

  /** The approximate value at an index of the sorted values. */
  long at(long index) {
    long before = negatives;
    if (index < before) return min;
    for (int octave = 0; octave < octaves.length; octave++) {
      for (int j = 0; octaves[octave] != null && j < SIZE; j++) {
        before += octaves[octave][j];
        if (index < before) return Math.max(min, Math.min(max, middle(octave, j)));
      }
    }
    return max;
  }

  private static long middle(int octave, int j) {
    if (octave == 0) return j;
    int shift = octave - 1;
    return ((long) (SIZE + j) << shift) + (1L << shift) / 2;
  }
}
