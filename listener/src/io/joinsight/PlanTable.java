package io.joinsight;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;

/**
 * The plans of an execution as a table of their nodes, equal ones once, and trees that name them: AQE repeats most of a
 * plan in the next one. A plan equal to the one before it changed nothing and is left out.
 */
final class PlanTable {
  /** Depth first, a parent before its children. {@code parents} are places in {@code nodes}, −1 for the root. */
  static final class Tree {
    final long at;
    final int[] nodes;
    final int[] parents;

    Tree(long at, int[] nodes, int[] parents) {
      this.at = at;
      this.nodes = nodes;
      this.parents = parents;
    }
  }

  /** A node without its children, by value. SparkPlanInfo's own equality is another: it compares whole subtrees. */
  private static final class Key {
    final SparkPlanInfo node;
    final List<Object> rest = new ArrayList<>();

    Key(SparkPlanInfo node) throws Throwable {
      this.node = node;
      for (scala.collection.Iterator<?> i = SparkAccess.metrics(node); i.hasNext(); ) {
        SQLMetricInfo metric = (SQLMetricInfo) i.next();
        rest.add(metric.accumulatorId());
        rest.add(metric.name());
        rest.add(metric.metricType());
      }
      rest.add(node.metadata());
    }

    @Override
    public int hashCode() {
      return node.simpleString().hashCode();
    }

    @Override
    public boolean equals(Object other) {
      if (!(other instanceof Key)) return false;
      Key key = (Key) other;
      return node.nodeName().equals(key.node.nodeName())
          && node.simpleString().equals(key.node.simpleString())
          && rest.equals(key.rest);
    }
  }

  private final Map<Key, Integer> places = new LinkedHashMap<>();
  final List<Tree> trees = new ArrayList<>();

  PlanTable(List<LiveExecution.Plan> plans) throws Throwable {
    Tree last = null;
    for (LiveExecution.Plan plan : plans) {
      Tree tree = tree(plan);
      if (last == null || !Arrays.equals(tree.nodes, last.nodes) || !Arrays.equals(tree.parents, last.parents)) {
        trees.add(tree);
      }
      last = tree;
    }
  }

  /** The nodes that the trees name, in the order of their numbers. */
  Iterable<SparkPlanInfo> nodes() {
    return () -> places.keySet().stream().map(key -> key.node).iterator();
  }

  /** Plans can be thousands of levels deep, so there is no recursion. */
  private Tree tree(LiveExecution.Plan plan) throws Throwable {
    List<Integer> nodes = new ArrayList<>();
    List<Integer> parents = new ArrayList<>();
    ArrayDeque<SparkPlanInfo> open = new ArrayDeque<>();
    ArrayDeque<Integer> openParents = new ArrayDeque<>();
    open.push(plan.root);
    openParents.push(-1);
    while (!open.isEmpty()) {
      SparkPlanInfo node = open.pop();
      int place = nodes.size();
      nodes.add(places.computeIfAbsent(new Key(node), key -> places.size()));
      parents.add(openParents.pop());
      ArrayDeque<SparkPlanInfo> children = new ArrayDeque<>();
      for (scala.collection.Iterator<?> i = SparkAccess.children(node); i.hasNext(); ) {
        children.push((SparkPlanInfo) i.next());
      }
      for (SparkPlanInfo child : children) { // the last child first, so that the first is popped next
        open.push(child);
        openParents.push(place);
      }
    }
    return new Tree(plan.at, ints(nodes), ints(parents));
  }

  private static int[] ints(List<Integer> values) {
    return values.stream().mapToInt(Integer::intValue).toArray();
  }
}
