package io.joinsight.capture;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import org.apache.spark.sql.execution.QueryExecution;

/** Join hints that cannot be read are missing from the documents, and one line of the log says so. */
public final class JoinHintTest {
  /** A query of a Spark that keeps its plans in another way. */
  private static final class Changed extends QueryExecution {
    Object executedPlan;

    private Changed() {
      super(null, null, null, null, null, false, null, null);
    }

    /** Made without the constructor, which wants a session. */
    static Changed make() throws ReflectiveOperationException {
      Class<?> type = Class.forName("sun.reflect.ReflectionFactory");
      Object factory = type.getMethod("getReflectionFactory").invoke(null);
      Object constructor = type.getMethod("newConstructorForSerialization", Class.class, Constructor.class)
                               .invoke(factory, Changed.class, Object.class.getConstructor());
      Changed changed = (Changed) ((Constructor<?>) constructor).newInstance();
      changed.executedPlan = "not a SparkPlan";
      return changed;
    }
  }

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    ByteArrayOutputStream log = new ByteArrayOutputStream();
    System.setProperty("log4j2.level", "WARN");
    System.setOut(new PrintStream(log, true)); // where log4j's default configuration writes
    for (int i = 0; i < 2; i++) {
      if (!JoinHint.of(Changed.make()).isEmpty()) throw new AssertionError("a hint of no join");
    }
    int lines = log.toString().split("join hints", -1).length - 1;
    if (lines != 1) throw new AssertionError(lines + " lines: " + log);
    out.println("ok");
  }
}
