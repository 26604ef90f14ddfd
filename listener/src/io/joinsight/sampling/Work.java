package io.joinsight.sampling;

import java.util.HashMap;
import java.util.Map;

/**
 * The kind of work that a task does inside of an operator, from the frames inside of the one that names the operator:
 * {@code regex}, {@code json}, {@code user:com.acme.Parse}. Used by the sampler's thread only.
 *
 * <p>The outermost frame that is known decides: a JSON parser that compares strings does JSON. Only waiting, input and
 * output, and compression decide at once, because whatever calls them does nothing itself; formats decide if nothing else
 * does.
 */
final class Work {
  /** Precedes the work in a key, after a space. */
  static final String MARK = "+";

  private static final String USER = "user:";
  private static final String WAIT = "wait";
  private static final String LOCK = "lock";
  private static final String IO = "io";
  private static final String COMPRESSION = "compression";
  private static final String LOCKS = "java.util.concurrent.locks.";
  private static final String SPARK = "org.apache.spark.";
  private static final String EXPRESSIONS = SPARK + "sql.catalyst.expressions.";
  private static final String CATALYST = SPARK + "sql.catalyst.";
  private static final String DATASOURCES = SPARK + "sql.execution.datasources.";
  private static final String NONE = "";
  private static final int MAX_CLASSES = 20_000;
  private static final int MAX_NAME = 100;

  /** Kinds of classes by the start of their name, the first that matches; of Spark's own, only those that say it. */
  private static final String[][] KINDS = {
      {"java.util.regex.", "regex"},
      {"org.joni.", "regex"},
      {EXPRESSIONS + "RegExp", "regex"},
      {EXPRESSIONS + "RLike", "regex"},
      {EXPRESSIONS + "Like", "regex"},
      {EXPRESSIONS + "StringSplit", "regex"},
      {"com.fasterxml.jackson.", "json"},
      {"org.json4s.", "json"},
      {CATALYST + "json.", "json"},
      {EXPRESSIONS + "json.", "json"},
      {EXPRESSIONS + "GetJsonObject", "json"},
      {EXPRESSIONS + "JsonT", "json"}, // JsonToStructs, JsonTuple
      {EXPRESSIONS + "StructsToJson", "json"},
      {EXPRESSIONS + "variant.", "json"},
      {SPARK + "types.variant.", "json"},
      {CATALYST + "xml.", "xml"},
      {EXPRESSIONS + "xml.", "xml"},
      {"javax.xml.", "xml"},
      {"com.sun.org.apache.x", "xml"},
      {"com.univocity.", "csv"},
      {CATALYST + "csv.", "csv"},
      {EXPRESSIONS + "CsvToStructs", "csv"},
      {EXPRESSIONS + "StructsToCsv", "csv"},
      {SPARK + "sql.types.Decimal", "decimal"},
      {"java.math.", "decimal"},
      {CATALYST + "util.Date", "date"}, // DateTimeUtils, DateFormatter
      {CATALYST + "util.SparkDate", "date"},
      {CATALYST + "util.Timestamp", "date"},
      {CATALYST + "util.Rebase", "date"},
      {CATALYST + "util.Interval", "date"},
      {"java.time.", "date"},
      {"java.text.Decimal", "decimal"},
      {"java.text.", "date"},
      {"java.util.TimeZone", "date"},
      {"java.util.GregorianCalendar", "date"},
      {"sun.util.calendar.", "date"},
      {EXPRESSIONS + "Hash", "hash"},
      {EXPRESSIONS + "Murmur3", "hash"},
      {EXPRESSIONS + "XXH64", "hash"},
      {EXPRESSIONS + "XxHash64", "hash"},
      {EXPRESSIONS + "HiveHash", "hash"},
      {SPARK + "unsafe.hash.", "hash"},
      {"java.security.", "hash"},
      {"sun.security.provider.", "hash"},
      {"javax.crypto.", "hash"},
      {"com.sun.crypto.", "hash"},
      {"org.apache.commons.codec.digest.", "hash"},
      {"java.util.zip.CRC32", "hash"},
      {EXPRESSIONS + "GeneratedClass$SpecificOrdering", "compare"},
      {EXPRESSIONS + "InterpretedOrdering", "compare"},
      {EXPRESSIONS + "RowOrdering", "compare"},
      {EXPRESSIONS + "codegen.LazilyGeneratedOrdering", "compare"},
      {SPARK + "util.collection.TimSort", "compare"},
      {SPARK + "util.collection.unsafe.sort.RadixSort", "compare"},
      {SPARK + "util.collection.unsafe.sort.Prefix", "compare"},
      {SPARK + "util.collection.unsafe.sort.UnsafeInMemorySorter", "compare"},
      {SPARK + "shuffle.sort.ShuffleInMemorySorter", "compare"},
      {"java.util.TimSort", "compare"},
      {"java.util.ComparableTimSort", "compare"},
      {"java.util.DualPivotQuicksort", "compare"},
      {SPARK + "unsafe.types.UTF8String", "string"},
      {CATALYST + "util.CollationFactory", "string"},
      {"java.lang.String", "string"},
      {"java.lang.AbstractStringBuilder", "string"},
      {"java.lang.Character", "string"},
      {"java.io.ObjectOutputStream", "serialization"},
      {"java.io.ObjectInputStream", "serialization"},
      {"com.esotericsoftware.", "serialization"},
      {"com.twitter.chill.", "serialization"},
      {"net.razorvine.pickle.", "serialization"},
      {"org.apache.arrow.", "serialization"},
      {SPARK + "serializer.", "serialization"},
      {SPARK + "sql.execution.UnsafeRowSerializerInstance", "serialization"},
      {EXPRESSIONS + "objects.", "serialization"},
      {"org.apache.hadoop.fs.", IO},
      {"org.apache.hadoop.hdfs.", IO},
  };

