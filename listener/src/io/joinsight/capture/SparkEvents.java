package io.joinsight.capture;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.spark.Resubmitted$;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.cluster.ExecutorInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveSQLMetricUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.status.api.v1.ExecutorSummary;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.collection.mutable.ArrayBuffer;

/** Passes a running driver's events to {@link Executions}. Called by the listener's thread only. */
public final class SparkEvents {
  private static final int METRIC_UPDATES = 1; // SparkListenerSQLAdaptiveSQLMetricUpdates.sqlPlanMetrics
  private static final int DRIVER_UPDATES = 1; // SparkListenerDriverAccumUpdates.accumUpdates
  /** An executor's attribute, set by its environment variable SPARK_EXECUTOR_ATTRIBUTE_NODE. */
  public static final String NODE = "NODE";

  private static final int HEARTBEAT_UPDATES = 1; // SparkListenerExecutorMetricsUpdate.accumUpdates

  /** Compared by name, because not every application has its jar. */
  private static final String THRIFT = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServer";
  public static final String STATEMENT_START = THRIFT + "OperationStart";
  private static final int STATEMENT_SESSION = 1; // SparkListenerThriftServerOperationStart.sessionId
  private static final int STATEMENT_GROUP = 3; // its groupId
  private static final int STATEMENT_USER = 5; // its userName

  private final Executions executions;
  private final long[] totals = new long[StageTotals.COUNT];

  public SparkEvents(Executions executions) {
    this.executions = executions;
  }

  public void start(SparkListenerSQLExecutionStart event) throws Throwable {
    Option<?> root = event.rootExecutionId();
    executions.start(
        event.executionId(), root.isEmpty() ? null : (Long) ((Number) root.get()).longValue(), event.time(),
        event.description(), event.details(), SparkAccess.strings(event.modifiedConfigs()), SparkAccess.jobTags(event),
        SparkAccess.jobGroup(event), SparkAccess.plan(event.sparkPlanInfo(), event.physicalPlanDescription()));
  }

  public void other(SparkListenerEvent event) {
    if (!event.getClass().getName().equals(STATEMENT_START)) return;
    Product statement = (Product) event;
    executions.statementStarted(
        (String) statement.productElement(STATEMENT_GROUP), (String) statement.productElement(STATEMENT_USER),
        (String) statement.productElement(STATEMENT_SESSION));
  }

  public void adaptiveUpdate(SparkListenerSQLAdaptiveExecutionUpdate event) throws Throwable {
    PlanNode plan = SparkAccess.plan(event.sparkPlanInfo(), event.physicalPlanDescription());
    executions.adaptiveUpdate(event.executionId(), System.currentTimeMillis(), plan);
  }

  public void metricUpdates(SparkListenerSQLAdaptiveSQLMetricUpdates event) {
    List<PlanMetric> metrics = new ArrayList<>();
    for (Iterator<?> i = SparkAccess.elements(event, METRIC_UPDATES); i.hasNext();) {
      Product metric = (Product) i.next(); // SQLPlanMetric(name, accumulatorId, metricType)
      String name = String.valueOf(metric.productElement(0));
      long id = ((Number) metric.productElement(1)).longValue();
      metrics.add(new PlanMetric(name, id, String.valueOf(metric.productElement(2))));
    }
    executions.metricUpdates(event.executionId(), System.currentTimeMillis(), metrics);
  }

  public void driverUpdates(SparkListenerDriverAccumUpdates event) {
    for (Iterator<?> i = SparkAccess.elements(event, DRIVER_UPDATES); i.hasNext();) {
      scala.Tuple2<?, ?> pair = (scala.Tuple2<?, ?>) i.next();
      long value = ((Number) pair._2()).longValue();
      executions.driverUpdate(event.executionId(), ((Number) pair._1()).longValue(), value);
    }
  }

  public void end(SparkListenerSQLExecutionEnd event) {
    Option<String> error = event.errorMessage();
    String text = error.isEmpty() ? null : error.get();
    executions.end(event.executionId(), event.time(), text, Statement.of(event.qe()), () -> JoinHint.of(event.qe()));
  }

  public void jobStart(SparkListenerJobStart event) throws Throwable {
    Properties properties = event.properties();
    if (properties == null) return;
    List<Stage> stages = new ArrayList<>();
    for (Iterator<?> i = SparkAccess.stageInfos(event); i.hasNext();) stages.add(stage((StageInfo) i.next()));
    executions.jobStart(event.jobId(), event.time(), properties::getProperty, stages);
  }

  public void jobEnd(SparkListenerJobEnd event) {
    executions.jobEnd(event.jobId(), event.time(), event.jobResult() == JobSucceeded$.MODULE$, null);
  }

