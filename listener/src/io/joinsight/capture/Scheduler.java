package io.joinsight.capture;

import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The application as the scheduler that started it names it in Spark's settings: a name that is the same from run to
 * run, and what differs between runs, as tags.
 *
 * <p>Airflow's provider for Spark writes {@code spark.openlineage.parent*}, with the job as {@code DAG.TASK}. Databricks
 * calls the application of each job "Databricks Shell", and its cluster {@code job-JOB-run-RUN-TASK}. On Kubernetes,
 * Spark writes the name of the driver's pod, and what the names of executors' pods begin with.
 */
final class Scheduler {
  private static final String OPENLINEAGE = "spark.openlineage.";
  private static final String DATABRICKS = "spark.databricks.clusterUsageTags.";
  private static final String KUBERNETES = "spark.kubernetes.";
  private static final Pattern JOB_CLUSTER = Pattern.compile("job-(\\d+)-run-(\\d+)-(.+)");
  private static final Pattern RUN_NAME = Pattern.compile("\"RunName\",\\s*\"value\":\\s*\"([^\"\\\\]+)\"");

  /** Null if no scheduler is known. */
  final String jobName;
  final Map<String, String> tags = new TreeMap<>();

  Scheduler(Map<String, String> conf) {
    Matcher cluster = JOB_CLUSTER.matcher(conf.getOrDefault(DATABRICKS + "clusterName", ""));
    String parent = conf.getOrDefault(OPENLINEAGE + "parentJobName", "").trim();
    if (!parent.isEmpty()) {
      jobName = parent;
      tag("namespace", conf.get(OPENLINEAGE + "parentJobNamespace"));
      tag("run", conf.get(OPENLINEAGE + "parentRunId"));
      tag("root_job", conf.get(OPENLINEAGE + "rootParentJobName"));
      tag("root_run", conf.get(OPENLINEAGE + "rootParentRunId"));
    } else if ("JOB".equals(conf.get("spark.databricks.clusterSource")) && cluster.matches()) {
      Matcher run = RUN_NAME.matcher(conf.getOrDefault(DATABRICKS + "clusterAllTags", ""));
      jobName = (run.find() ? run.group(1) : "job " + cluster.group(1)) + "." + cluster.group(3);
      tag("job", cluster.group(1));
      tag("run", cluster.group(2));
    } else {
      jobName = null;
    }
    String pod = conf.get(KUBERNETES + "driver.pod.name");
    tag("pod", pod);
    String executors = conf.get(KUBERNETES + "executor.podNamePrefix");
    if (executors != null) tag("executor_pods", executors + "-exec-ID");
    if (pod != null || executors != null) tag("pod_namespace", conf.getOrDefault(KUBERNETES + "namespace", "default"));
  }

  private void tag(String name, String value) {
    if (value != null && !value.isEmpty()) tags.put(name, value);
  }
}
