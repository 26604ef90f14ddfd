import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationStart;

/** A listener of the user's own. */
public final class Theirs extends SparkListener {
  @Override
  public void onApplicationStart(SparkListenerApplicationStart event) {
    System.out.println("theirs runs");
  }
}
