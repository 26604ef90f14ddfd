package io.joinsight.sampling;

import java.util.HashMap;
import java.util.Map;

/**
 * Tells from the stack of a task's thread what the task does. Going outwards from the innermost frame, the first class
 * that decides gives the group; the generated code around it names the operator.
 *
 * <p>A key is {@code GROUP}, {@code GROUP CODEGEN} or {@code GROUP CODEGEN FUNCTION}, where the group of an interpreted
 * operator is {@code operator NAME}. The collector maps it to a node of the plan. If the frames inside of the deciding one
 * tell the kind of {@link Work}, it follows: {@code GROUP CODEGEN FUNCTION +WORK}. Used by the sampler's thread only.
 */
final class Stacks {
  static final String OTHER = "other";

  static final String PYTHON = "python";

  private static final String SPARK = "org.apache.spark.";
  private static final String EXECUTION = "org.apache.spark.sql.execution.";
  private static final String SOURCES = "org.apache.spark.sql.execution.datasources.";
  private static final String GENERATED = "$GeneratedIteratorForCodegenStage";
  private static final String OPERATOR = "operator";
  private static final String SKIPPED = "";
  private static final String CODE = "code";
  private static final String CACHE = "cache_build";
  private static final String TASK = "task"; // what runs a task: its operators are inside
  private static final int MAX_FUNCTION = 100;
  private static final int MAX_CLASSES = 20_000;

