package io.joinsight;

import static io.joinsight.Check.check;

import io.joinsight.capture.Executions;
import io.joinsight.capture.Snapshot;
import io.joinsight.capture.SnapshotConsumer;
import io.joinsight.sampling.FailureLimit;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.JobSucceeded$;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** The listener pauses after many failures within an hour, and comes back; few failures in a long life change nothing. */
public final class PauseTest {
  private static final long HOUR = FailureLimit.PERIOD;

  @SuppressWarnings("unchecked") private static final Seq<StageInfo> NO_STAGES = (Seq<StageInfo>) (Object) Nil$.MODULE$;

  private final AtomicLong now = new AtomicLong();
  private final AtomicInteger clockFailures = new AtomicInteger();
  private final List<Snapshot> snapshots = Collections.synchronizedList(new ArrayList<>());
  private final JoinsightListener listener;
  private int jobs;

  private PauseTest() {
    SparkConf conf = new SparkConf(false)
                         .set("spark.joinsight.url", "http://collector:1")
                         .set("spark.joinsight.progressInterval", "100ms");
    listener = new JoinsightListener(conf, (settings, application) -> new SnapshotConsumer() {
      @Override
      public void start() {}

      @Override
      public void offer(Snapshot snapshot) {
        snapshots.add(snapshot);
      }

      @Override
      public void close(long timeoutMs) {}
    }, this::time);
    check(listener.problem() == null, listener.problem());
    listener.onApplicationStart(new SparkListenerApplicationStart(
        "pause", Option.apply("id"), 1, "user", Option.empty(), Option.empty(), Option.empty()));
  }

  /** Fails in the thread of the listener's clock as often as it shall. */
  private long time() {
    boolean isClock = Thread.currentThread().getName().equals("joinsight-clock");
    if (isClock && clockFailures.getAndUpdate(left -> Math.max(0, left - 1)) > 0)
      throw new OutOfMemoryError("injected");
    return now.get();
  }

  public static void main(String[] arguments) throws Exception {
    new PauseTest().seldom();
    new PauseTest().often();
    System.out.println("ok");
  }

  /** Rare failures do not add up. */
  private void seldom() {
    for (int i = 0; i < 3 * FailureLimit.MAX; i++) {
      listener.onJobStart(null);
      now.addAndGet(HOUR / 5);
    }
    check(measures(1), "it does not measure after rare failures");
  }

  /** Many failures pause it for an hour, also if its clock fails; what ran before is marked, and not followed later. */
  private void often() throws InterruptedException {
    int job = start(1);
    for (int i = 0; i < FailureLimit.MAX; i++) listener.onJobStart(null);
    check(snapshots.size() == 1 && snapshots.get(0).executionId == 1, "what ran is not reported");
    check(snapshots.get(0).incomplete.stream().anyMatch(each -> each.code.equals("not_followed")), "it is not marked");
    check(!measures(2), "it does not pause");
    clockFailures.set(3);
    now.addAndGet(HOUR);
    long deadline = System.currentTimeMillis() + 600_000;
    for (long id = 3; !measures(id); id++) { // from the next tick of the listener's clock on
      check(System.currentTimeMillis() < deadline, "it does not come back");
      Thread.sleep(10);
    }
    listener.onJobEnd(null);
    check(measures(1_000_000), "it pauses again at the first failure");
    snapshots.clear();
    end(job, 1);
    start(1);
    check(snapshots.isEmpty(), "what was left is followed again");
  }

  /** Whether an execution, which has a job and ends, is reported. */
  private boolean measures(long execution) {
    snapshots.clear();
    int job = start(execution);
    end(job, execution);
    return snapshots.stream().anyMatch(each -> each.executionId == execution && each.isFinal());
  }

  private int start(long execution) {
    Properties properties = new Properties();
    properties.setProperty(Executions.EXECUTION_ID, Long.toString(execution));
    listener.onJobStart(new SparkListenerJobStart(jobs, 1, NO_STAGES, properties));
    return jobs++;
  }

  private void end(int job, long execution) {
    listener.onJobEnd(new SparkListenerJobEnd(job, 1, JobSucceeded$.MODULE$));
    listener.onOtherEvent(new SparkListenerSQLExecutionEnd(execution, 2, Option.empty(), Option.empty()));
  }
}
