package io.joinsight.capture;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * Why Spark runs operators that a native engine could have run. Comet tells it in the description of a plan, if the
 * session has {@code spark.sql.extendedExplainProviders=org.apache.comet.ExtendedExplainInfo}: a tree of names, as
 * {@code :- Window [COMET: frame is not supported]}. Those of one name come in the order of the plan.
 */
public final class Fallbacks {
  public static final String MARK = "[COMET: ";

  /** The key of a reason among a node's metadata. */
  static final String KEY = "Fallback";

  private static final String SECTION = "== Extended Information (Comet) ==";
  private static final int MAX_LENGTH = 500;

  private Fallbacks() {}

  /** Adds the reasons that a description has, which may be null, to the nodes of its plan. */
  public static void addTo(PlanNode root, String description) {
    int start = description == null || !description.contains(MARK) ? -1 : description.indexOf(SECTION);
    if (start < 0) return;
    Map<String, Deque<PlanNode>> byName = byName(root);
    for (String line : description.substring(start).split("\n")) {
      int mark = line.indexOf(MARK);
      Deque<PlanNode> nodes = byName.get(name(mark < 0 ? line : line.substring(0, mark)));
      PlanNode node = nodes == null ? null : nodes.poll();
      if (node == null || mark < 0) continue;
      String reason = line.substring(mark + MARK.length()).trim();
      if (reason.endsWith("]")) reason = reason.substring(0, reason.length() - 1);
      node.metadata = new TreeMap<>(node.metadata);
      node.metadata.put(KEY, reason.substring(0, Math.min(reason.length(), MAX_LENGTH)));
    }
  }

  private static String name(String indented) {
    int i = 0;
    while (i < indented.length() && " :+-".indexOf(indented.charAt(i)) >= 0) i++;
    return indented.substring(i).trim();
  }

  /** The nodes by name, in the order in which trees are drawn. */
  private static Map<String, Deque<PlanNode>> byName(PlanNode root) {
    Map<String, Deque<PlanNode>> byName = new HashMap<>();
    Deque<PlanNode> open = new ArrayDeque<>();
    open.push(root);
    while (!open.isEmpty()) {
      PlanNode node = open.pop();
      byName.computeIfAbsent(node.name.trim(), name -> new ArrayDeque<>()).add(node);
      for (int i = node.children.size() - 1; i >= 0; i--) open.push(node.children.get(i));
    }
    return byName;
  }
}
