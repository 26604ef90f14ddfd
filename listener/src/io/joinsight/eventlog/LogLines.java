package io.joinsight.eventlog;

import java.io.BufferedInputStream;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.regex.Pattern;
import java.util.zip.GZIPInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkConf;
import org.apache.spark.io.CompressionCodec;

/**
 * The lines of a file of an event log, decompressed by Spark's own codec, or as gzip. A file may end anywhere: all lines
 * before the damage are returned, then {@link #cutOff} gives the reason.
 */
final class LogLines implements Closeable {
  private static final int CHUNK = 1 << 18;
  private static final int MAX_LINE = 256 << 20;
  private static final int BEGINNING = 256;
  private static final Pattern EVENT = Pattern.compile("\\s*\\{\\s*\"Event\"\\s*:\\s*\"");
  private static final String LOCAL = "file:";
  private static final String GZIP = "gz"; // Spark writes none, but archives are kept so
  private static final String[] CODECS = {"zstd", "lz4", "snappy", "lzf", GZIP};
  private static final String[] MAGIC = {
      "\u0028\u00b5\u002f\u00fd", "LZ4Block", "\u0082SNAPPY\0", "ZV", "\u001f\u008b"};

  /** The current line is in these bytes from {@link #start} to {@link #end}, without its line break. */
  byte[] bytes = new byte[2 * CHUNK];

  int start;
  int end;

  /** A reader that may find the end of a line while reading it, so that no byte is read twice. */
  interface LineReader {
    /** The end of the line that starts here; -1 if this reader did not find it. */
    int read(byte[] bytes, int start, int filled);
  }

  /** Why the rest could not be read; null if all was read. */
  String cutOff;

  /** The failure may be temporary: the file system reported it. */
  boolean failed;

  private final String name;
  private final Configuration configuration;
  private Source source;
  private InputStream in;
  private String codec; // null: plain text
  private int filled;
  private int next; // where the next line starts

  /** {@code configuration}: the Hadoop configuration for the file systems; null: all files are local. */
  LogLines(String path, Configuration configuration) {
    this.configuration = configuration;
    name = path.substring(path.lastIndexOf('/') + 1);
    try {
      open(path);
    } catch (Exception | LinkageError e) {
      cutOff(e);
    }
  }

  private void open(String path) throws IOException {
    boolean isLocal = path.startsWith(LOCAL) || configuration == null;
    // Hadoop's classes take a second to load, and Spark also writes local logs without them
    source = new Source(isLocal ? local(withoutScheme(path)) : remote(new Path(path), configuration));
    BufferedInputStream buffered = new BufferedInputStream(source, CHUNK);
    codec = codec(buffered);
    in = buffered;
    if (GZIP.equals(codec)) {
      in = new GZIPInputStream(buffered, CHUNK);
    } else if (codec != null) {
      in = CompressionCodec.createCodec(new SparkConf(false), codec).compressedContinuousInputStream(buffered);
    }
  }

  private static InputStream local(String path) throws IOException {
    File file = new File(path);
    // Opening a pipe would wait for a writer
    if (file.exists() && !file.isFile()) throw new IOException("not a regular file");
    return new FileInputStream(file);
  }

  private static InputStream remote(Path path, Configuration configuration) throws IOException {
    return path.getFileSystem(configuration).open(path);
  }

  private static String withoutScheme(String path) {
    return path.startsWith(LOCAL) ? path.substring(LOCAL.length()) : path;
  }

  /** By the first bytes, otherwise by the name. */
  private String codec(BufferedInputStream in) throws IOException {
    in.mark(16);
    byte[] first = new byte[8];
    int n = 0;
    for (int some; n < first.length && (some = in.read(first, n, first.length - n)) > 0;) n += some;
    in.reset();
    String begin = new String(first, 0, n, StandardCharsets.ISO_8859_1);
    for (int i = 0; i < CODECS.length; i++)
      if (begin.startsWith(MAGIC[i])) return CODECS[i];
    if (begin.startsWith("{")) return null;
    String named = name.replaceAll("\\.(?:inprogress|compact)", "");
    for (String each : CODECS)
      if (named.endsWith("." + each)) return each;
    return null;
  }

