package io.joinsight;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import javax.net.ssl.HttpsURLConnection;

/** Requests to the collector, one at a time. {@link #abort} may be called from any thread. */
final class Http implements Transport {
  private static final int MAX_CONNECT_MS = 5_000;
  private static final int MAX_REPLY = 256 * 1024;

  private final Settings settings;
  private volatile HttpURLConnection current;
  private volatile long startedAt;

  Http(Settings settings) {
    this.settings = settings;
  }

  @Override
  public Reply post(byte[] body) throws IOException {
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
    } finally {
      current = null;
    }
  }

  /** A response that arrives byte by byte never reaches the read timeout. */
  @Override
  public void abortIfStuck() {
    if (System.nanoTime() - startedAt > 2_000_000L * settings.requestTimeoutMs) abort();
  }

  @Override
  public void abort() {
    HttpURLConnection http = current;
    if (http != null) http.disconnect();
  }

  private static String read(InputStream stream) throws IOException {
    if (stream == null) return "";
    try (InputStream in = stream) {
      byte[] buffer = new byte[MAX_REPLY];
      int length = 0;
      for (int n; length < buffer.length && (n = in.read(buffer, length, buffer.length - length)) > 0;) length += n;
      return new String(buffer, 0, length, StandardCharsets.UTF_8);
    }
  }
}
