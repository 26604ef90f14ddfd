package io.joinsight.eventlog;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Paths;

/** Reads lines of a file's path, a tab and another one from standard input; writes the plain lines of the first to the second. */
public final class Plain {
  public static void main(String[] arguments) throws Exception {
    BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    for (String line; (line = asked.readLine()) != null;) {
      String[] paths = line.split("\t");
      LogLines lines = new LogLines(paths[0], null);
      try (OutputStream out = Files.newOutputStream(Paths.get(paths[1]))) {
        while (lines.next((bytes, start, filled) -> - 1)) {
          out.write(lines.bytes, lines.start, lines.end - lines.start);
          out.write('\n');
        }
      }
      System.out.println(lines.cutOff);
    }
  }
}
