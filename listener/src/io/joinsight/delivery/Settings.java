package io.joinsight.delivery;

import io.joinsight.capture.ApplicationSettings;
import io.joinsight.redaction.Redaction;
import java.io.IOException;
import java.net.MalformedURLException;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.spark.SparkConf;

/** The listener's settings, read once from the SparkConf; {@link #problems} lists all errors in them. */
public final class Settings {
  private static final String PREFIX = ApplicationSettings.PREFIX;
  public static final String ENABLED = PREFIX + "enabled";
  static final String URL = PREFIX + "url";
  static final String TOKEN_FILE = PREFIX + "tokenFile";
  static final String TOKEN_VARIABLE = "JOINSIGHT_TOKEN";
  static final String TOKENS = TOKEN_VARIABLE + ", " + TOKEN_FILE;
  public static final String SAMPLE_INTERVAL = PREFIX + "sampleInterval";
  private static final String DEFAULT_SAMPLE_INTERVAL = "50ms";
  private static final long MIN_SAMPLE_INTERVAL_MS = 10;
  private static final String PLUGINS = "spark.plugins";
  private static final String PLUGIN = "io.joinsight.JoinsightPlugin";
  static final String USE_PROXY = PREFIX + "useProxy";
  private static final String CA_FILE = PREFIX + "caFile";
  private static final String SPOOL = PREFIX + "spool";
  private static final String SPOOL_LIMIT = PREFIX + "spoolLimit";
  private static final String REQUEST_TIMEOUT = PREFIX + "requestTimeout";
  static final String SHUTDOWN_TIMEOUT = PREFIX + "shutdownTimeout";

  /** The names of all settings, without the prefix and without those of tags. */
  private static final List<String> KNOWN = Arrays.asList(
      "advice", "caFile", "enabled", "jobName", "memoryLimit", "progressInterval", "redactLiterals", "requestTimeout",
      "sampleInterval", "shutdownTimeout", "spool", "spoolLimit", "tokenFile", "url", "useProxy");

  public final String url;
  final Token token;
  public final long progressIntervalMs;
  public final long shutdownTimeoutMs;
  final int requestTimeoutMs;
  final boolean useProxy; // the JVM's, such as -Dhttp.proxyHost
  final Trust trust; // null: the JVM's default
  final Path spool;
  final long spoolLimit;
  public final long memoryLimit;
  public final long sampleIntervalMs; // 0: never
  public final boolean isLocal;
  private final boolean hasPlugin;
  public final List<String> problems = new ArrayList<>();
  public final ApplicationSettings application;
  private final Map<String, String> settings; // without the prefix

  public Settings(SparkConf conf) {
    settings = withPrefix(conf, PREFIX);
    application = new ApplicationSettings(withPrefix(conf, ""), problems);
    url = url(conf);
    token = token(conf);
    progressIntervalMs = duration(conf, PREFIX + "progressInterval", "10s", 100);
    shutdownTimeoutMs = duration(conf, SHUTDOWN_TIMEOUT, "10s", 0);
    requestTimeoutMs = (int) Math.min(3_600_000, duration(conf, REQUEST_TIMEOUT, "30s", 100));
    sampleIntervalMs = duration(conf, SAMPLE_INTERVAL, DEFAULT_SAMPLE_INTERVAL, 0);
    if (sampleIntervalMs > 0 && sampleIntervalMs < MIN_SAMPLE_INTERVAL_MS) {
      String value = conf.get(SAMPLE_INTERVAL);
      problems.add(SAMPLE_INTERVAL + "=" + value + " is too short; it must be 0 or " + MIN_SAMPLE_INTERVAL_MS + "ms");
    }
    isLocal = isLocal(conf);
    hasPlugin = Arrays.asList(conf.get(PLUGINS, "").split("\\s*,\\s*")).contains(PLUGIN);
    useProxy = useProxy(conf);
    trust = trust(conf);
    spool = spool(conf);
    spoolLimit = bytes(conf, SPOOL_LIMIT, "256m", 1 << 20);
    memoryLimit = bytes(conf, PREFIX + "memoryLimit", "64m", 4 << 20);
  }

