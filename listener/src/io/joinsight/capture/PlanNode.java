package io.joinsight.capture;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** A node of a plan with its descendants, from Spark's SparkPlanInfo. */
public final class PlanNode {
  final String name;
  final String simple;
  public Map<String, String> metadata = Collections.emptyMap();
  public final List<PlanMetric> metrics = new ArrayList<>();
  public final List<PlanNode> children = new ArrayList<>();

  public PlanNode(String name, String simple) {
    this.name = name;
    this.simple = simple;
  }

  /** Whether two nodes are equal, ignoring their children. */
  boolean equalsWithoutChildren(PlanNode other) {
    return name.equals(other.name) && simple.equals(other.simple) && metrics.equals(other.metrics)
        && metadata.equals(other.metadata);
  }
}
