package io.joinsight.delivery;

import io.joinsight.capture.SequenceTracker;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.zip.GZIPInputStream;
import java.util.zip.GZIPOutputStream;

/** Documents that are sent together: the body of one request, or of one file in the spool. */
final class Batch {
  /** A document as a line of a batch. */
  static final class Line {
    final byte[] bytes;
    final SequenceTracker.SequenceNumber stamp;
    final boolean isFinal;

    Line(byte[] bytes, SequenceTracker.SequenceNumber stamp, boolean isFinal) {
      this.bytes = bytes;
      this.stamp = stamp;
      this.isFinal = isFinal;
    }
  }

  /** Output is 5 % smaller than at gzip's default, 6, for a quarter more CPU; level 8 takes twice the CPU of 7. */
  private static final int LEVEL = 7;

  /** The collector's limit for the body of a request. */
  static final int MAX_BYTES = 32 << 20;

  private static final int MAX_UNPACKED = 64 << 20;

  /** Gzip NDJSON. */
  final byte[] body;

  final int documents;

  /** One for each document; empty if another driver created them. */
  final List<SequenceTracker.SequenceNumber> stamps;

  private Batch(byte[] body, int documents, List<SequenceTracker.SequenceNumber> stamps) {
    this.body = body;
    this.documents = documents;
    this.stamps = stamps;
  }

  static Batch of(List<Line> lines) {
    List<byte[]> bytes = new ArrayList<>();
    List<SequenceTracker.SequenceNumber> stamps = new ArrayList<>();
    for (Line line : lines) {
      bytes.add(line.bytes);
      stamps.add(line.stamp);
    }
    return pack(bytes, stamps);
  }

  /** The batch in a file's contents; fails if they are damaged or unpack to more than any listener writes. */
  static Batch ofBody(byte[] body, List<SequenceTracker.SequenceNumber> stamps) throws IOException {
    int documents = 0;
    long unpacked = 0;
    byte[] buffer = new byte[64 * 1024];
    try (InputStream in = new GZIPInputStream(new ByteArrayInputStream(body))) {
      for (int n; (n = in.read(buffer)) > 0;) {
        unpacked += n;
        if (unpacked > MAX_UNPACKED) throw new IOException("it unpacks to more than " + MAX_UNPACKED + " bytes");
        for (int i = 0; i < n; i++)
          if (buffer[i] == '\n') documents++;
      }
    }
    return new Batch(body, documents, stamps);
  }

  private static Batch pack(List<byte[]> lines, List<SequenceTracker.SequenceNumber> stamps) {
    ByteArrayOutputStream body = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(body) {
      { def.setLevel(LEVEL); }
    }) {
      for (byte[] line : lines) gzip.write(line);
    } catch (IOException impossible) {
      throw new IllegalStateException(impossible);
    }
    return new Batch(body.toByteArray(), lines.size(), stamps);
  }

  /** The documents in two batches of half the size. */
  List<Batch> halves() throws IOException {
    List<byte[]> lines = unpack(body);
    int middle = lines.size() / 2;
    return Arrays.asList(part(lines, 0, middle), part(lines, middle, lines.size()));
  }

  private Batch part(List<byte[]> lines, int from, int to) {
    return pack(lines.subList(from, to), stamps.isEmpty() ? stamps : stamps.subList(from, to));
  }

  /** A batch of the lines with these numbers, counted from 1. */
  Batch only(Set<Integer> numbers) throws IOException {
    if (numbers.size() == documents) return this;
    List<byte[]> lines = unpack(body);
    List<byte[]> kept = new ArrayList<>();
    for (int i = 0; i < lines.size(); i++)
      if (numbers.contains(i + 1)) kept.add(lines.get(i));
    return pack(kept, stamps(numbers, true));
  }

  /** The stamps of the lines with these numbers, counted from 1, or of all other lines. */
  List<SequenceTracker.SequenceNumber> stamps(Set<Integer> numbers, boolean included) {
    List<SequenceTracker.SequenceNumber> selected = new ArrayList<>();
    for (int i = 0; i < stamps.size(); i++)
      if (numbers.contains(i + 1) == included) selected.add(stamps.get(i));
    return selected;
  }

  private static List<byte[]> unpack(byte[] body) throws IOException {
    ByteArrayOutputStream all = new ByteArrayOutputStream();
    try (InputStream in = new GZIPInputStream(new ByteArrayInputStream(body))) {
      byte[] buffer = new byte[64 * 1024];
      for (int n; (n = in.read(buffer)) > 0;) all.write(buffer, 0, n);
    }
    byte[] bytes = all.toByteArray();
    List<byte[]> lines = new ArrayList<>();
    for (int start = 0, i = 0; i < bytes.length; i++) {
      if (bytes[i] == '\n') {
        lines.add(Arrays.copyOfRange(bytes, start, i + 1));
        start = i + 1;
      }
    }
    return lines;
  }
}