  /** A copy of the SparkConf for a listener that delivers nothing, whatever the settings of deliveries are. */
  public static SparkConf withoutDelivery(SparkConf conf) {
    SparkConf copy = conf.clone();
    for (String key : Arrays.asList(TOKEN_FILE, CA_FILE, USE_PROXY, REQUEST_TIMEOUT, SHUTDOWN_TIMEOUT, SPOOL_LIMIT))
      copy.remove(key);
    return copy.set(ENABLED, "true").set(URL, "http://localhost").set(SPOOL, "none");
  }

  /** How often tasks are sampled, in milliseconds; 0: never. */
  public static long sampleInterval(SparkConf conf) {
    return conf.getTimeAsMs(SAMPLE_INTERVAL, DEFAULT_SAMPLE_INTERVAL);
  }

  /** Whether the driver's JVM runs the tasks. */
  public static boolean isLocal(SparkConf conf) {
    String master = conf.get("spark.master", "");
    return master.equals("local") || master.startsWith("local[");
  }

  /** Whether task time is sampled, where, or why not. */
  public String sampling() {
    String no = "does not sample task time because ";
    if (sampleIntervalMs == 0) return no + SAMPLE_INTERVAL + " is 0";
    String yes = "samples task time: every " + sampleIntervalMs + " ms, in the ";
    if (isLocal) return yes + "driver's JVM, which runs the tasks";
    if (hasPlugin) return yes + "executors";
    return no + PLUGINS + " does not name " + PLUGIN + ", by which executors sample";
  }

  /** The settings with this prefix, without it. */
  private static Map<String, String> withPrefix(SparkConf conf, String prefix) {
    Map<String, String> found = new TreeMap<>();
    for (scala.Tuple2<String, String> entry : conf.getAllWithPrefix(prefix)) found.put(entry._1(), entry._2());
    return found;
  }

  /** Names settings that do not exist, each with the one that it may be meant for; empty if there are none. */
  public String unknown() {
    List<String> unknown = new ArrayList<>();
    for (String key : settings.keySet()) {
      if (KNOWN.contains(key) || key.startsWith("tag.")) continue;
      String nearest = Collections.min(KNOWN, Comparator.comparingInt(known -> distance(known, key)));
      unknown.add(PREFIX + key + " (did you mean " + PREFIX + nearest + "?)");
    }
    return String.join(", ", unknown);
  }