  /** Groups of classes by the start of their name, the first that matches. */
  private static final String[][] GROUPS = {
      {"org.apache.spark.scheduler.ResultTask", TASK},
      {"org.apache.spark.scheduler.ShuffleMapTask", TASK},
      // Reading a shuffle, and its rows; writing them is part of the write
      {"org.apache.spark.sql.execution.UnsafeRowSerializerInstance$$anon$1", SKIPPED},
      {"org.apache.spark.sql.execution.UnsafeRowSerializerInstance", "shuffle_read"},
      {"org.apache.spark.storage.ShuffleBlockFetcherIterator", "shuffle_read"},
      {"org.apache.spark.shuffle.BlockStoreShuffleReader", "shuffle_read"},
      {"org.apache.spark.sql.execution.ShuffledRowRDD", "shuffle_read"},
      {"org.apache.spark.shuffle.IndexShuffleBlockResolver", SKIPPED}, // both write and read through it
      {"org.apache.spark.shuffle.sort.SortShuffleManager", SKIPPED}, // likewise
      {"org.apache.spark.shuffle.", "shuffle_write"},
      {"org.apache.spark.sql.execution.exchange.ShuffleExchangeExec", "shuffle_write"},
      {"org.apache.spark.sql.comet.execution.shuffle.CometBlockStoreShuffleReader", "shuffle_read"},
      {"org.apache.spark.sql.comet.execution.shuffle.NativeBatchDecoderIterator", "shuffle_read"},
      {"org.apache.spark.sql.comet.execution.shuffle.CometShuffledBatchRDD", "shuffle_read"},
      {"org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager", SKIPPED},
      {"org.apache.spark.sql.comet.execution.shuffle.", "shuffle_write"},
      // Around the native calls of Comet: setting them up, and taking their batches
      {"org.apache.spark.sql.comet.CometNativeExec", "native"},
      {"org.apache.spark.sql.comet.CometExec", "native"},
      {"org.apache.spark.sql.comet.CometBatchRDD", "native"},
      {"org.apache.spark.sql.comet.PlanDataInjector", "native"},
      {"org.apache.spark.sql.comet.NativeScanPlanDataInjector", "native"},
      {"org.apache.spark.sql.comet.SharedDecode", "native"},
      {"org.apache.spark.sql.comet.CometSparkToColumnarExec", OPERATOR + " CometSparkRowToColumnar"},
      // Sources
      {"org.apache.spark.sql.execution.datasources.v2.MergeRowsExec", OPERATOR},
      {"org.apache.spark.sql.execution.datasources.", "scan"},
      {"org.apache.spark.sql.execution.FileSourceScanExec", "scan"},
      {"org.apache.spark.sql.execution.RowDataSourceScanExec", "scan"},
      {"org.apache.spark.sql.execution.LocalTableScanExec", "scan"},
      {"org.apache.spark.sql.execution.RDDScanExec", "scan"},
      {"org.apache.spark.sql.execution.ExternalRDDScanExec", "scan"},
      {"org.apache.spark.sql.hive.", "scan"},
      {"org.apache.spark.rdd.HadoopRDD", "scan"},
      {"org.apache.spark.rdd.NewHadoopRDD", "scan"},
      {"org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer$$anon$", CACHE},
      {"org.apache.spark.sql.execution.columnar.ArrowCachedBatchSerializer$$anon$", CACHE},
      {"org.apache.spark.sql.execution.columnar.CachedRDDBuilder", CACHE},
      {"org.apache.spark.sql.execution.columnar.", "cached_scan"},
      {"org.apache.spark.sql.catalyst.expressions.GeneratedClass$SpecificColumnarIterator", "cached_scan"},
      {"org.apache.spark.api.python.", PYTHON},
      {"org.apache.spark.sql.execution.python.", PYTHON},
      // Parts of the operator around them
      {"org.apache.spark.sql.execution.UnsafeExternalRowSorter", "sort"},
      {"org.apache.spark.sql.execution.UnsafeFixedWidthAggregationMap", "aggregation"},
      {"org.apache.spark.sql.execution.UnsafeKVExternalSorter", "aggregation"},
      {"org.apache.spark.sql.execution.joins.LongToUnsafeRowMap", "hashed_relation"},
      {"org.apache.spark.sql.execution.joins.LongHashedRelation", "hashed_relation"},
      {"org.apache.spark.sql.execution.joins.UnsafeHashedRelation", "hashed_relation"},
      {"org.apache.spark.sql.execution.joins.HashedRelation", "hashed_relation"},
      // Operators that are interpreted
      {"org.apache.spark.sql.execution.aggregate.TungstenAggregationIterator", OPERATOR + " HashAggregate"},
      {"org.apache.spark.sql.execution.aggregate.ObjectAggregation", OPERATOR + " ObjectHashAggregate"},
      {"org.apache.spark.sql.execution.aggregate.SortBasedAggregationIterator", OPERATOR + " SortAggregate"},
      {"org.apache.spark.sql.execution.joins.SortMergeJoinScanner", OPERATOR + " SortMergeJoin"},
      {"org.apache.spark.sql.execution.joins.UnsafeCartesianRDD", OPERATOR + " CartesianProduct"},
      {"org.apache.spark.sql.execution.window.WindowGroupLimit", OPERATOR + " WindowGroupLimit"},
      {"org.apache.spark.sql.execution.window.", OPERATOR + " Window"},
      {"org.apache.spark.sql.execution.WholeStageCodegen", SKIPPED},
      {"org.apache.spark.sql.execution.InputAdapter", SKIPPED},
      {"org.apache.spark.sql.execution.SparkPlan", "collect"},
      {"org.apache.spark.sql.execution.arrow.ArrowConverters$ArrowBatch", "collect"}, // toPandas, Connect
  };
  /** Groups of methods of native engines, which run many operators in one call, by the start of class and method. */
  private static final String[][] NATIVE_GROUPS = {
      {"org.apache.comet.CometExecIterator", "native"},
      {"org.apache.comet.Native.executePlan", "native"},
      {"org.apache.comet.Native.createPlan", "native"},
      {"org.apache.spark.sql.comet.util.Utils$.serializeBatches", "collect"},
      {"org.apache.spark.sql.comet.util.Utils$.$anonfun$serializeBatches", "collect"},
      {"org.apache.comet.Native.decodeShuffleBlock", "shuffle_read"},
      {"org.apache.comet.Native.write", "shuffle_write"},
      {"org.apache.comet.Native.sortRowPartitions", "shuffle_write"},
      {"org.apache.comet.Native.columnarToRow", OPERATOR + " CometNativeColumnarToRow"},
      {"org.apache.gluten.vectorized.ColumnarBatchOutIterator.native", "native"},
  };
  private static final String COMET = "org.apache.spark.sql.comet.";
  private static final String[] OPERATOR_ENDINGS = {"Exec", "EvaluatorFactory"};

  private final Map<String, String> groups = new HashMap<>(); // by class
  private final Work work = new Work();

  /**
   * The key of a stack, whose innermost frame is the first; null: the task's own part has not begun, or has ended.
   * {@code isBlocked}: the thread waits for a monitor.
   */
  String key(StackTraceElement[] frames, int depth, boolean isBlocked) {
    work.clear(isBlocked);
    String key = place(frames, depth);
    return key == null || key.equals(OTHER) ? key : work.addTo(key);
  }

