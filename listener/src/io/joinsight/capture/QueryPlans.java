package io.joinsight.capture;

import java.util.Map;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * The optimized logical plans of the executions that ended last during a measurement, for {@code
 * measured.keys}. They refer to no shuffle, broadcast or physical plan, so that Spark can clean these up as before.
 */
public final class QueryPlans extends SparkListener {
  /** A block may run any number of queries, and a plan may hold the rows of a local DataFrame. */
  private static final int MOST = 100;

  private final Map<Long, Object[]> kept = new BoundedMap<>(MOST);

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd)) return;
    try {
      QueryExecution query = ((SparkListenerSQLExecutionEnd) event).qe();
      if (query == null) return;
      Object[] pair = {SparkAccess.optimizedPlan(query), SparkAccess.session(query)};
      if (pair[0] == null || pair[1] == null) return;
      synchronized (this) {
        kept.put(((SparkListenerSQLExecutionEnd) event).executionId(), pair);
      }
    } catch (Throwable t) { // it would reach the bus; without a plan, only its keys are unknown
      return;
    }
  }

  /** The plan of an execution; null if it is not kept. */
  public synchronized Object plan(long executionId) {
    return part(executionId, 0);
  }

  /** Its SparkSession; null if it is not kept. */
  public synchronized Object session(long executionId) {
    return part(executionId, 1);
  }

  private Object part(long executionId, int index) {
    Object[] pair = kept.get(executionId);
    return pair == null ? null : pair[index];
  }
}
