import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

public final class Slow extends SparkListener {
  private long until;

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    if (event.stageInfo().numTasks() > 1) until = dropped() + 100;
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    try {
      while (dropped() < until) Thread.sleep(1);
    } catch (InterruptedException e) {
      throw new RuntimeException(e);
    }
  }

  private static long dropped() {
    return context().listenerBus().metrics().metricRegistry().counter("queue.shared.numDroppedEvents").getCount();
  }

  /** Called in a task: returns once all listeners have seen all that was posted before. */
  public static String drained() throws Exception {
    context().listenerBus().waitUntilEmpty(600_000);
    return "drained";
  }

  private static SparkContext context() {
    return SparkContext.getOrCreate();
  }
}
