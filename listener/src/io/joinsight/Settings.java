package io.joinsight;

import java.io.IOException;
import java.io.InputStream;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;
import org.apache.spark.SparkConf;

/** The listener's settings, read once from the SparkConf; {@link #problems} lists all that is wrong with them. */
final class Settings {
  static final String PREFIX = "spark.joinsight.";
  static final String ENABLED = PREFIX + "enabled";
  static final String URL = PREFIX + "url";
  static final String TOKEN_FILE = PREFIX + "tokenFile";
  static final String TOKEN_VARIABLE = "JOINSIGHT_TOKEN";
  static final String TOKENS = TOKEN_VARIABLE + ", " + TOKEN_FILE;
  private static final String CA_FILE = PREFIX + "caFile";
  private static final String SPOOL = PREFIX + "spool";

  /** Settings that shape plans and exchanges: these leave the driver, all others stay. A trailing dot means a prefix. */
  private static final Set<String> ALLOWED =
      new LinkedHashSet<>(
          Arrays.asList(
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
              "spark.sql.requireAllClusterKeysForCoPartition",
              "spark.default.parallelism",
              "spark.driver.cores",
              "spark.driver.maxResultSize",
              "spark.driver.memory",
              "spark.dynamicAllocation.",
              "spark.executor.cores",
              "spark.executor.instances",
              "spark.executor.memory",
              "spark.executor.memoryOverhead",
              "spark.memory.fraction",
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

  final String url;
  final String token;
  final long progressIntervalMs;
  final long shutdownTimeoutMs;
  final int requestTimeoutMs;
  final SSLSocketFactory trusted; // null: what the JVM trusts
  final Path spool;
  final long spoolLimit;
  final long memoryLimit;
  final String applicationName;
  final String jobName;
  final String master;
  final Map<String, String> tags;
  final Map<String, String> configuration;
  final List<String> problems = new ArrayList<>();
  final Redaction redaction;
  private final Map<String, String> given;

  Settings(SparkConf conf) {
    given = given(conf);
    redaction = new Redaction(conf, problems);
    url = url(conf);
    token = token(conf);
    progressIntervalMs = duration(conf, PREFIX + "progressInterval", "10s", 100);
    shutdownTimeoutMs = duration(conf, PREFIX + "shutdownTimeout", "10s", 0);
    requestTimeoutMs = (int) Math.min(3_600_000, duration(conf, PREFIX + "requestTimeout", "30s", 100));
    trusted = trusted(conf);
    spool = spool(conf);
    spoolLimit = bytes(conf, PREFIX + "spoolLimit", "256m", 1 << 20);
    memoryLimit = bytes(conf, PREFIX + "memoryLimit", "64m", 4 << 20);
    applicationName = conf.get("spark.app.name", "");
    jobName = conf.get(PREFIX + "jobName", applicationName);
    master = conf.get("spark.master", "");
    Map<String, String> all = new TreeMap<>();
    Map<String, String> tagged = new TreeMap<>();
    for (scala.Tuple2<String, String> entry : conf.getAll()) {
      all.put(entry._1(), entry._2());
      String tag = PREFIX + "tag.";
      if (entry._1().startsWith(tag)) tagged.put(entry._1().substring(tag.length()), entry._2());
    }
    tags = redaction.properties(tagged);
    configuration = allowed(all, redaction);
  }

  private static Map<String, String> given(SparkConf conf) {
    Map<String, String> given = new TreeMap<>();
    for (scala.Tuple2<String, String> entry : conf.getAllWithPrefix(PREFIX)) given.put(entry._1(), entry._2());
    return given;
  }

  /** Of the listener's settings those that another SparkConf has otherwise, as they are here; empty if there is none. */
  String differing(SparkConf other) {
    Map<String, String> theirs = given(other);
    Set<String> keys = new TreeSet<>(given.keySet());
    keys.addAll(theirs.keySet());
    List<String> differing = new ArrayList<>();
    for (String key : keys) {
      String value = given.get(key);
      if (Objects.equals(value, theirs.get(key))) continue;
      differing.add(PREFIX + key + (value == null ? " is not set" : " is " + value));
    }
    return String.join(", ", differing);
  }

  /** What of these settings may leave the driver, secrets in their values masked. */
  private static Map<String, String> allowed(Map<String, String> all, Redaction redaction) {
    Map<String, String> kept = new TreeMap<>();
    for (Map.Entry<String, String> entry : all.entrySet()) {
      if (isAllowed(entry.getKey())) kept.put(entry.getKey(), entry.getValue());
    }
    return redaction.properties(kept);
  }

  /** The SQL settings in force in a session: the SparkConf's, overridden by what the session changed. */
  Map<String, String> sessionConfiguration(Map<String, String> modified, Redaction ofSession) {
    Map<String, String> merged = new TreeMap<>();
    for (Map.Entry<String, String> entry : configuration.entrySet()) {
      if (entry.getKey().startsWith("spark.sql.")) merged.put(entry.getKey(), entry.getValue());
    }
    merged.putAll(allowed(modified, ofSession));
    return merged;
  }

  private static boolean isAllowed(String key) {
    if (ALLOWED.contains(key)) return true;
    for (int dot = key.indexOf('.'); dot >= 0; dot = key.indexOf('.', dot + 1)) {
      if (ALLOWED.contains(key.substring(0, dot + 1))) return true;
    }
    return false;
  }

  private String url(SparkConf conf) {
    String value = conf.get(URL, "").trim();
    String right = "it must be the collector's address, such as http://collector:9595";
    if (value.isEmpty()) {
      problems.add(URL + " is not set; " + right);
      return "";
    }
    try {
      URL parsed = new URL(value);
      if (!parsed.getProtocol().matches("https?") || parsed.getHost().isEmpty() || parsed.getUserInfo() != null) {
        problems.add(URL + "=" + hideUser(value) + " is not usable; " + right);
      }
    } catch (MalformedURLException e) {
      problems.add(URL + "=" + hideUser(value) + " is no URL (" + e.getMessage() + "); " + right);
    }
    return value.endsWith("/") ? value.substring(0, value.length() - 1) : value;
  }

  private static String hideUser(String url) {
    return url.replaceAll("//[^/@]*@", "//" + Redaction.MASK + "@");
  }

  private SSLSocketFactory trusted(SparkConf conf) {
    String file = conf.get(CA_FILE, "");
    if (file.isEmpty()) return null;
    try (InputStream in = Files.newInputStream(Paths.get(file))) {
      KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
      store.load(null, null);
      for (Certificate certificate : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
        store.setCertificateEntry("ca-" + store.size(), certificate);
      }
      if (store.size() == 0) problems.add(CA_FILE + "=" + file + " holds no certificate; it must be a PEM file of them");
      TrustManagerFactory managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
      managers.init(store);
      SSLContext context = SSLContext.getInstance("TLS");
      context.init(null, managers.getTrustManagers(), null);
      return context.getSocketFactory();
    } catch (IOException | GeneralSecurityException | RuntimeException e) {
      problems.add(CA_FILE + "=" + file + " cannot be read as PEM certificates (" + e + ")");
      return null;
    }
  }

  /**
   * The folder for what the collector has not taken; null where the user wants none. Each collector has its own in it:
   * what was meant for one must not be delivered to another.
   */
  private Path spool(SparkConf conf) {
    String standard = System.getProperty("java.io.tmpdir") + "/joinsight-spool-" + System.getProperty("user.name");
    String value = conf.get(SPOOL, standard);
    if (value.equals("none")) return null;
    try {
      Path folder = Paths.get(value);
      String collector = url.replaceFirst("^https?://", "").replaceAll("[^A-Za-z0-9.\\-]", "_");
      if (folder.isAbsolute()) return folder.resolve(collector);
      problems.add(SPOOL + "=" + value + " is not absolute; it must be a folder on the driver's disk, or none");
    } catch (InvalidPathException e) {
      problems.add(SPOOL + "=" + value + " is no path (" + e.getReason() + "); it must be a folder, or none");
    }
    return null;
  }

  private long bytes(SparkConf conf, String key, String standard, long least) {
    String value = conf.get(key, standard);
    try {
      long bytes = conf.getSizeAsBytes(key, standard);
      if (bytes >= least) return bytes;
      problems.add(key + "=" + value + " is too small; the least is " + least + " bytes");
    } catch (RuntimeException e) {
      problems.add(key + "=" + value + " is no size; write it like " + standard + ", 512k or 1g");
    }
    return least;
  }

  private String token(SparkConf conf) {
    String file = conf.get(TOKEN_FILE, "");
    if (file.isEmpty()) {
      String value = System.getenv(TOKEN_VARIABLE);
      return value == null || value.trim().isEmpty() ? null : value.trim();
    }
    try {
      String value = new String(Files.readAllBytes(Paths.get(file)), StandardCharsets.UTF_8).trim();
      if (value.isEmpty()) problems.add(TOKEN_FILE + "=" + file + " is empty; its first line must be the token");
      return value.split("\\R", 2)[0];
    } catch (IOException | RuntimeException e) {
      problems.add(TOKEN_FILE + "=" + file + " cannot be read (" + e + ")");
      return null;
    }
  }

  private long duration(SparkConf conf, String key, String standard, long least) {
    String value = conf.get(key, standard);
    try {
      long ms = conf.getTimeAsMs(key, standard);
      if (ms >= least) return ms;
      problems.add(key + "=" + value + " is too short; the least is " + least + "ms");
    } catch (RuntimeException e) {
      problems.add(key + "=" + value + " is no duration; write it like " + standard + ", 500ms or 2m");
    }
    return 10_000;
  }
}
