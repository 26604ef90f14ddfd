package io.joinsight.capture;

/** Reasons for which Comet left operators to Spark come from a plan's description, and are its nodes' metadata. */
public final class FallbacksTest {
  public static void main(String[] arguments) {
    String description = "== Physical Plan ==\nWindow [COMET: not here]\n\n== Extended Information (Comet) ==\n"
        + "Project\n+- Window [COMET: frame is [not] supported, and more]\n"
        + "   :- Project [COMET: f is not supported]\n   :  +- CometScan\n   +- Unknown [COMET: x]\n\nComet ran 1 of 4\n";
    PlanNode root = node("Project", node("Window", node("Project ", node("CometScan")), node("Filter")));
    Fallbacks.addTo(root, description);
    PlanNode window = root.children.get(0);
    check("{}", root);
    check("{Fallback=frame is [not] supported, and more}", window);
    check("{Fallback=f is not supported}", window.children.get(0));
    check("{}", window.children.get(1));
    String scans = "== Extended Information (Comet) ==\nBroadcastHashJoin\n"
        + ":-  Scan parquet shop.orders [COMET: Unsupported file format Parquet]\n"
        + "+- CometNativeColumnarToRow\n   +-  BatchScan lake.shop.orders [COMET: not enabled, and deletes]\n";
    PlanNode delta = node("Scan parquet shop.orders"), iceberg = node("BatchScan lake.shop.orders");
    PlanNode join = node("BroadcastHashJoin", delta, node("CometNativeColumnarToRow", iceberg));
    Fallbacks.addTo(join, scans);
    check("{}", join);
    check("{Fallback=Unsupported file format Parquet}", delta); // what Comet 1.2 reports for Delta Lake
    check("{Fallback=not enabled, and deletes}", iceberg);
    for (String other : new String[] {null, "", "[COMET: x]", "== Extended Information (Comet) =="}) {
      PlanNode alone = node("Window");
      Fallbacks.addTo(alone, other);
      check("{}", alone);
    }
    System.out.println("ok");
  }

  private static PlanNode node(String name, PlanNode... children) {
    PlanNode node = new PlanNode(name, name);
    for (PlanNode child : children) node.children.add(child);
    return node;
  }

  private static void check(String expected, PlanNode node) {
    String found = node.metadata.toString();
    if (!found.equals(expected)) throw new AssertionError(node.name + ": " + found + ", not " + expected);
  }
}
