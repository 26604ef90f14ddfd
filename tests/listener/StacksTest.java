package io.joinsight.sampling;

import io.joinsight.Check;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

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
    check("shuffle_write", SQL + "UnsafeExternalRowSorter.sort", SQL + "exchange.ShuffleExchangeExec$.x", WRITER);
    check(
        "file_write +parquet", SQL + "datasources.parquet.ParquetWriteSupport.write",
        SQL + "datasources.FileFormatWriter$.x");
    // Interpreted operators
    check("operator Window", SQL + "window.WindowEvaluatorFactory$$anon$1.next", WRITER);
    check("operator Sort 3", SQL + "UnsafeExternalRowSorter.sort", SQL + "SortExec.x", GENERATED + "3.processNext");
    check("operator Generate", SQL + "GenerateExec.x", SQL + "WholeStageCodegenEvaluatorFactory.x", WRITER);
    // The plan of a cached table has codegen stages of its own
    check("cache_build", GENERATED + "1.processNext", SQL + "columnar.DefaultCachedBatchSerializer$$anon$1.next");
    check("collect", "java.io.DataOutputStream.write", SQL + "SparkPlan.$anonfun$getByteArrayRdd$1");
    check("collect", SQL + "arrow.ArrowWriter.write", SQL + "arrow.ArrowConverters$ArrowBatchIterator.next");
    check("python", SQL + "arrow.ArrowWriter.write", SQL + "python.BasicPythonArrowInput.writeNextInputToArrowStream");
    // Native engines: one call runs many operators, and may call back for rows that it reads
    String comet = "org.apache.spark.sql.comet.";
    check(
        "native", "org.apache.comet.Native.executePlan", "org.apache.comet.CometExecIterator.getNextBatch",
        comet + "execution.shuffle.CometNativeShuffleWriter.write",
        "org.apache.spark.shuffle.ShuffleWriteProcessor.write");
    check(
        "shuffle_read", "org.apache.comet.Native.decodeShuffleBlock",
        comet + "execution.shuffle.NativeBatchDecoderIterator.next", "org.apache.comet.Native.executePlan");
    check(
        "code 1 processNext", GENERATED + "1.processNext", comet + "CometSparkToColumnarExec.x",
        "org.apache.comet.Native.executePlan");
    check(
        "shuffle_write", "org.apache.comet.Native.writeSortedFileNative",
        "org.apache.spark.shuffle.sort.SpillWriter.doSpilling");
    check("operator CometSparkRowToColumnar", comet + "CometSparkToColumnarExec$$anon$1.next");
    check(
        "native", "java.lang.Long.valueOf", "org.apache.comet.vector.NativeUtil.getNextBatch",
        "org.apache.comet.CometExecIterator.getNextBatch", WRITER);
    check(
        "collect", "org.apache.comet.shaded.arrow.vector.ipc.WriteChannel.write",
        comet + "util.Utils$.$anonfun$serializeBatches$2", SQL + "SparkPlan.x");
    check("native", "java.util.ArrayList.add", comet + "CometExec$.serializeNativePlan", WRITER);
    check("other", "java.util.ArrayList.add");
    check("other", SQL + "UnsafeExternalRowSorter.sort");
    check(null, SQL + "ShuffledRowRDD.x", "org.apache.spark.serializer.JavaSerializerInstance.deserialize");
    check(null, "java.lang.Object.wait", "org.apache.spark.broadcast.Broadcast.value");
    check(
        null, "sun.management.ThreadImpl.getThreadTotalCpuTime0", "sun.management.ThreadImpl.getCurrentThreadCpuTime");
    check("shuffle_write +serialization", "org.apache.spark.serializer.KryoSerializationStream.x", WRITER);
    work();
    limit();
    ends();
    System.out.println("ok");
  }

  /** What generated code and operators call; the outermost that is known, but for what only waits. */
  private static void work() {
    String code = GENERATED + "1.processNext";
    String expressions = "org.apache.spark.sql.catalyst.expressions.";
    String string = "org.apache.spark.unsafe.types.UTF8String.fromString";
    check("code 1 processNext +regex", "java.util.regex.Pattern$Loop.match", "java.util.regex.Matcher.find", code);
    check(
        "code 1 processNext +json", string, "com.fasterxml.jackson.core.JsonParser.x", expressions + "JsonToStructs.x",
        "org.apache.spark.sql.catalyst.json.JacksonParser.parse", code);
    check("code 1 processNext +decimal", "java.math.BigDecimal.add", "org.apache.spark.sql.types.Decimal.$plus", code);
    check("code 1 processNext +date", "java.lang.String.split", "java.time.format.DateTimeFormatter.parse", code);
    check("code 1 processNext +string", string, "java.util.ArrayList.add", code);
    check(
        "code 1 processNext +hash", "sun.security.provider.SHA2.implCompress0", "java.security.MessageDigest.digest",
        code);
    check(
        "code 1 processNext +user:com.acme.Job", "java.util.regex.Matcher.find", "com.acme.Job$.$anonfun$main$1",
        expressions + "ScalaUDF.$anonfun$f$2", code);
    check("operator HashAggregate +user:Sum", "Sum.reduce", SQL + "aggregate.TungstenAggregationIterator.x");
    check(
        "operator HashAggregate", "org.sparkproject.guava.cache.LocalCache.get",
        SQL + "aggregate.TungstenAggregationIterator.x");
    check(
        "sort 1 processNext +compare", expressions + "GeneratedClass$SpecificOrdering.compare",
        "org.apache.spark.util.collection.TimSort.sort", SQL + "UnsafeExternalRowSorter.sort", code);
    // Waiting, input and output, and compression are not what calls them
    String[] parked = {"jdk.internal.misc.Unsafe.park", "java.util.concurrent.locks.LockSupport.park"};
    check("code 1 processNext +wait", "java.lang.Thread.sleep", "com.acme.Job.run", code);
    check(
        "shuffle_read 1 +wait", parked[0], parked[1],
        "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await",
        "java.util.concurrent.LinkedBlockingQueue.take", "org.apache.spark.storage.ShuffleBlockFetcherIterator.next",
        code);
    check(
        "code 1 processNext +lock", parked[0], parked[1],
        "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire",
        "java.util.concurrent.locks.ReentrantLock.lock", "com.acme.Job.run", code);
    check(
        "shuffle_read 1 +compression", "net.jpountz.lz4.LZ4BlockInputStream.read",
        SQL + "UnsafeRowSerializerInstance$$anon$2.x", code);
    check("shuffle_write +serialization", SQL + "UnsafeRowSerializerInstance$$anon$1.writeValue", WRITER);
    check(
        "scan 1 +io", "java.io.FileInputStream.readBytes", "org.apache.hadoop.fs.FSInputChecker.read",
        SQL + "datasources.FileScanRDD$$anon$1.hasNext", code);
    check(
        "python 2 +python", "sun.nio.ch.EPoll.wait", "org.apache.spark.api.python.PythonRunner.read",
        GENERATED + "2.processNext");
    // Formats, if there is nothing else; a user's class that reads is a source
    check(
        "scan 1 +compression", "org.xerial.snappy.SnappyNative.rawUncompress",
        "org.apache.parquet.hadoop.ParquetFileReader.x", SQL + "datasources.parquet.VectorizedParquetRecordReader.x",
        code);
    check("scan 1 +parquet", SQL + "datasources.parquet.VectorizedRleValuesReader.x", code);
    check("scan 1", "com.acme.Source.next", SQL + "datasources.v2.DataSourceRDD.x", code);

    StackTraceElement[] blocked = {frame("java.util.Hashtable.get"), frame(code), frame(TASK)};
    String key = new Stacks().key(blocked, 100, true);
    Check.check("code 1 processNext +lock".equals(key), key);
  }

  /** However many there are, operators are told apart for longer than kinds of work. */
  private static void limit() {
    TaskSamples samples = new TaskSamples(1, 0);
    for (int i = 0; i < 1_000; i++) samples.add("code 1 function_" + i / 3 + " +user:Class" + i, 1);
    Check.check(samples.counts().size() == 501, samples.counts().size() + " keys");
    Check.check(samples.counts().containsKey("code 1 function_300"), "an operator is not told apart");
    long sum = samples.counts().values().stream().mapToLong(Long::longValue).sum();
    Check.check(sum == 1_000, sum + " samples");
  }

  private static void ends() {
    StackTraceElement[] result = {frame("org.apache.spark.executor.Executor$TaskRunner.run")};
    Check.check(new Stacks().key(result, 100, false) == null, "a task is counted though its own part has ended");
    Check.check("other".equals(new Stacks().key(result, 1, false)), "a stack that is cut off is not counted");
  }

  private static void check(String expected, String... frames) {
    List<StackTraceElement> stack = new ArrayList<>();
    for (String frame : frames) stack.add(frame(frame));
    stack.add(frame(TASK));
    stack.addAll(Collections.nCopies(3, frame("java.lang.Thread.run")));
    String key = new Stacks().key(stack.toArray(new StackTraceElement[0]), 100, false);
    Check.check(Objects.equals(expected, key), key + " instead of " + expected + " for " + Arrays.toString(frames));
  }

  private static StackTraceElement frame(String name) {
    int dot = name.lastIndexOf('.');
    return new StackTraceElement(name.substring(0, dot), name.substring(dot + 1), null, -1);
  }
}