  public void stageSubmitted(SparkListenerStageSubmitted event) throws Throwable {
    executions.stageSubmitted(stage(event.stageInfo()));
  }

  public void stageCompleted(SparkListenerStageCompleted event) throws Throwable {
    executions.stageCompleted(stage(event.stageInfo()));
  }

  private static Stage stage(StageInfo info) throws Throwable {
    Stage stage = new Stage(info.stageId(), info.attemptNumber(), info.name(), info.numTasks());
    stage.parents = SparkAccess.parents(info);
    stage.rdd = SparkAccess.rdd(info);
    stage.profile = info.resourceProfileId();
    stage.submittedAt = time(info.submissionTime());
    stage.completedAt = time(info.completionTime());
    stage.failure = info.failureReason().isEmpty() ? null : info.failureReason().get();
    return stage;
  }

  private static Long time(Option<?> value) {
    return value.isEmpty() ? null : (Long) ((Number) value.get()).longValue();
  }

  public void executorAdded(SparkListenerExecutorAdded event) {
    ExecutorInfo info = event.executorInfo();
    executions.executorAdded(event.executorId(), info.totalCores(), info.resourceProfileId(), node(info.attributes()));
  }

  private static String node(scala.collection.Map<String, String> attributes) {
    Option<String> node = attributes.get(NODE);
    return node.isEmpty() ? null : node.get();
  }

  public void executorRemoved(SparkListenerExecutorRemoved event) {
    executions.executorRemoved(event.executorId());
  }

  /** Adds the executors that were added before the listener was. */
  public void findExecutors() {
    try {
      for (Iterator<?> i = SparkAccess.executors(); i.hasNext();) {
        ExecutorSummary each = (ExecutorSummary) i.next();
        executions.executorAdded(each.id(), each.totalCores(), each.resourceProfileId(), node(each.attributes()));
      }
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      executions.executorsMissed();
    }
  }

  public void taskStart(SparkListenerTaskStart event) {
    TaskInfo task = event.taskInfo();
    executions.taskStart(event.stageId(), event.stageAttemptId(), task.taskId(), task.index(), task.launchTime());
  }

  public void taskEnd(SparkListenerTaskEnd event) throws Throwable {
    TaskInfo task = event.taskInfo();
    if (task == null) return;
    TaskMetrics metrics = event.taskMetrics();
    if (metrics != null) {
      StageTotals.read(metrics, totals);
      StageTotals.addTimes(totals, task.launchTime(), task.gettingResultTime(), task.finishTime());
    }
    int index = task.index();
    long taskId = task.taskId();
    boolean success = task.successful();
    StageValues values = executions.taskEnded(
        event.stageId(), event.stageAttemptId(), index, taskId, task.executorId(), task.host(), task.launchTime(),
        task.finishTime(), success, task.killed(), event.reason() == Resubmitted$.MODULE$,
        metrics == null ? null : totals);
    if (values == null) return;
    if (metrics != null) {
      ArrayBuffer<AccumulatorV2<?, ?>> accumulators = SparkAccess.externalAccumulators(metrics);
      values.expect(accumulators.size());
      int position = 0;
      for (int i = 0, n = accumulators.size(); i < n; i++) {
        Object accumulator = accumulators.apply(i);
        if (accumulator instanceof SQLMetric) {
          SQLMetric metric = (SQLMetric) accumulator;
          values.update(position++, metric.id(), index, taskId, SparkAccess.raw(metric));
        }
      }
    } else {
      update(values, index, taskId, SparkAccess.accumulables(task));
    }
    executions.taskReported(values, index, success);
  }

  public void heartbeat(SparkListenerExecutorMetricsUpdate event) {
    for (Iterator<?> i = SparkAccess.elements(event, HEARTBEAT_UPDATES); i.hasNext();) {
      Product update = (Product) i.next(); // (taskId, stageId, stageAttemptId, accumulables)
      long taskId = ((Number) update.productElement(0)).longValue();
      int stageId = ((Number) update.productElement(1)).intValue();
      StageValues values = executions.heartbeat(stageId, ((Number) update.productElement(2)).intValue(), taskId);
      if (values != null) update(values, values.indexOf(taskId), taskId, SparkAccess.elements(update, 3));
    }
  }

  private static void update(StageValues values, int index, long taskId, Iterator<?> accumulables) {
    while (accumulables.hasNext()) {
      AccumulableInfo info = (AccumulableInfo) accumulables.next();
      if (SparkAccess.hasUpdate(info)) values.update(info, index, taskId);
    }
  }
}
