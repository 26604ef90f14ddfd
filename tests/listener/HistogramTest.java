package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.Arrays;
import java.util.Random;

/** Compares Histogram with the sorted values themselves. */
public final class HistogramTest {
  public static void main(String[] arguments) {
    Random random = new Random(7);
    for (int round = 0; round < 2000; round++) {
      long[] values = new long[1 + random.nextInt(300)];
      int bits = 1 + random.nextInt(62);
      Histogram histogram = new Histogram();
      Histogram other = new Histogram();
      for (int i = 0; i < values.length; i++) {
        values[i] = random.nextInt(10) == 0 ? 0 : random.nextLong() >>> (64 - bits);
        (random.nextBoolean() ? histogram : other).add(values[i]);
      }
      histogram.addAll(other);
      Arrays.sort(values);
      long sum = 0;
      for (long value : values) sum += value;
      check(histogram.count() == values.length, "count");
      check(histogram.sum() == sum, "sum");
      check(histogram.min() == values[0] && histogram.max() == values[values.length - 1], "min, max");
      long positive = Arrays.stream(values).filter(value -> value > 0).count();
      check(histogram.positive() == positive, "positive");
      Summary exact = Summary.of(values.clone(), values.length);
      Summary approximate = Summary.of(histogram);
      check(exact.positive == positive && approximate.positive == positive, "positive values");
      long median = positive == 0 ? 0 : values[(int) (values.length - positive + positive / 2)];
      check(exact.positiveMedian == median, "their median");
      check(Math.abs(approximate.positiveMedian - median) <= median / 100.0, "their median from a histogram");
      for (int place = 0; place < values.length; place++) {
        long found = histogram.at(place);
        check(
            Math.abs(found - values[place]) <= values[place] / 100.0,
            "at " + place + ": " + found + " for " + values[place]);
      }
    }
    Histogram zeros = new Histogram();
    zeros.add(0, 5);
    zeros.add(-7);
    zeros.add(3, 0);
    check(zeros.positive() == 0 && Summary.of(zeros).positive == 0, "no positive ones");
    check(zeros.count() == 6 && zeros.at(0) == -7 && zeros.at(1) == 0 && zeros.at(5) == 0, "zeros");
    System.out.println("ok");
  }
}