  /** How many letters to insert, delete or replace to make one text of the other. */
  private static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) row[j] = j;
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int above = row[j];
        boolean same = Character.toLowerCase(a.charAt(i - 1)) == Character.toLowerCase(b.charAt(j - 1));
        row[j] = Math.min(Math.min(above, row[j - 1]) + 1, diagonal + (same ? 0 : 1));
        diagonal = above;
      }
    }
    return row[b.length()];
  }

  /** Describes the listener's settings that differ from those in another SparkConf; empty if none does. */
  public String differing(SparkConf other) {
    Map<String, String> others = withPrefix(other, PREFIX);
    Set<String> keys = new TreeSet<>(settings.keySet());
    keys.addAll(others.keySet());
    List<String> differing = new ArrayList<>();
    for (String key : keys) {
      String value = settings.get(key);
      if (Objects.equals(value, others.get(key))) continue;
      differing.add(PREFIX + key + (value == null ? " is not set" : " is " + value));
    }
    return String.join(", ", differing);
  }

  private String url(SparkConf conf) {
    String value = conf.get(URL, "").trim();
    String expected = "it must be the collector's address, such as http://collector:9595";
    if (value.isEmpty()) {
      problems.add(URL + " is not set; " + expected);
      return "";
    }
    try {
      URL parsed = new URL(value);
      if (!parsed.getProtocol().matches("https?") || parsed.getHost().isEmpty() || parsed.getUserInfo() != null) {
        problems.add(URL + "=" + hideUser(value) + " is not usable; " + expected);
      }
    } catch (MalformedURLException e) {
      problems.add(URL + "=" + hideUser(value) + " is not a valid URL (" + e.getMessage() + "); " + expected);
    }
    return value.endsWith("/") ? value.substring(0, value.length() - 1) : value;
  }

  private static String hideUser(String url) {
    return url.replaceAll("//[^/@]*@", "//" + Redaction.MASK + "@");
  }

  private boolean useProxy(SparkConf conf) {
    String value = conf.get(USE_PROXY, "false").trim();
    boolean isTrue = value.equalsIgnoreCase("true");
    if (!isTrue && !value.equalsIgnoreCase("false")) {
      problems.add(USE_PROXY + "=" + value + " is neither true nor false");
    }
    return isTrue;
  }

  /** The JVM's proxy for the collector if {@code useProxy} is off; null if there is none. */
  String unusedProxy() {
    ProxySelector selector = ProxySelector.getDefault();
    if (useProxy || selector == null) return null;
    for (Proxy proxy : selector.select(URI.create(url)))
      if (proxy.type() != Proxy.Type.DIRECT) return proxy.toString();
    return null;
  }

  private Trust trust(SparkConf conf) {
    String file = conf.get(CA_FILE, "");
    if (file.isEmpty()) return null;
    try {
      return new Trust(Paths.get(file));
    } catch (IOException | GeneralSecurityException | RuntimeException e) {
      problems.add(CA_FILE + "=" + file + " cannot be read as PEM certificates (" + e + ")");
      return null;
    }
  }

  /**
   * The spool folder; null if the user wants none. Each collector has a subfolder of its own, so that documents for one
   * are not delivered to another.
   */
  private Path spool(SparkConf conf) {
    String defaultValue = System.getProperty("java.io.tmpdir") + "/joinsight-spool-" + System.getProperty("user.name");
    String value = conf.get(SPOOL, defaultValue);
    if (value.equals("none")) return null;
    try {
      Path folder = Paths.get(value);
      String collector = url.replaceFirst("^https?://", "").replaceAll("[^A-Za-z0-9.\\-]", "_");
      if (folder.isAbsolute()) return folder.resolve(collector);
      problems.add(SPOOL + "=" + value + " is not absolute; it must be a folder on the driver's disk, or none");
    } catch (InvalidPathException e) {
      problems.add(SPOOL + "=" + value + " is not a valid path (" + e.getReason() + "); it must be a folder, or none");
    }
    return null;
  }

  private long bytes(SparkConf conf, String key, String defaultValue, long min) {
    String value = conf.get(key, defaultValue);
    try {
      long bytes = conf.getSizeAsBytes(key, defaultValue);
      if (bytes >= min) return bytes;
      problems.add(key + "=" + value + " is too small; the minimum is " + min + " bytes");
    } catch (RuntimeException e) {
      problems.add(key + "=" + value + " is not a valid size; examples: " + defaultValue + ", 512k, 1g");
    }
    return min;
  }

  private Token token(SparkConf conf) {
    String file = conf.get(TOKEN_FILE, "");
    if (file.isEmpty()) {
      String value = System.getenv(TOKEN_VARIABLE);
      return new Token(value == null || value.trim().isEmpty() ? null : value.trim());
    }
    try {
      return new Token(Paths.get(file));
    } catch (IOException | RuntimeException e) {
      problems.add(TOKEN_FILE + "=" + file + " cannot be read (" + e + ")");
      return new Token((String) null);
    }
  }

  private long duration(SparkConf conf, String key, String defaultValue, long min) {
    String value = conf.get(key, defaultValue);
    try {
      long ms = conf.getTimeAsMs(key, defaultValue);
      if (ms >= min) return ms;
      problems.add(key + "=" + value + " is too short; the minimum is " + min + "ms");
    } catch (RuntimeException e) {
      problems.add(key + "=" + value + " is not a valid duration; examples: " + defaultValue + ", 500ms, 2m");
    }
    return 10_000;
  }
}
