package io.joinsight.capture;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
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
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.Iterator;

/** A join's hints, from the user or AQE, which no plan shows. Strategies have Spark's names. */
public final class JoinHint {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final AtomicBoolean FAILED = new AtomicBoolean();

  final long metric; // accumulator id of the join's output rows, which identifies the join in the plan
  final String left; // null: no hint
  final String right;

  private JoinHint(long metric, String left, String right) {
    this.metric = metric;
    this.left = left;
    this.right = right;
  }

  /**
   * The join hints of an execution that succeeded. They are read from what Spark has already computed; the inputs and
   * subqueries of nodes are, since Spark reported the plan. Returns an empty list if the plan cannot be read, and logs
   * this once: missing hints must not count towards the failures that switch the listener off.
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
          for (Iterator<?> i = SparkAccess.inputs(node); i.hasNext();) open.add((SparkPlan) i.next());
          for (Iterator<?> i = SparkAccess.subqueries(node); i.hasNext();) open.add((SparkPlan) i.next());
        }
      }
    } catch (Throwable t) {
      if (!FAILED.getAndSet(true)) {
        LOG.warn("Joinsight: cannot read join hints in this version of Spark; all other values are unaffected", t);
      }
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
