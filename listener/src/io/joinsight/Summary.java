package io.joinsight;

import java.util.Arrays;

/** The distribution of values: count, sum, minimum, median, 95th percentile, maximum. */
final class Summary {
  final long count;
  final long sum;
  final long min;
  final long median;
  final long p95;
  final long max;

  private Summary(long count, long sum, long min, long median, long p95, long max) {
    this.count = count;
    this.sum = sum;
    this.min = min;
    this.median = median;
    this.p95 = p95;
    this.max = max;
  }

  /** Summarises the first {@code n} values, and sorts them; null if there are none. */
  static Summary of(long[] values, int n) {
    if (n == 0) return null;
    Arrays.sort(values, 0, n);
    long sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return new Summary(n, sum, values[0], values[(int) median(n)], values[(int) p95(n)], values[n - 1]);
  }

  /** Summarises a histogram; median and percentile are within 1 %. */
  static Summary of(Histogram h) {
    long n = h.count();
    if (n == 0) return null;
    return new Summary(n, h.sum(), h.min(), h.at(median(n)), h.at(p95(n)), h.max());
  }

  /** The index of the median among n sorted values: the rule of Spark's SQLMetrics.stringValue. */
  private static long median(long n) {
    return n / 2;
  }

  private static long p95(long n) {
    return n * 95 / 100;
  }
}
