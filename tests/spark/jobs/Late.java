import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;

/** Holds up the queue of listeners that applications add. */
public final class Late extends SparkListener {
  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    try {
      Thread.sleep(200);
    } catch (InterruptedException e) {
      throw new RuntimeException(e);
    }
  }
}
