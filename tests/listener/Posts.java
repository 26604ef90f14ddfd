package io.joinsight.delivery;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.spark.SparkConf;

/**
 * Posts the files that it reads the names of, as the sender would, and prints a line for each: the status and how many
 * lines the collector refused, or what failed. Arguments: settings, without their prefix.
 */
public final class Posts {
  public static void main(String[] arguments) throws Exception {
    SparkConf conf = new SparkConf(false);
    for (String each : arguments) conf.set("spark.joinsight." + each.split("=", 2)[0], each.split("=", 2)[1]);
    Settings settings = new Settings(conf);
    if (!settings.problems.isEmpty()) throw new IllegalArgumentException(settings.problems.toString());
    Http http = new Http(settings);
    BufferedReader names = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String name; (name = names.readLine()) != null;) {
      try {
        Reply reply = http.post(Files.readAllBytes(Paths.get(name)));
        System.out.println(
            reply.status + " " + reply.isOfCollector(Integer.MAX_VALUE) + " " + reply.refusedLines().size());
      } catch (Exception e) {
        System.out.println(e);
      }
    }
  }
}
