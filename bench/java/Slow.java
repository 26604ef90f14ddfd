package io.joinsight.bench;

import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.spark.SparkConf;
import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage;
import org.apache.spark.io.LZ4CompressionCodec;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/** For bench/cost.py: parts of a driver that are slow when asked to be. */
public final class Slow {
  private static final AtomicLong PLAN_MS = new AtomicLong();
  private static final AtomicLong BROADCAST_MS = new AtomicLong();
  private static final AtomicLong COMMIT_MS = new AtomicLong();

  private Slow() {}

  /** The next time that AQE optimizes the rest of a plan takes so much longer. */
  public static void nextPlan(long ms) {
    PLAN_MS.set(ms);
  }

  /** The next broadcast takes so much longer to send. */
  public static void nextBroadcast(long ms) {
    BROADCAST_MS.set(ms);
  }

  /** The next commit takes so much longer. */
  public static void nextCommit(long ms) {
    COMMIT_MS.set(ms);
  }

  private static void sleep(AtomicLong ms) {
    try {
      Thread.sleep(ms.getAndSet(0));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** As spark.sql.extensions. */
  public static final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
      extensions.injectRuntimeOptimizerRule(session -> new SlowRule());
      return BoxedUnit.UNIT;
    }
  }

  private static final class SlowRule extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      sleep(PLAN_MS);
      return plan;
    }
  }

  /** As spark.io.compression.codec. */
  public static final class Codec extends LZ4CompressionCodec {
    public Codec(SparkConf conf) {
      super(conf);
    }

    @Override
    public OutputStream compressedOutputStream(OutputStream stream) {
      if (Thread.currentThread().getName().startsWith("broadcast-exchange")) sleep(BROADCAST_MS);
      return super.compressedOutputStream(stream);
    }
  }

  /** As spark.sql.sources.commitProtocolClass. */
  public static final class Commit extends SQLHadoopMapReduceCommitProtocol {
    private static final long serialVersionUID = 1;

    public Commit(String jobId, String path, boolean dynamicPartitionOverwrite) {
      super(jobId, path, dynamicPartitionOverwrite);
    }

    @Override
    public void commitJob(JobContext job, Seq<TaskCommitMessage> messages) {
      sleep(COMMIT_MS);
      super.commitJob(job, messages);
    }
  }
}
