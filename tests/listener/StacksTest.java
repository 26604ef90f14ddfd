package io.joinsight;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** What stacks of tasks, from the innermost frame outwards, are counted as; after stacks of Spark 4.3. */
public final class StacksTest {
  private static final String GENERATED =
      "org.apache.spark.sql.catalyst.expressions.GeneratedClass$GeneratedIteratorForCodegenStage";
  private static final String SQL = "org.apache.spark.sql.execution.";
  private static final String WRITER = "org.apache.spark.shuffle.sort.UnsafeShuffleWriter.write";
  private static final String TASK = "org.apache.spark.scheduler.ShuffleMapTask.runTask";

  public static void main(String[] arguments) {
    check(
        "code 5 smj_findNextJoinRows_0", GENERATED + "5.smj_findNextJoinRows_0$", GENERATED + "5.processNext", WRITER);
    check(
        "code 5 smj_findNextJoinRows_0", "java.lang.Long.compare",
        GENERATED + "5$NestedClass_1.smj_findNextJoinRows_0");
    check("code 12 hashAgg_FastHashMap_0", GENERATED + "12$hashAgg_FastHashMap_0.findOrInsert", WRITER);
    // What the innermost generated code calls
    check(
        "sort 4 sort_addToSorter_0", "org.apache.spark.util.collection.unsafe.sort.UnsafeExternalSorter.insertRecord",
        SQL + "UnsafeExternalRowSorter.insertRow", GENERATED + "4.sort_addToSorter_0$", GENERATED + "5.processNext");
    check(
        "aggregation 5 hashAgg_doConsume_0", "org.apache.spark.unsafe.map.BytesToBytesMap.safeLookup",
        SQL + "UnsafeFixedWidthAggregationMap.getAggregationBufferFromUnsafeRow", GENERATED + "5.hashAgg_doConsume_0$");
    check(
        "shuffle_read 4", "java.io.DataInputStream.readInt", SQL + "UnsafeRowSerializerInstance$$anon$2$$anon$3.next",
        GENERATED + "4.sort_addToSorter_0$", GENERATED + "5.processNext");
    check(
        "shuffle_read", "org.apache.spark.shuffle.IndexShuffleBlockResolver.getBlockData",
        "org.apache.spark.storage.ShuffleBlockFetcherIterator.fetchLocalBlocks", WRITER);
    check("shuffle_read", "org.apache.spark.shuffle.sort.SortShuffleManager.getReader", SQL + "ShuffledRowRDD.compute");
    check("scan 1", SQL + "datasources.FileScanRDD$$anon$1.hasNext", GENERATED + "1.columnartorow_nextBatch_0$");
    check("python 2", SQL + "python.BatchEvalPythonEvaluatorFactory.x", GENERATED + "2.processNext");
    // Writers, with what they call
    check("shuffle_write", SQL + "UnsafeRowSerializerInstance$$anon$1.writeValue", WRITER);
    check("shuffle_write", SQL + "UnsafeExternalRowSorter.sort", SQL + "exchange.ShuffleExchangeExec$.x", WRITER);
    check("file_write", SQL + "datasources.parquet.ParquetWriteSupport.write", SQL + "datasources.FileFormatWriter$.x");
    // Interpreted operators
    check("operator Window", SQL + "window.WindowEvaluatorFactory$$anon$1.next", WRITER);
    check("operator Sort 3", SQL + "UnsafeExternalRowSorter.sort", SQL + "SortExec.x", GENERATED + "3.processNext");
    check("operator Generate", SQL + "GenerateExec.x", SQL + "WholeStageCodegenEvaluatorFactory.x", WRITER);
    // The plan of a cached table has codegen stages of its own
    check("cache_build", GENERATED + "1.processNext", SQL + "columnar.DefaultCachedBatchSerializer$$anon$1.next");
    check("collect", "java.io.DataOutputStream.write", SQL + "SparkPlan.$anonfun$getByteArrayRdd$1");
    check("other", "java.util.ArrayList.add");
    check("other", SQL + "UnsafeExternalRowSorter.sort");
    ends();
    System.out.println("ok");
  }

  private static void ends() {
    StackTraceElement[] result = {frame("org.apache.spark.executor.Executor$TaskRunner.run")};
    Check.check(new Stacks().key(result, 100) == null, "a task is counted though its own part has ended");
    Check.check("other".equals(new Stacks().key(result, 1)), "a stack that is cut off is not counted");
  }

  private static void check(String expected, String... frames) {
    List<StackTraceElement> stack = new ArrayList<>();
    for (String frame : frames) stack.add(frame(frame));
    stack.add(frame(TASK));
    stack.addAll(Collections.nCopies(3, frame("java.lang.Thread.run")));
    String key = new Stacks().key(stack.toArray(new StackTraceElement[0]), 100);
    Check.check(expected.equals(key), key + " instead of " + expected + " for " + Arrays.toString(frames));
  }

  private static StackTraceElement frame(String name) {
    int dot = name.lastIndexOf('.');
    return new StackTraceElement(name.substring(0, dot), name.substring(dot + 1), null, -1);
  }
}
