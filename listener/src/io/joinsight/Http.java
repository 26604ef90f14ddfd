package io.joinsight;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import java.util.TreeSet;
import javax.net.ssl.HttpsURLConnection;

/** Requests to the collector, one at a time. {@link #abort} may be called from any thread. */
final class Http {
  private static final int MAX_CONNECT_MS = 5_000;
  private static final int MAX_REPLY = 256 * 1024;

  /** What the collector answered. */
  static final class Reply {
    final int status;
    final String text;
    final long retryAfterMs;

    Reply(int status, String text, long retryAfterMs) {
      this.status = status;
      this.text = text;
      this.retryAfterMs = retryAfterMs;
    }

    /** The numbers of the lines that were refused, from 1; none where the answer names none. */
    Set<Integer> refusedLines() {
      Set<Integer> lines = new TreeSet<>();
      try (JsonParser json = new JsonFactory().createParser(text)) {
        for (JsonToken token; (token = json.nextToken()) != null; ) {
          if (token == JsonToken.FIELD_NAME && json.getCurrentName().equals("line")) lines.add(json.nextIntValue(0));
        }
      } catch (IOException cutOff) {
        // what was read so far is right
      }
      return lines;
    }
  }

  private final Settings settings;
  private volatile HttpURLConnection current;
  private volatile long startedAt;

  Http(Settings settings) {
    this.settings = settings;
  }

  Reply post(byte[] body) throws IOException {
    HttpURLConnection http = (HttpURLConnection) new URL(settings.url + "/v1/documents").openConnection();
    if (settings.trusted != null && http instanceof HttpsURLConnection) {
      ((HttpsURLConnection) http).setSSLSocketFactory(settings.trusted);
    }
    http.setConnectTimeout(Math.min(MAX_CONNECT_MS, settings.requestTimeoutMs));
    http.setReadTimeout(settings.requestTimeoutMs);
    http.setInstanceFollowRedirects(false);
    http.setRequestMethod("POST");
    http.setDoOutput(true);
    http.setFixedLengthStreamingMode(body.length);
    http.setRequestProperty("Content-Type", "application/x-ndjson");
    http.setRequestProperty("Content-Encoding", "gzip");
    if (settings.token != null) http.setRequestProperty("Authorization", "Bearer " + settings.token);
    startedAt = System.nanoTime();
    current = http;
    try {
      try (OutputStream out = http.getOutputStream()) {
        out.write(body);
      }
      int status = http.getResponseCode();
      String text = read(status < 400 ? http.getInputStream() : http.getErrorStream());
      return new Reply(status, text, 1000L * Math.max(0, http.getHeaderFieldInt("Retry-After", 0)));
    } catch (RuntimeException e) { // the JDK's client throws some for malformed answers
      throw new IOException(e);
    } finally {
      current = null;
    }
  }

  /** Breaks a request off that takes too long: an answer that comes byte by byte runs into no other time-out. */
  void abortIfStuck() {
    if (System.nanoTime() - startedAt > 2_000_000L * settings.requestTimeoutMs) abort();
  }

  /** Breaks off the request under way, if any: its thread gets an IOException. */
  void abort() {
    HttpURLConnection http = current;
    if (http != null) http.disconnect();
  }

  private static String read(InputStream stream) throws IOException {
    if (stream == null) return "";
    try (InputStream in = stream) {
      byte[] buffer = new byte[MAX_REPLY];
      int length = 0;
      for (int n; length < buffer.length && (n = in.read(buffer, length, buffer.length - length)) > 0; ) length += n;
      return new String(buffer, 0, length, StandardCharsets.UTF_8);
    }
  }
}
