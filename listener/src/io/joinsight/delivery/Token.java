package io.joinsight.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The collector's token, from a file that may change while the driver runs, or from the environment. */
final class Token {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  private final Path file; // null: it never changes
  private volatile String value;

  /** {@code value}: null if the collector needs none. */
  Token(String value) {
    file = null;
    this.value = value;
  }

  /** Reads the file's first line; fails if it is empty. */
  Token(Path file) throws IOException {
    this.file = file;
    value = read();
  }

  private String read() throws IOException {
    String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8).trim();
    if (text.isEmpty()) throw new IOException("it is empty; its first line must be the token");
    return text.split("\\R", 2)[0];
  }

  /** Null if there is none. */
  String value() {
    return value;
  }

  /** Reads the file again; whether it has another token now. A file that cannot be read changes nothing. */
  boolean hasChanged() {
    if (file == null) return false;
    try {
      String now = read();
      if (now.equals(value)) return false;
      value = now;
      LOG.info("Joinsight: {} has a new token", file);
      return true;
    } catch (IOException | RuntimeException e) {
      return false; // it may be written at this moment; the next request that the collector rejects reads it again
    }
  }
}
