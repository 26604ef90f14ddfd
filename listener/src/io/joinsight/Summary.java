package io.joinsight;

import java.util.Arrays;

/** The distribution of values: count, sum, minimum, quartiles, 95th percentile, maximum. */
final class Summary {
  final long count;
  final long sum;
  final long min;
  final long p25;
  final long median;
  final long p75;
  final long p95;
  final long max;

  private Summary(long count, long sum, long min, long p25, long median, long p75, long p95, long max) {
    this.count = count;
    this.sum = sum;
    this.min = min;
    this.p25 = p25;
    this.median = median;
    this.p75 = p75;
    this.p95 = p95;
    this.max = max;
  }

  /** Summarises the first {@code n} values, and sorts them; null if there are none. */
  static Summary of(long[] values, int n) {
    if (n == 0) return null;
    Arrays.sort(values, 0, n);
    long sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return new Summary(
        n, sum, values[0], values[(int) percentile(25, n)], values[(int) median(n)], values[(int) percentile(75, n)],
        values[(int) percentile(95, n)], values[n - 1]);
  }

  /** Summarises a histogram; median and percentiles are within 1 %. */
  static Summary of(Histogram h) {
    long n = h.count();
    if (n == 0) return null;
    return new Summary(
        n, h.sum(), h.min(), h.at(percentile(25, n)), h.at(median(n)), h.at(percentile(75, n)), h.at(percentile(95, n)),
        h.max());
  }

  /** The index of the median among n sorted values: the rule of Spark's SQLMetrics.stringValue. */
  private static long median(long n) {
    return n / 2;
  }

  private static long percentile(int percent, long n) {
    return n * percent / 100;
  }
}
