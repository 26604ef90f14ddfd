package io.joinsight.capture;

import java.util.Objects;

/** A metric in a plan, or in an event that adds metrics during adaptive execution. */
public final class PlanMetric {
  final String name;
  final long id; // of the accumulator
  final String type;

  public PlanMetric(String name, long id, String type) {
    this.name = name;
    this.id = id;
    this.type = type;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(id);
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof PlanMetric)) return false;
    PlanMetric metric = (PlanMetric) other;
    return id == metric.id && Objects.equals(name, metric.name) && Objects.equals(type, metric.type);
  }
}
