package io.joinsight;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.joins.BaseJoinExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.Option;
import scala.collection.Iterator;

/** The hint of a join, which no plan shows: a user's, or one that AQE gave it. Strategies are named as Spark names them. */
final class JoinHint {
  final long metric; // accumulator of the join's output rows: by it the join is found in the plan
  final String left; // null: none
  final String right;

  private JoinHint(long metric, String left, String right) {
    this.metric = metric;
    this.left = left;
    this.right = right;
  }

  /**
   * Of the joins of an execution that succeeded, read of what Spark has computed: this makes it compute nothing. (Inputs
   * and subqueries of nodes are there since the plan was shown.) Empty where this Spark is made otherwise: hints are worth
   * no failure.
   */
  static List<JoinHint> of(QueryExecution query) {
    if (query == null) return Collections.emptyList();
    List<JoinHint> hints = new ArrayList<>();
    try {
      SparkPlan root = SparkAccess.executedPlan(query);
      if (root == null) return hints;
      List<SparkPlan> open = new ArrayList<>(); // plans can be thousands of levels deep: no recursion
      open.add(root);
      while (!open.isEmpty()) {
        SparkPlan node = open.remove(open.size() - 1);
        if (node instanceof AdaptiveSparkPlanExec) {
          open.add(((AdaptiveSparkPlanExec) node).executedPlan());
        } else if (node instanceof QueryStageExec) {
          open.add(((QueryStageExec) node).plan());
        } else if (node instanceof InMemoryTableScanExec) {
          open.add(((InMemoryTableScanExec) node).relation().cachedPlan());
        } else {
          if (node instanceof BaseJoinExec) add(node, hints);
          for (Iterator<?> i = SparkAccess.inputs(node); i.hasNext(); ) open.add((SparkPlan) i.next());
          for (Iterator<?> i = SparkAccess.subqueries(node); i.hasNext(); ) open.add((SparkPlan) i.next());
        }
      }
    } catch (Throwable unexpected) {
      return Collections.emptyList();
    }
    return hints;
  }

  private static void add(SparkPlan node, List<JoinHint> hints) throws ReflectiveOperationException {
    Option<LogicalPlan> link = node.logicalLink();
    if (link.isEmpty() || !(link.get() instanceof Join)) return;
    Join join = (Join) link.get();
    String left = strategy(join.hint().leftHint());
    String right = strategy(join.hint().rightHint());
    if (left == null && right == null) return;
    SQLMetric rows = SparkAccess.metric(node, "numOutputRows");
    if (rows != null) hints.add(new JoinHint(rows.id(), left, right));
  }

  private static String strategy(Option<HintInfo> hint) {
    return hint.isEmpty() || hint.get().strategy().isEmpty() ? null : hint.get().strategy().get().displayName();
  }
}
