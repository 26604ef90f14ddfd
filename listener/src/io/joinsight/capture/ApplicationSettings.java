package io.joinsight.capture;

import io.joinsight.redaction.Redaction;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The parts of an application's settings that documents use: names, tags, the redaction, and reported settings. */
public final class ApplicationSettings {
  public static final String PREFIX = "spark.joinsight.";

  /** The only settings that are reported: those that shape plans and exchanges. A trailing dot means a prefix. */
  // clang-format off
  private static final Set<String> ALLOWED = new HashSet<>(Arrays.asList(
      "spark.sql.adaptive.",
      "spark.sql.autoBroadcastJoinThreshold",
      "spark.sql.broadcastTimeout",
      "spark.sql.bucketing.",
      "spark.sql.cbo.",
      "spark.sql.codegen.wholeStage",
      "spark.sql.crossJoin.enabled",
      "spark.sql.exchange.reuse",
      "spark.sql.execution.broadcastHashJoin.",
      "spark.sql.files.maxPartitionBytes",
      "spark.sql.join.",
      "spark.sql.maxBroadcastTableSize",
      "spark.sql.maxSinglePartitionBytes",
      "spark.sql.optimizeNullAwareAntiJoin",
      "spark.sql.optimizeNullAwareAntiJoin.",
      "spark.sql.optimizer.datasourceV2JoinPushdown",
      "spark.sql.optimizer.dynamicPartitionPruning.",
      "spark.sql.optimizer.pushDownJoinThroughUnion.",
      "spark.sql.optimizer.runtime.",
      "spark.sql.optimizer.runtimeFilter.",
      "spark.sql.shuffle.partitions",
      "spark.sql.shuffle.spreadNullJoinKeys.enabled",
      "spark.sql.shuffledHashJoinFactor",
      "spark.sql.sortMergeJoinExec.",
      "spark.sql.sources.bucketing.",
      "spark.sql.sources.v2.bucketing.",
      "spark.sql.extensions",
      "spark.sql.requireAllClusterKeysForCoPartition",
      "spark.auron.",
      "spark.comet.",
      "spark.default.parallelism",
      "spark.driver.cores",
      "spark.driver.maxResultSize",
      "spark.driver.memory",
      "spark.dynamicAllocation.",
      "spark.executor.cores",
      "spark.executor.instances",
      "spark.executor.memory",
      "spark.executor.memoryOverhead",
      "spark.gluten.",
      "spark.joinsight.advice",
      "spark.memory.fraction",
      "spark.memory.offHeap.",
      "spark.plugins",
      "spark.rapids.",
      "spark.reducer.maxSizeInFlight",
      "spark.serializer",
      "spark.shuffle.accurateBlockSkewedFactor",
      "spark.shuffle.accurateBlockThreshold",
      "spark.shuffle.compress",
      "spark.shuffle.manager",
      "spark.shuffle.maxAccurateSkewedBlockNumber",
      "spark.shuffle.minNumPartitionsToHighlyCompress",
      "spark.shuffle.push.enabled",
      "spark.shuffle.service.enabled",
      "spark.shuffle.sort.bypassMergeThreshold",
      "spark.shuffle.spill.",
      "spark.speculation"));
  // clang-format on
  /** Those that a session may have set for itself. */
  private static final List<String> SESSION =
      Arrays.asList("spark.sql.", "spark.comet.", "spark.gluten.", "spark.rapids.sql.", "spark.auron.");

  final Redaction redaction;
  public final String applicationName;
  final String jobName;
  final String master;
  /** Cores that a task takes; 0: unknown, or another resource limits how many run at once. */
  final int coresOfTask;
  final Map<String, String> tags;
  final Map<String, String> configuration;

  /** Reads the settings, and adds errors in the redaction settings to {@code problems}. */
  public ApplicationSettings(Map<String, String> conf, List<String> problems) {
    redaction = new Redaction(conf, problems);
    applicationName = conf.getOrDefault("spark.app.name", "");
    Scheduler scheduler = new Scheduler(conf);
    jobName = conf.getOrDefault(PREFIX + "jobName", scheduler.jobName == null ? applicationName : scheduler.jobName);
    master = conf.getOrDefault("spark.master", "");
    coresOfTask = coresOfTask(conf);
    Map<String, String> tagged = new TreeMap<>(scheduler.tags);
    String tag = PREFIX + "tag.";
    conf.forEach((key, value) -> {
      if (key.startsWith(tag)) tagged.put(key.substring(tag.length()), value);
    });
    tags = redaction.properties(tagged);
    configuration = allowed(conf, redaction);
  }

  private static int coresOfTask(Map<String, String> conf) {
    for (String key : conf.keySet())
      if (key.startsWith("spark.task.resource.")) return 0;
    String cores = conf.getOrDefault("spark.task.cpus", "1");
    return cores.matches("\\d{1,9}") ? Integer.parseInt(cores) : 0;
  }

  /** The settings that are reported, with secrets in their values masked. */
  private static Map<String, String> allowed(Map<String, String> all, Redaction redaction) {
    Map<String, String> kept = new TreeMap<>();
    for (Map.Entry<String, String> entry : all.entrySet()) {
      if (isAllowed(entry.getKey())) kept.put(entry.getKey(), entry.getValue());
    }
    return redaction.properties(kept);
  }

  /** The SQL settings that apply in a session: the SparkConf's, overridden by those that the session changed. */
  Map<String, String> sessionConfiguration(Map<String, String> modified, Redaction ofSession) {
    Map<String, String> merged = new TreeMap<>();
    for (Map.Entry<String, String> entry : configuration.entrySet()) {
      if (isOfSession(entry.getKey())) merged.put(entry.getKey(), entry.getValue());
    }
    merged.putAll(allowed(modified, ofSession));
    return merged;
  }

  private static boolean isOfSession(String key) {
    for (String prefix : SESSION) {
      if (key.startsWith(prefix)) return true;
    }
    return false;
  }

  private static boolean isAllowed(String key) {
    if (ALLOWED.contains(key)) return true;
    for (int dot = key.indexOf('.'); dot >= 0; dot = key.indexOf('.', dot + 1)) {
      if (ALLOWED.contains(key.substring(0, dot + 1))) return true;
    }
    return false;
  }
}