  /** Those that decide at once if no frame inside of them did. */
  private static final String[][] LEAVES = {
      {LOCKS + "LockSupport", WAIT},
      {"net.jpountz.", COMPRESSION},
      {"org.xerial.snappy.", COMPRESSION},
      {"com.github.luben.zstd.", COMPRESSION},
      {"com.ning.compress.", COMPRESSION},
      {"io.airlift.compress.", COMPRESSION},
      {"java.util.zip.Inflater", COMPRESSION},
      {"java.util.zip.Deflater", COMPRESSION},
      {"java.util.zip.GZIP", COMPRESSION},
      {"org.apache.hadoop.io.compress.", COMPRESSION},
      {"org.apache.parquet.hadoop.codec.", COMPRESSION},
      {"java.io.File", IO},
      {"java.io.RandomAccessFile", IO},
      {"java.net.", IO},
      {"sun.nio.ch.", IO},
      {"sun.nio.fs.", IO},
      {"sun.security.ssl.", IO},
      {"com.amazonaws.", IO},
      {"software.amazon.", IO},
      {"com.azure.", IO},
      {"com.google.cloud.hadoop.", IO},
  };

  /** Those that decide if no other does. */
  private static final String[][] FORMATS = {
      {"org.apache.parquet.", "parquet"}, {DATASOURCES + "parquet.", "parquet"}, {"org.apache.orc.", "orc"},
      {DATASOURCES + "orc.", "orc"},      {"org.apache.avro.", "avro"},          {SPARK + "sql.avro.", "avro"},
  };

  /** Classes that are not a user's. */
  private static final String[] LIBRARIES = {"java.",        "javax.",          "jdk.",
                                             "sun.",         "com.sun.",        "scala.",
                                             "org.apache.",  "io.netty.",       "io.delta.",
                                             "com.google.",  "org.codehaus.",   "org.roaringbitmap.",
                                             "org.slf4j.",   "com.databricks.", "org.sparkproject.",
                                             "io.joinsight."};

  private static final class Found {
    static final Found NOTHING = new Found(NONE, NONE, NONE);

    final String leaf;
    final String kind; // of the user's, too
    final String format;

    Found(String leaf, String kind, String format) {
      this.leaf = leaf;
      this.kind = kind;
      this.format = format;
    }
  }

  private final Map<String, Found> known = new HashMap<>(); // by class
  private String leaf;
  private String kind;
  private String format;

  /** Starts with the next stack. */
  void clear(boolean isBlocked) {
    leaf = isBlocked ? LOCK : NONE;
    kind = NONE;
    format = NONE;
  }

  /** Adds a frame inside of the one that decides on the operator, the innermost first. */
  void addInner(String className, String method) {
    if (leaf.equals(WAIT) && className.startsWith(LOCKS)
        && (method.startsWith("acquire") || method.startsWith("lock"))) {
      leaf = LOCK;
      return;
    }
    Found found = find(className);
    if (leaf.isEmpty() && kind.isEmpty()) leaf = waits(className, method) ? WAIT : found.leaf;
    if (!found.kind.isEmpty()) kind = found.kind;
    addDeciding(className);
  }

  /** Adds the frame that decides on the operator, which may name a format. */
  void addDeciding(String className) {
    String found = find(className).format;
    if (!found.isEmpty()) format = found;
  }

  private static boolean waits(String className, String method) {
    return className.equals("java.lang.Object") && method.startsWith("wait")
        || className.equals("java.lang.Thread") && method.startsWith("sleep");
  }

  /** The key of a stack with its work, if that is known. */
  String addTo(String key) {
    String found = leaf;
    if (found.isEmpty() && (!kind.startsWith(USER) || Stacks.isOperator(key))) found = kind;
    if (found.isEmpty()) found = format;
    if (found.equals(IO) && key.startsWith(Stacks.PYTHON)) found = Stacks.PYTHON; // it waits for its worker
    return found.isEmpty() ? key : key + " " + MARK + found;
  }

  static String without(String key) {
    int mark = key.indexOf(" " + MARK);
    return mark < 0 ? key : key.substring(0, mark);
  }

  private Found find(String className) {
    Found found = known.get(className);
    if (found != null) return found;
    String leaf = first(LEAVES, className);
    String kind = first(KINDS, className);
    if (leaf.isEmpty() && kind.isEmpty() && isOfUser(className)) kind = user(className);
    String format = first(FORMATS, className);
    found = leaf.isEmpty() && kind.isEmpty() && format.isEmpty() ? Found.NOTHING : new Found(leaf, kind, format);
    if (known.size() < MAX_CLASSES) known.put(className, found);
    return found;
  }

  private static String first(String[][] table, String className) {
    for (String[] each : table) {
      if (className.startsWith(each[0])) return each[1];
    }
    return NONE;
  }

  private static boolean isOfUser(String className) {
    for (String library : LIBRARIES) {
      if (className.startsWith(library)) return false;
    }
    return true;
  }

  /** The class without its lambdas and inner classes. */
  private static String user(String className) {
    int end = className.indexOf('$', 1);
    String outer = end < 0 ? className : className.substring(0, end);
    return USER + (outer.length() > MAX_NAME ? outer.substring(0, MAX_NAME) : outer);
  }
}
