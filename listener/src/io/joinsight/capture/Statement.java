package io.joinsight.capture;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.Origin;
import org.apache.spark.sql.execution.QueryExecution;
import scala.Option;

/** The SQL text that a query was made of, which no event has. */
final class Statement {
  /** What actions and parameters put around a statement; below any other operator, it is only a part of the query. */
  private static final Set<String> AROUND = new HashSet<>(Arrays.asList(
      "Project", "GlobalLimit", "LocalLimit", "SubqueryAlias", "CollectMetrics", "ParameterizedQuery",
      "NameParameterizedQuery", "PosParameterizedQuery", "InsertIntoHadoopFsRelationCommand",
      "SaveIntoDataSourceCommand", "SaveAsV1TableCommand", "CreateDataSourceTableAsSelectCommand", "AppendData",
      "OverwriteByExpression", "CreateTableAsSelect", "ReplaceTableAsSelect"));

  private static final int MOST_AROUND = 10;

  /** A longer text is not worth the heap. It is not cut, because the rest of a secret might not look like one. */
  private static final int MAX_LENGTH = 1 << 16;

  private Statement() {}

  /**
   * The statement of a whole query, as it is: not redacted yet. Null if there is none, it is too long, or this version
   * of Spark does not have it: the title is then made of the plan. Only reads fields that Spark has set, so it neither
   * computes anything nor takes a lock.
   */
  static String of(QueryExecution query) {
    if (query == null) return null;
    try {
      LogicalPlan plan = query.logical();
      for (int i = 0; plan != null && i < MOST_AROUND; i++) {
        Origin origin = plan.origin();
        Option<String> text = origin.sqlText();
        if (text.isDefined() && origin.objectType().isEmpty()) { // else it is the text of a view
          return text.get().length() > MAX_LENGTH ? null : text.get();
        }
        String name = plan.getClass().getName();
        plan = AROUND.contains(name.substring(name.lastIndexOf('.') + 1)) ? SparkAccess.input(plan) : null;
      }
      return null;
    } catch (Throwable unreadable) {
      return null;
    }
  }
}
