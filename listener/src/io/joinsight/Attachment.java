package io.joinsight;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListenerInterface;

/**
 * Attaches a listener to an application that runs, once: {@code joinsight.attach} calls it.
 *
 * <p>Each call from Python may come through another class loader, so a listener is recognised by its class's name, and
 * asked by reflection.
 */
public final class Attachment {
  private Attachment() {}

  /**
   * What a user should be told; null if the listener of this context is one of the settings in {@code conf}. A listener
   * that is there stays: what it measures of running executions is in its memory. One that never started is replaced.
   */
  public static String attach(SparkContext context, SparkConf conf) throws ReflectiveOperationException {
    for (SparkListenerInterface present : context.listenerBus().listeners()) {
      Class<?> type = present.getClass();
      if (!type.getName().equals(JoinsightListener.class.getName())) continue;
      if (type.getMethod("problem").invoke(present) != null) {
        context.removeSparkListener(present);
        continue;
      }
      Object differing = type.getMethod("differing", SparkConf.class).invoke(present, conf);
      if (differing.equals("")) return null;
      return "Joinsight is attached to this SparkContext already, with other settings, which stay until the context is"
          + " stopped: " + differing;
    }
    JoinsightListener listener = new JoinsightListener(conf);
    if (listener.problem() != null) {
      return "Joinsight is not attached, the job runs without it: " + listener.problem();
    }
    listener.join(context);
    return null;
  }
}
