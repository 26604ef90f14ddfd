package io.joinsight;

import io.joinsight.delivery.Settings;
import io.joinsight.sampling.Sampler;
import io.joinsight.sampling.StartedTasks;
import io.joinsight.sampling.TaskSamples;
import java.util.Collections;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * The listener, and samples of what its tasks do: {@code spark.plugins=io.joinsight.JoinsightPlugin} in place of {@code
 * spark.extraListeners}. Every executor loads this class, so the jar must be on their class path too.
 *
 * <p>The driver attaches the listener and passes samples to it; each executor has a {@link Sampler}. In local mode, the
 * listener samples by itself. Like the listener, no method throws.
 */
public final class JoinsightPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new Driver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return new Executor();
  }

  private static final class Driver implements DriverPlugin {
    private SparkContext context;

    /** Returns what the executors' side is told: how often to sample. */
    @Override
    public Map<String, String> init(SparkContext context, PluginContext plugin) {
      try {
        this.context = context;
        boolean isOff = Attachment.attachFirst(context, plugin.conf()) != null;
        long interval = isOff || Settings.isLocal(plugin.conf()) ? 0 : Settings.sampleInterval(plugin.conf());
        return Collections.singletonMap(Settings.SAMPLE_INTERVAL, Long.toString(interval));
      } catch (Throwable t) {
        Sampler.warn("Joinsight's plugin could not start; the job is not affected", t);
        return Collections.emptyMap();
      }
    }

    @Override
    public Object receive(Object message) {
      try {
        TaskSamples samples = TaskSamples.ofMessage(message);
        for (JoinsightListener each : Attachment.present(context)) each.offer(samples);
      } catch (Throwable t) {
        Sampler.warn("Joinsight could not read samples of an executor; the job is not affected", t);
      }
      return null;
    }
  }

  private static final class Executor implements ExecutorPlugin {
    private final StartedTasks tasks = new StartedTasks();
    private volatile Sampler sampler;

    @Override
    public void init(PluginContext plugin, Map<String, String> fromDriver) {
      try {
        long interval = Long.parseLong(fromDriver.getOrDefault(Settings.SAMPLE_INTERVAL, "0"));
        if (interval == 0) return;
        Sampler starting = new Sampler(interval, tasks, samples -> plugin.send(samples.toMessage()));
        starting.start();
        sampler = starting;
      } catch (Throwable t) {
        Sampler.warn("Joinsight does not sample the tasks of this executor; the job is not affected", t);
      }
    }

    @Override
    public void onTaskStart() {
      if (sampler != null && !sampler.isStopped()) tasks.started(sampler);
    }

    @Override
    public void onTaskSucceeded() {
      if (sampler != null) tasks.ended(sampler);
    }

    @Override
    public void onTaskFailed(org.apache.spark.TaskFailedReason reason) {
      if (sampler != null) tasks.ended(sampler);
    }

    @Override
    public void shutdown() {
      if (sampler != null) sampler.stop();
    }
  }
}
