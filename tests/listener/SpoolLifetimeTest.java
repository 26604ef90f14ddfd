package io.joinsight.delivery;

import static io.joinsight.Check.check;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Collections;
import java.util.Map;

/** The log's sentence about the spool is true on a machine, in a pod and in a YARN container. */
public final class SpoolLifetimeTest {
  private static final Path TEMPORARY = Paths.get("/tmp");
  private static final Path WORKING = Paths.get("/yarn/usercache/u/appcache/app_1/container_1");
  private static final Path DEFAULT = TEMPORARY.resolve("joinsight-spool-u");
  private static final Map<String, String> POD = Collections.singletonMap("KUBERNETES_SERVICE_HOST", "10.96.0.1");
  private static final Map<String, String> YARN =
      Collections.singletonMap("CONTAINER_ID", "container_1_0001_01_000001");

  private static void starts(Path folder, Map<String, String> environment, Path temporary, String expected) {
    String said = SpoolLifetime.describe(folder, environment, temporary, WORKING);
    check(said.startsWith(expected), said);
    check(said.endsWith("joinsight ship " + folder) != said.contains("lost"), said);
  }

  public static void main(String[] arguments) {
    starts(DEFAULT, Collections.emptyMap(), TEMPORARY, "The next driver on this machine delivers them");
    starts(DEFAULT, POD, TEMPORARY, "They are lost when this pod ends: set spark.joinsight.spool");
    starts(Paths.get("/spool"), POD, TEMPORARY, "The next driver that mounts this folder delivers them");
    Path ofContainer = WORKING.resolve("tmp"); // as Spark sets java.io.tmpdir
    starts(ofContainer.resolve("joinsight-spool-u"), YARN, ofContainer, "They are lost when this YARN container ends");
    starts(Paths.get("/var/tmp/spool"), YARN, ofContainer, "The next driver on this machine delivers them");
    System.out.println("ok");
  }
}