  /** Whether the first line is an event; to be called before {@link #next}. */
  boolean isEventLog() {
    while (filled < BEGINNING && cutOff == null && fill()) {}
    return EVENT.matcher(new String(bytes, 0, Math.min(filled, BEGINNING), StandardCharsets.ISO_8859_1)).lookingAt();
  }

  /** Whether {@link #next} passed the line to the reader. */
  boolean isRead;

  /** Moves to the next line, which {@code reader} may read; false at the end. */
  boolean next(LineReader reader) {
    int read = reader.read(bytes, next, filled);
    isRead = read >= 0;
    if (isRead) {
      start = next;
      end = read;
      next = end + 1;
      return true;
    }
    int looked = next;
    while (true) {
      for (int i = looked; i < filled; i++) {
        if (bytes[i] == '\n') {
          start = next;
          end = i;
          next = i + 1;
          return true;
        }
      }
      looked = filled - next;
      boolean more = cutOff == null && fill();
      looked += next;
      if (!more) return last();
    }
  }

  /** The last line may lack a line break if it is complete. */
  private boolean last() {
    start = next;
    end = filled;
    next = filled;
    if (start == end || cutOff != null) return false;
    int i = end - 1;
    while (i > start && bytes[i] <= ' ') i--;
    if (bytes[i] == '}') return true;
    cutOff = "the last line is cut off";
    return false;
  }

  /** Reads more data after the unread part; false at the end. */
  private boolean fill() {
    if (filled > bytes.length - CHUNK) {
      int left = filled - next;
      if (left > MAX_LINE) {
        cutOff = "a line is longer than " + (MAX_LINE >> 20) + " MB";
        return false;
      }
      byte[] room = left > bytes.length / 2 ? new byte[2 * bytes.length] : bytes;
      System.arraycopy(bytes, next, room, 0, left);
      bytes = room;
      next = 0;
      filled = left;
    }
    try {
      int n = codec == null || GZIP.equals(codec) ? in.read(bytes, filled, CHUNK) : unpack();
      if (n > 0) filled += n;
      return n > 0;
    } catch (Exception | LinkageError e) {
      cutOff(e);
      return false;
    }
  }

  /** At most one block: if the next one is damaged, Spark's codecs would lose what they have already decompressed. */
  private int unpack() throws IOException {
    int first = in.read();
    if (first < 0) return -1;
    bytes[filled] = (byte) first;
    int n = in.read(bytes, filled + 1, Math.max(0, Math.min(in.available(), CHUNK - 1)));
    return 1 + Math.max(0, n);
  }

  private void cutOff(Throwable e) {
    // A codec's class may be missing
    failed = source == null || source.failure != null || e instanceof LinkageError;
    String message = e.getMessage() == null ? e.toString() : e.getMessage();
    cutOff = failed || codec == null ? message : "its " + codec + " compression is broken: " + message;
  }

  /** Closes the codec, which holds memory outside of the heap, and with it the file. */
  @Override
  public void close() {
    close(in);
    close(source); // the codec may have failed before it closed the file
  }

  private static void close(Closeable closeable) {
    try {
      if (closeable != null) closeable.close();
    } catch (IOException | RuntimeException | LinkageError e) {
      // was already read
    }
  }

  /** A file that records failures of its file system; all other errors are caused by the log itself. */
  private static final class Source extends FilterInputStream {
    IOException failure;

    Source(InputStream in) {
      super(in);
    }

    @Override
    public int read() throws IOException {
      byte[] one = new byte[1];
      return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
      try {
        return in.read(target, offset, length);
      } catch (IOException e) {
        failure = e;
        throw e;
      }
    }
  }
}
