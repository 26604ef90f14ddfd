import org.apache.spark.sql.SparkSession;

/** A job in Java: {@code Job NAME...} runs a join in a SparkContext of its own for each name, the last one in a thread. */
public final class Job {
  private Job() {}

  public static void main(String[] names) throws InterruptedException {
    for (int i = 0; i < names.length - 1; i++) run(names[i]);
    Thread thread = new Thread(() -> run(names[names.length - 1]));
    thread.start();
    thread.join();
  }

  private static void run(String name) {
    SparkSession spark = SparkSession.builder().appName(name).getOrCreate();
    String sleep = "reflect('java.lang.Thread', 'sleep', 20L + 0 * a.id)"; // for a second in each task
    spark.sql("SELECT " + sleep + " FROM range(0, 100, 1, 2) a JOIN range(10) b ON a.id % 10 = b.id").collectAsList();
    spark.stop();
  }
}
