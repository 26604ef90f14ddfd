package io.joinsight.capture;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** A set of document numbers, stored as ranges because most are consecutive. */
public final class IdRanges {
  private final TreeMap<Long, Long> ranges = new TreeMap<>(); // first to last, both included

  public void add(long number) {
    add(number, number);
  }

  void addAll(IdRanges others) {
    for (Map.Entry<Long, Long> range : others.ranges.entrySet()) add(range.getKey(), range.getValue());
  }

  private void add(long first, long last) {
    Map.Entry<Long, Long> before = ranges.floorEntry(last + 1);
    while (before != null && before.getValue() >= first - 1) {
      first = Math.min(first, before.getKey());
      last = Math.max(last, before.getValue());
      ranges.remove(before.getKey());
      before = ranges.floorEntry(last + 1);
    }
    ranges.put(first, last);
  }

  /** Removes all numbers up to this one, inclusive. */
  void removeUpTo(long number) {
    for (Map.Entry<Long, Long> range; (range = ranges.firstEntry()) != null && range.getKey() <= number;) {
      ranges.pollFirstEntry();
      if (range.getValue() > number) ranges.put(number + 1, range.getValue());
    }
  }

  /** Removes the smallest elements, so that this number of ranges is left at most. */
  void keepNewest(int limit) {
    while (ranges.size() > limit) ranges.pollFirstEntry();
  }

  public boolean isEmpty() {
    return ranges.isEmpty();
  }

  /** The number of elements. */
  public long count() {
    long count = 0;
    for (Map.Entry<Long, Long> range : ranges.entrySet()) count += range.getValue() - range.getKey() + 1;
    return count;
  }

  /** The elements in ascending order. */
  public List<Long> toList() {
    List<Long> elements = new ArrayList<>();
    for (Map.Entry<Long, Long> range : ranges.entrySet())
      for (long n = range.getKey(); n <= range.getValue(); n++) elements.add(n);
    return elements;
  }

  IdRanges copy() {
    IdRanges copy = new IdRanges();
    copy.ranges.putAll(ranges);
    return copy;
  }

  /** Writes {@code [[first, last], ...]}. */
  void write(JsonGenerator g) throws IOException {
    g.writeStartArray();
    for (Map.Entry<Long, Long> range : ranges.entrySet()) {
      g.writeStartArray();
      g.writeNumber(range.getKey());
      g.writeNumber(range.getValue());
      g.writeEndArray();
    }
    g.writeEndArray();
  }

  @Override
  public String toString() {
    return ranges.toString();
  }
}
