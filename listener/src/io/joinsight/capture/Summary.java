package io.joinsight.capture;

import java.util.Arrays;
import java.util.function.LongUnaryOperator;

/** The distribution of values: count, sum, minimum, quartiles, 95th percentile, maximum; and of those above 0. */
final class Summary {
  final long count;
  final long sum;
  final long min;
  final long p25;
  final long median;
  final long p75;
  final long p95;
  final long max;
  final long positive; // how many are above 0
  final long positiveMedian; // 0 for none

  /** {@code at}: the value at an index of the sorted values. */
  private Summary(long count, long sum, long min, long max, long positive, LongUnaryOperator at) {
    this.count = count;
    this.sum = sum;
    this.min = min;
    p25 = at.applyAsLong(percentile(25, count));
    median = at.applyAsLong(median(count));
    p75 = at.applyAsLong(percentile(75, count));
    p95 = at.applyAsLong(percentile(95, count));
    this.max = max;
    this.positive = positive;
    positiveMedian = positive > 0 ? at.applyAsLong(count - positive + median(positive)) : 0;
  }

  /** Summarises the first {@code n} values, and sorts them; null if there are none. */
  static Summary of(long[] values, int n) {
    if (n == 0) return null;
    Arrays.sort(values, 0, n);
    long sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    int positive = n;
    while (positive > 0 && values[n - positive] <= 0) positive--;
    return new Summary(n, sum, values[0], values[n - 1], positive, i -> values[(int) i]);
  }

  /** Summarises a histogram; median and percentiles are within 1 %. */
  static Summary of(Histogram h) {
    if (h.count() == 0) return null;
    return new Summary(h.count(), h.sum(), h.min(), h.max(), h.positive(), h::at);
  }

  /** The index of the median among n sorted values: the rule of Spark's SQLMetrics.stringValue. */
  private static long median(long n) {
    return n / 2;
  }

  private static long percentile(int percent, long n) {
    return n * percent / 100;
  }
}