  private String place(StackTraceElement[] frames, int depth) {
    String group = null; // of the innermost class that decides, if not by itself
    String key = null;
    for (int i = 0; i < frames.length; i++) {
      StackTraceElement frame = frames[i];
      String name = frame.getClassName();
      int generated = name.indexOf(GENERATED);
      if (generated >= 0) {
        if (key == null) key = inCode(group, name.substring(generated + GENERATED.length()), frame.getMethodName());
        continue;
      }
      String found = group(name);
      if (key == null && found.equals(SKIPPED)) found = nativeGroup(name, frame.getMethodName());
      if (key == null && group == null) addWork(found, name, frame.getMethodName());
      switch (found) {
        case SKIPPED:
          break;
        case TASK:
          if (i > 0 && isDeserializing(frames[i - 1].getClassName())) return null; // its run time begins afterwards
          return key != null ? key : group != null && !isPart(group) ? group : OTHER;
        case CACHE:
          key = CACHE; // the plan of a cached table has codegen stages of its own
          break;
        case "sort":
        case "aggregation":
        case "hashed_relation":
          if (group == null) group = found;
          break;
        default:
          if (key != null) break;
          if (group == null || isPart(group)) group = found;
          if (!isNamedByCode(group)) key = group;
      }
    }
    if (key != null) return key;
    if (group != null && !isPart(group)) return group;
    return frames.length < depth ? null : OTHER;
  }

  private void addWork(String group, String className, String method) {
    if (group.equals(SKIPPED)) work.addInner(className, method);
    else work.addDeciding(className);
  }

  /** {@code place}: the number of a codegen stage, and the nested class if there is one. */
  private static String inCode(String group, String place, String method) {
    int end = 0;
    while (end < place.length() && Character.isDigit(place.charAt(end))) end++;
    String codegen = place.substring(0, end);
    if (group != null && !isPart(group)) return group + " " + codegen;
    String nested = place.substring(end).replaceFirst("^\\$", "");
    // A hash map of an operator is a class of its own, NestedClass_1 only a part of the code
    String function = nested.isEmpty() || nested.startsWith("NestedClass") ? method : nested;
    if (function.endsWith("$")) function = function.substring(0, function.length() - 1); // Janino's private methods
    if (function.length() > MAX_FUNCTION) function = function.substring(0, MAX_FUNCTION);
    return (group == null ? CODE : group) + " " + codegen + " " + function;
  }

  /** Whether a task that calls this class gets the code that it is to run, or asks how long that took. */
  private static boolean isDeserializing(String called) {
    return called.startsWith("org.apache.spark.serializer.") || called.startsWith("org.apache.spark.broadcast.")
        || called.startsWith("sun.management."); // where a busy machine stops many
  }

  /** Whether a key is of the code of operators. */
  static boolean isOperator(String key) {
    return key.startsWith(CODE) || key.startsWith(OPERATOR) || isPart(key.split(" ", 2)[0]);
  }

  /** Whether the operator around it names the work. */
  private static boolean isPart(String group) {
    return group.equals("sort") || group.equals("aggregation") || group.equals("hashed_relation");
  }

  /** Whether generated code further out tells which of several it is. */
  private static boolean isNamedByCode(String group) {
    return group.equals("shuffle_read") || group.equals("scan") || group.equals("cached_scan") || group.equals(PYTHON)
        || group.startsWith(OPERATOR);
  }

  private String group(String name) {
    if (!name.startsWith(SPARK)) return SKIPPED;
    String known = groups.get(name);
    if (known != null) return known;
    String found = find(name);
    if (groups.size() < MAX_CLASSES) groups.put(name, found);
    return found;
  }

  private static String nativeGroup(String name, String method) {
    if (!name.startsWith("org.apache.comet.") && !name.startsWith("org.apache.gluten.vectorized.")
        && !name.startsWith(COMET))
      return SKIPPED;
    String called = name + "." + method;
    for (String[] group : NATIVE_GROUPS) {
      if (called.startsWith(group[0])) return group[1];
    }
    return SKIPPED;
  }

  private static String find(String name) {
    String simple = name.substring(name.lastIndexOf('.') + 1);
    if (name.startsWith(SOURCES) && simple.contains("Writ")) return "file_write"; // ParquetWriteSupport
    for (String[] group : GROUPS) {
      if (name.startsWith(group[0])) return group[1].equals(OPERATOR) ? operator(name) : group[1];
    }
    return name.startsWith(EXECUTION) || name.startsWith(COMET) ? operator(name) : SKIPPED;
  }

  /** {@code operator Generate} for GenerateExec and its parts; nothing if the name is not of an operator. */
  private static String operator(String name) {
    String simple = name.substring(name.lastIndexOf('.') + 1).replaceFirst("\\$.*", "");
    for (String ending : OPERATOR_ENDINGS) {
      if (simple.endsWith(ending)) return OPERATOR + " " + simple.substring(0, simple.length() - ending.length());
    }
    return SKIPPED;
  }
}
