package io.joinsight.delivery;

import java.io.IOException;
import java.nio.file.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;

/** Tries the spool folder of a driver; {@code joinsight doctor --spark} calls this. */
public final class SpoolCheck {
  private static final String PROBE = "doctor" + SpoolName.UNFINISHED;

  private SpoolCheck() {}

  /** Returns the folder, null if the user wants none, and why it cannot be used, null if it can. */
  public static String[] run(SparkContext context, SparkConf conf) {
    Path spool = new Settings(conf).spool;
    if (spool == null) return new String[] {null, null};
    try (SpoolFolder folder = SpoolFolder.open(spool, true)) {
      folder.write(PROBE, new byte[] {'\n'});
      folder.delete(PROBE);
      return new String[] {spool.toString(), null};
    } catch (IOException | RuntimeException e) {
      return new String[] {spool.toString(), e.toString()};
    }
  }
}
