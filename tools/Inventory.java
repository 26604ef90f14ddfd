import java.io.File;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Prints what the Spark on the class path has, a line each: the kind, a tab, the name. */
public class Inventory {
  private static final Map<String, String> KINDS = new LinkedHashMap<>();

  static {
    KINDS.put("join operator", "org.apache.spark.sql.execution.joins.BaseJoinExec");
    KINDS.put("exchange operator", "org.apache.spark.sql.execution.exchange.Exchange");
    KINDS.put("other operator", "org.apache.spark.sql.execution.SparkPlan");
    KINDS.put("join type", "org.apache.spark.sql.catalyst.plans.JoinType");
    KINDS.put("join hint", "org.apache.spark.sql.catalyst.plans.logical.JoinStrategyHint");
    KINDS.put("partitioning", "org.apache.spark.sql.catalyst.plans.physical.Partitioning");
    KINDS.put("broadcast mode", "org.apache.spark.sql.catalyst.plans.physical.BroadcastMode");
    KINDS.put("shuffle origin", "org.apache.spark.sql.execution.exchange.ShuffleOrigin");
    KINDS.put("rule", "org.apache.spark.sql.catalyst.rules.Rule");
    KINDS.put("event", "org.apache.spark.scheduler.SparkListenerEvent");
  }

  public static void main(String[] arguments) throws Exception {
    for (String path : System.getProperty("java.class.path").split(File.pathSeparator)) {
      if (!path.matches(".*/spark-.*\\.jar")) continue;
      try (JarFile jar = new JarFile(path)) {
        for (JarEntry entry : Collections.list(jar.entries())) classify(entry.getName());
      }
    }
    // What loads the definitions of all settings, of the core and of SQL
    Class.forName("org.apache.spark.internal.config.package$");
    Class.forName("org.apache.spark.sql.internal.SQLConf$");
    Class.forName("org.apache.spark.sql.internal.StaticSQLConf$");
    Class<?> entries = Class.forName("org.apache.spark.internal.config.ConfigEntry$");
    Object all = entries.getField("MODULE$").get(null);
    for (Method way : entries.getMethods()) {
      if (!way.getName().matches("knownConfigs|listAllEntries|listAllProtoDefinedConfigs")) continue; // 4.1, later, 4.3
      Object found = way.invoke(all);
      for (Object entry : found instanceof Map ? ((Map<?, ?>) found).values() : (Collection<?>) found) {
        System.out.println("setting\t" + entry.getClass().getMethod("key").invoke(entry));
      }
    }
  }

  /** A class of the first kind that fits; not those that the compiler makes within others. */
  private static void classify(String file) throws ClassNotFoundException {
    boolean isOfSql = file.matches("org/apache/spark/sql/(catalyst|execution)/([^$]+|[^$]+\\$)\\.class");
    boolean isEvent = file.matches("org/apache/spark/.*(Event|SparkListener)[^/]*[^$]\\.class");
    if (!isOfSql && !isEvent) return;
    String name = file.substring(0, file.length() - 6).replace('/', '.');
    Class<?> found;
    try {
      found = Class.forName(name, false, Inventory.class.getClassLoader());
    } catch (LinkageError e) {
      return; // what it extends is not packed
    }
    if (Modifier.isAbstract(found.getModifiers())) return;
    for (Map.Entry<String, String> kind : KINDS.entrySet()) {
      if (!Class.forName(kind.getValue(), false, Inventory.class.getClassLoader()).isAssignableFrom(found)) continue;
      System.out.println(
          kind.getKey() + "\t" + name.replaceFirst("^org.apache.spark.(sql.)?", "").replaceFirst("\\$$", ""));
      return;
    }
  }
}
