package io.joinsight.sampling;

import io.joinsight.JoinsightPlugin;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskFailedReason;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** For bench/sampler.py: counts of what the {@link Sampler} sends. */
public final class Sampling {
  private static final AtomicLong RECEIVED = new AtomicLong();

  private Sampling() {}

  /** The samples that {@link Counting} has received from executors. */
  public static long received() {
    return RECEIVED.get();
  }

  /**
   * Joinsight's plugin, whose samples are counted on their way: what each executor sends in a file of the folder {@code
   * spark.bench.sent}, what arrives by {@link #received}.
   */
  public static final class Counting implements SparkPlugin {
    private final SparkPlugin counted = new JoinsightPlugin();

    @Override
    public DriverPlugin driverPlugin() {
      DriverPlugin driver = counted.driverPlugin();
      return new DriverPlugin() {
        @Override
        public Map<String, String> init(SparkContext context, PluginContext plugin) {
          RECEIVED.set(0);
          return driver.init(context, plugin);
        }

        @Override
        public Object receive(Object message) throws Exception {
          RECEIVED.addAndGet(samples(message));
          return driver.receive(message);
        }
      };
    }

    @Override
    public ExecutorPlugin executorPlugin() {
      ExecutorPlugin executor = counted.executorPlugin();
      AtomicLong sent = new AtomicLong();
      return new ExecutorPlugin() {
        @Override
        public void init(PluginContext plugin, Map<String, String> fromDriver) {
          Path file = Paths.get(plugin.conf().get("spark.bench.sent"), plugin.executorID());
          Class<?>[] types = {PluginContext.class};
          Object counting = Proxy.newProxyInstance(getClass().getClassLoader(), types, (proxy, method, arguments) -> {
            if (method.getName().equals("send"))
              Files.write(file, Long.toString(sent.addAndGet(samples(arguments[0]))).getBytes());
            return method.invoke(plugin, arguments);
          });
          executor.init((PluginContext) counting, fromDriver);
        }

        @Override
        public void onTaskStart() {
          executor.onTaskStart();
        }

        @Override
        public void onTaskSucceeded() {
          executor.onTaskSucceeded();
        }

        @Override
        public void onTaskFailed(TaskFailedReason reason) {
          executor.onTaskFailed(reason);
        }

        @Override
        public void shutdown() {
          executor.shutdown();
        }
      };
    }

    private static long samples(Object message) {
      return TaskSamples.ofMessage(message).counts().values().stream().mapToLong(Long::longValue).sum();
    }
  }
}
