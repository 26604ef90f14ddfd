package io.joinsight.delivery;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;

/**
 * The fate of documents that are still in the spool folder when a driver ends: in the pod of a driver on
 * Kubernetes, and in the container of one on YARN, the default folder ends with it.
 */
final class SpoolLifetime {
  private static final String SET = ": set spark.joinsight.spool to a folder ";

  private SpoolLifetime() {}

  /** A sentence about the files in this folder, for the log. */
  static String describe(Path folder) {
    return describe(
        folder, System.getenv(), Paths.get(System.getProperty("java.io.tmpdir")),
        Paths.get(System.getProperty("user.dir")));
  }

  /** {@code temporary}: the JVM's folder for temporary files; {@code working}: that which it was started in. */
  static String describe(Path folder, Map<String, String> environment, Path temporary, Path working) {
    String next = "The next driver on this machine delivers them";
    if (environment.containsKey("KUBERNETES_SERVICE_HOST")) {
      if (folder.startsWith(temporary))
        return "They are lost when this pod ends" + SET + "of a volume that outlives it";
      next = "The next driver that mounts this folder delivers them";
    } else if (environment.getOrDefault("CONTAINER_ID", "").startsWith("container_") && folder.startsWith(working)) {
      return "They are lost when this YARN container ends" + SET + "outside of it, on a disk of the node";
    }
    return next + "; to deliver them now, run: joinsight ship " + folder;
  }
}
