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
