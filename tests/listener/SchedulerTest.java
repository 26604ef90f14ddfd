package io.joinsight.capture;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Settings that schedulers write give the job's name and tags, unless the user has set those. */
public final class SchedulerTest {
  private static ApplicationSettings settings(String... pairs) {
    Map<String, String> conf = new HashMap<>();
    conf.put("spark.app.name", "arrow-spark");
    for (int i = 0; i < pairs.length; i += 2) conf.put(pairs[i], pairs[i + 1]);
    List<String> problems = new ArrayList<>();
    ApplicationSettings settings = new ApplicationSettings(conf, problems);
    if (!problems.isEmpty()) throw new AssertionError(problems);
    return settings;
  }

  private static void check(ApplicationSettings found, String jobName, String... tags) {
    Map<String, String> expected = new TreeMap<>();
    for (int i = 0; i < tags.length; i += 2) expected.put(tags[i], tags[i + 1]);
    if (!found.jobName.equals(jobName)) throw new AssertionError(found.jobName + " is not " + jobName);
    if (!found.tags.equals(expected)) throw new AssertionError(found.tags + " are not " + expected);
  }

  public static void main(String[] arguments) {
    check(settings(), "arrow-spark");
    // As Spark got them from SparkSubmitOperator of Airflow 3.3.2, its providers for Spark 6.3.4 and OpenLineage 2.20.3
    String run = "01a21bf9-888f-7d4d-a5c9-563ae85b127e";
    String rootRun = "01a21bf9-888f-71ec-94f1-a6a1573e812b";
    String[] airflow = {
        "spark.openlineage.rootParentJobNamespace", "default",    "spark.openlineage.parentJobNamespace", "default",
        "spark.openlineage.rootParentRunId",        rootRun,      "spark.openlineage.parentRunId",        run,
        "spark.openlineage.parentJobName",          "shop.sales", "spark.openlineage.rootParentJobName",  "shop"};
    check(settings(airflow), "shop.sales", "namespace", "default", "run", run, "root_job", "shop", "root_run", rootRun);
    String[] own = java.util.Arrays.copyOf(airflow, airflow.length + 4);
    own[airflow.length] = "spark.joinsight.jobName";
    own[airflow.length + 1] = "mine";
    own[airflow.length + 2] = "spark.joinsight.tag.run";
    own[airflow.length + 3] = "7";
    check(settings(own), "mine", "namespace", "default", "run", "7", "root_job", "shop", "root_run", rootRun);
    String cluster = "spark.databricks.clusterUsageTags.clusterName";
    String name = "job-37367558624103-run-45201782281081-clean_up_v3";
    String tags = "[{\"key\":\"Vendor\",\"value\":\"Databricks\"},{\"key\":\"RunName\",\"value\":\"Devices 1.2\"}]";
    check(
        settings("spark.databricks.clusterSource", "JOB", cluster, name), "job 37367558624103.clean_up_v3", "job",
        "37367558624103", "run", "45201782281081");
    check(
        settings(
            "spark.databricks.clusterSource", "JOB", cluster, name, "spark.databricks.clusterUsageTags.clusterAllTags",
            tags),
        "Devices 1.2.clean_up_v3", "job", "37367558624103", "run", "45201782281081");
    check(settings("spark.databricks.clusterSource", "UI", cluster, "job-1-run-2-notebook"), "arrow-spark");
    String pod = "spark.kubernetes.driver.pod.name";
    check(settings(pod, "sales-1-driver"), "arrow-spark", "pod", "sales-1-driver", "pod_namespace", "default");
    check(settings(pod, "d", "spark.kubernetes.namespace", "etl"), "arrow-spark", "pod", "d", "pod_namespace", "etl");
    check(settings("spark.kubernetes.namespace", "etl"), "arrow-spark");
    check(
        settings("spark.kubernetes.executor.podNamePrefix", "sales-1"), "arrow-spark", "executor_pods",
        "sales-1-exec-ID", "pod_namespace", "default");
    System.out.println("ok");
  }
}
