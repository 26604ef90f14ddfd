package io.joinsight;

import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.spark.SparkConf;
import org.apache.spark.Success$;
import org.apache.spark.executor.ExecutorMetrics;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.scheduler.TaskLocality;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.util.AccumulatorMetadata;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Feeds a listener with the events of more executions and tasks than a test could run in Spark, in a small heap.
 * Arguments: the collector's URL, the listener's memory limit, executions, of these how many run at once, tasks of each,
 * metrics of each, whether they end, and whether another job of each comes late, when all have ended.
 */
public final class Crowd {
  private static final int NODES = 10;

  private final JoinsightListener listener;
  private final int tasks;
  private final int metrics;
  private long taskIds;

  private Crowd(JoinsightListener listener, int tasks, int metrics) {
    this.listener = listener;
    this.tasks = tasks;
    this.metrics = metrics;
  }

  public static void main(String[] a) throws Exception {
    SparkConf conf = new SparkConf(false).set("spark.app.name", "crowd").set("spark.joinsight.url", a[0]);
    conf.set("spark.joinsight.memoryLimit", a[1]).set("spark.joinsight.spool", "none");
    conf.set("spark.joinsight.shutdownTimeout", "10m"); // without a spool, what is not delivered by then is lost
    JoinsightListener listener = new JoinsightListener(conf);
    long now = System.currentTimeMillis();
    listener.onApplicationStart(new SparkListenerApplicationStart(
        "crowd", Option.apply("crowd"), now, "me", Option.empty(), Option.empty(), Option.empty()));
    int executions = Integer.parseInt(a[2]);
    int atOnce = Integer.parseInt(a[3]);
    Crowd crowd = new Crowd(listener, Integer.parseInt(a[4]), Integer.parseInt(a[5]));
    for (int id = 0; id < executions + atOnce; id++) {
      if (id < executions) crowd.start(id);
      if (id >= atOnce && Boolean.parseBoolean(a[6])) crowd.end(id - atOnce);
    }
    for (int id = 0; id < executions && Boolean.parseBoolean(a[7]); id++) crowd.late(id, executions + id);
    listener.onApplicationEnd(new SparkListenerApplicationEnd(System.currentTimeMillis(), Option.empty()));
    System.out.println("ok");
  }

  private void start(int id) throws Exception {
    SparkPlanInfo plan = plan(id, "false");
    listener.onOtherEvent(new SparkListenerSQLExecutionStart(
        id, Option.empty(), "query " + id, "call site", "", plan, System.currentTimeMillis(),
        new scala.collection.immutable.HashMap<>(), new scala.collection.immutable.HashSet<>(), Option.empty(),
        Option.empty()));
    listener.onOtherEvent(new SparkListenerSQLAdaptiveExecutionUpdate(id, "", plan(id, "maybe")));
    Properties properties = new Properties();
    properties.setProperty("spark.sql.execution.id", Integer.toString(id));
    StageInfo stage =
        new StageInfo(id, 0, "stage", tasks, seq(), seq(), "", new TaskMetrics(), seq(), Option.empty(), 0, false, 0);
    listener.onJobStart(new SparkListenerJobStart(id, System.currentTimeMillis(), seq(stage), properties));
    listener.onStageSubmitted(new SparkListenerStageSubmitted(stage, properties));
    for (int i = 0; i < tasks; i++) task(id, i);
    listener.onOtherEvent(new SparkListenerSQLAdaptiveExecutionUpdate(id, "", plan(id, "true")));
  }

  private void end(int id) {
    listener.onJobEnd(new SparkListenerJobEnd(id, System.currentTimeMillis(), JobSucceeded$.MODULE$));
    listener.onOtherEvent(
        new SparkListenerSQLExecutionEnd(id, System.currentTimeMillis(), Option.empty(), Option.empty()));
  }

  private void late(int execution, int job) {
    Properties properties = new Properties();
    properties.setProperty("spark.sql.execution.id", Integer.toString(execution));
    listener.onJobStart(new SparkListenerJobStart(job, System.currentTimeMillis(), seq(), properties));
    listener.onJobEnd(new SparkListenerJobEnd(job, System.currentTimeMillis(), JobSucceeded$.MODULE$));
  }

  /** Metric m of task i is i % 1000 * (m + 1). */
  private void task(int stage, int index) throws Exception {
    TaskInfo info = new TaskInfo(taskIds++, index, 0, index, 0, "1", "host", TaskLocality.ANY(), false);
    listener.onTaskStart(new SparkListenerTaskStart(stage, 0, info));
    info.markFinished(org.apache.spark.TaskState.FINISHED(), 1);
    TaskMetrics values = new TaskMetrics();
    for (int m = 0; m < metrics; m++) {
      SQLMetric metric = new SQLMetric("sum", 0);
      metric.metadata_$eq(AccumulatorMetadata.apply(accumulator(stage, m), Option.empty(), false));
      metric.set(index % 1000 * (m + 1L));
      values.registerAccumulator(metric);
    }
    listener.onTaskEnd(
        new SparkListenerTaskEnd(stage, 0, "ResultTask", Success$.MODULE$, info, new ExecutorMetrics(), values));
  }

  private long accumulator(int execution, int metric) {
    return (long) execution * metrics + metric;
  }

  private SparkPlanInfo plan(int execution, String isFinal) {
    SparkPlanInfo child = null;
    for (int node = NODES - 1; node >= 0; node--) {
      List<SQLMetricInfo> infos = new ArrayList<>();
      for (int m = node; m < metrics; m += NODES)
        infos.add(new SQLMetricInfo("metric " + m, accumulator(execution, m), "sum"));
      String text = "Project [a#" + execution + ", isFinal=" + isFinal + ", level " + node + "]";
      child = new SparkPlanInfo(
          "Project", text, child == null ? seq() : seq(child), new scala.collection.immutable.HashMap<>(), seq(infos));
    }
    return child;
  }

  @SafeVarargs
  @SuppressWarnings("varargs") // a list of them is all that is made
  private static <T> Seq<T> seq(T... elements) {
    return seq(java.util.Arrays.asList(elements));
  }

  private static <T> Seq<T> seq(List<T> elements) {
    return scala.jdk.javaapi.CollectionConverters.asScala(elements).toSeq();
  }
}
