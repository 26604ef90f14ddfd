package io.joinsight.capture;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The plans of an execution as a table of distinct nodes and trees that refer to them, because AQE repeats most of a
 * plan in the next one. A plan equal to the previous one is omitted.
 */
final class PlanTable {
  /** Depth first, a parent before its children. {@code parents} are indexes into {@code nodes}, −1 for the root. */
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

  /** Compares nodes by value, without their children. */
  private static final class Key {
    final PlanNode node;

    Key(PlanNode node) {
      this.node = node;
    }

    @Override
    public int hashCode() {
      return node.simple.hashCode();
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Key && node.equalsWithoutChildren(((Key) other).node);
    }
  }

  private final Map<Key, Integer> numbers = new LinkedHashMap<>();
  final List<Tree> trees = new ArrayList<>();

  PlanTable(List<LiveExecution.Plan> plans) {
    Tree last = null;
    for (LiveExecution.Plan plan : plans) {
      Tree tree = tree(plan);
      if (last == null || !Arrays.equals(tree.nodes, last.nodes) || !Arrays.equals(tree.parents, last.parents)) {
        trees.add(tree);
      }
      last = tree;
    }
  }

  /** The nodes in the order of the numbers that trees refer to. */
  Iterable<PlanNode> nodes() {
    return () -> numbers.keySet().stream().map(key -> key.node).iterator();
  }

  /** Not recursive, because plans can be thousands of levels deep. */
  private Tree tree(LiveExecution.Plan plan) {
    List<Integer> nodes = new ArrayList<>();
    List<Integer> parents = new ArrayList<>();
    ArrayDeque<PlanNode> open = new ArrayDeque<>();
    ArrayDeque<Integer> openParents = new ArrayDeque<>();
    open.push(plan.root);
    openParents.push(-1);
    while (!open.isEmpty()) {
      PlanNode node = open.pop();
      int index = nodes.size();
      nodes.add(numbers.computeIfAbsent(new Key(node), key -> numbers.size()));
      parents.add(openParents.pop());
      for (int i = node.children.size() - 1; i >= 0; i--) { // the last child first, so that the first is popped next
        open.push(node.children.get(i));
        openParents.push(index);
      }
    }
    return new Tree(plan.at, ints(nodes), ints(parents));
  }

  private static int[] ints(List<Integer> values) {
    return values.stream().mapToInt(Integer::intValue).toArray();
  }
}
