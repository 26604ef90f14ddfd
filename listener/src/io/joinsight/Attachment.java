package io.joinsight;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListenerInterface;

/**
 * Attaches one listener to a running application; {@code joinsight.attach} calls this.
 *
 * <p>Each call from Python may come through a different class loader, so an attached listener is recognised by its
 * class name and called by reflection.
 */
public final class Attachment {
  private Attachment() {}

  /**
   * Returns a message for the user, or null if the context now has a listener with the settings in {@code conf}. An
   * attached listener stays, because it holds the values of running executions; one that never started is replaced.
   */
  public static String attach(SparkContext context, SparkConf conf) throws ReflectiveOperationException {
    for (SparkListenerInterface present : context.listenerBus().listeners()) {
      Class<?> type = present.getClass();
      if (!type.getName().equals(JoinsightListener.class.getName())) continue;
      if (type.getMethod("problem").invoke(present) != null) {
        context.removeSparkListener(present);
        continue;
      }
      if (type.getMethod("delivers").invoke(present).equals(false)) continue;
      Object differing = type.getMethod("differing", SparkConf.class).invoke(present, conf);
      if (differing.equals("")) return null;
      return "Joinsight is already attached to this SparkContext with other settings, which apply until the context is"
          + " stopped: " + differing;
    }
    JoinsightListener listener = new JoinsightListener(conf);
    if (listener.problem() != null) {
      return "Joinsight is not attached, the job runs without it: " + listener.problem();
    }
    listener.join(context);
    return null;
  }

  /**
   * Attaches a listener while the context starts, before its application has an id, unless {@code spark.extraListeners}
   * has one, which Spark makes later. Returns why the listener did not start; null if it did, or will.
   */
  static String attachFirst(SparkContext context, SparkConf conf) {
    for (String other : conf.get("spark.extraListeners", "").split(",")) {
      if (other.trim().equals(JoinsightListener.class.getName())) return null;
    }
    JoinsightListener listener = new JoinsightListener(conf);
    if (listener.problem() == null) context.addSparkListener(listener);
    return listener.problem();
  }

  /** The listeners of this class loader, those of measurements too. */
  static List<JoinsightListener> present(SparkContext context) {
    List<JoinsightListener> found = new ArrayList<>();
    for (SparkListenerInterface present : context.listenerBus().listeners()) {
      if (present instanceof JoinsightListener) found.add((JoinsightListener) present);
    }
    return found;
  }
}
