import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * HDFS with one node and YARN with two: {@code Cluster FOLDER}. Writes their configuration there; a number in its input
 * stops that node of YARN, and all ends with its input.
 */
public final class Cluster {
  private Cluster() {}

  public static void main(String[] arguments) {
    try {
      run(Paths.get(arguments[0]));
      System.exit(0);
    } catch (Throwable failure) {
      failure.printStackTrace();
      System.exit(1); // their threads would keep it alive
    }
  }

  private static void run(Path folder) throws Exception {
    Configuration of = new Configuration();
    of.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, folder.resolve("hdfs").toString());
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(of).build();
    hdfs.getFileSystem().mkdirs(new org.apache.hadoop.fs.Path("/logs"));
    YarnConfiguration conf = new YarnConfiguration();
    conf.set("fs.defaultFS", hdfs.getURI().toString());
    conf.set("yarn.nodemanager.vmem-check-enabled", "false");
    conf.set("yarn.nodemanager.pmem-check-enabled", "false");
    conf.set("yarn.nodemanager.resource.memory-mb", "8192");
    conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
    conf.set("yarn.nm.liveness-monitor.expiry-interval-ms", "20000"); // ten minutes by default
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "1.0");
    conf.set("yarn.scheduler.minimum-allocation-mb", "256");
    conf.set("yarn.nodemanager.aux-services", "spark_shuffle");
    conf.set("yarn.nodemanager.aux-services.spark_shuffle.class", ShuffleService.class.getName());
    try (ServerSocket free = new ServerSocket(0)) {
      conf.setInt("spark.shuffle.service.port", free.getLocalPort());
    }
    MiniYARNCluster yarn = new MiniYARNCluster("yarn", 2, 1, 1);
    yarn.init(conf);
    yarn.start();
    Path unfinished = folder.resolve("unfinished");
    try (OutputStream out = Files.newOutputStream(unfinished)) {
      yarn.getConfig().writeXml(out);
    }
    Files.createDirectories(folder.resolve("conf"));
    Files.copy(unfinished, folder.resolve("conf/yarn-site.xml"));
    Files.move(unfinished, folder.resolve("conf/core-site.xml"));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String node = input.readLine(); node != null; node = input.readLine()) {
      yarn.getNodeManager(Integer.parseInt(node)).stop();
    }
    yarn.stop();
    hdfs.shutdown();
  }
}
