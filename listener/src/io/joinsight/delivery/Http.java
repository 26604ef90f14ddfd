package io.joinsight.delivery;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URL;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.HttpsURLConnection;
import javax.net.ssl.SSLException;

/**
 * Requests to the collector, one at a time.
 *
 * <p>Each has a thread of its own, for which {@link #post} waits no longer than twice the request timeout or until
 * {@link #abort}: nothing ends the wait for a name server, and a response that arrives byte by byte never reaches the
 * read timeout.
 */
final class Http implements Transport {
  private static final int MAX_CONNECT_MS = 5_000;

  /** A collector's reply has a reason of some hundred bytes for each refused document, and a batch thousands of these. */
  private static final int MAX_REPLY = 4 << 20;

  private static final int UNAUTHORIZED = 401;
  private static final String TOO_LATE = "no complete response within " + Settings.SHUTDOWN_TIMEOUT;

  private final Settings settings;
  private volatile Request current; // the last one
  private volatile boolean isClosed;

  Http(Settings settings) {
    this.settings = settings;
  }

  /** Posts the batch; again after a problem with the token or the certificate, if the file of either has changed. */
  @Override
  public Reply post(byte[] body) throws IOException {
    Reply reply;
    try {
      reply = request(body);
    } catch (SSLException e) {
      if (settings.trust == null || !settings.trust.hasChanged()) throw e;
      reply = request(body);
    }
    return reply.status == UNAUTHORIZED && settings.token.hasChanged() ? request(body) : reply;
  }

  private Reply request(byte[] body) throws IOException {
    if (current != null && !current.hasEnded) throw new IOException("the previous request still hangs");
    Request request = new Request(body);
    startDaemon(request, "joinsight-request");
    current = request;
    if (isClosed) request.giveUp(TOO_LATE);
    try {
      return request.reply.get(2L * settings.requestTimeoutMs, TimeUnit.MILLISECONDS);
    } catch (TimeoutException e) {
      String problem = "no complete response within " + 2L * settings.requestTimeoutMs + " ms";
      request.giveUp(problem);
      throw new IOException(problem);
    } catch (InterruptedException e) {
      throw new IOException(e);
    } catch (ExecutionException e) {
      throw e.getCause() instanceof IOException ? (IOException) e.getCause() : new IOException(e.getCause());
    }
  }

  @Override
  public void abort() {
    isClosed = true;
    Request request = current;
    if (request != null) request.giveUp(TOO_LATE);
  }

  private static void startDaemon(Runnable runnable, String name) {
    Thread thread = new Thread(runnable, name);
    thread.setDaemon(true);
    thread.start();
  }

  private final class Request implements Runnable {
    final CompletableFuture<Reply> reply = new CompletableFuture<>();
    volatile boolean hasEnded; // whether its thread needs the network no more
    private final byte[] body;
    private volatile HttpURLConnection http;

    Request(byte[] body) {
      this.body = body;
    }

    @Override
    public void run() {
      Reply received = null;
      Throwable problem = null;
      try {
        received = send();
      } catch (Throwable t) {
        problem = t;
      }
      hasEnded = true; // before the sender's thread, which waits for the reply, makes the next request
      if (problem == null) reply.complete(received);
      else reply.completeExceptionally(problem);
    }

    /** Lets the caller go on, and closes the connection; its thread ends as soon as it can. */
    void giveUp(String reason) {
      if (!reply.completeExceptionally(new IOException(reason))) return;
      HttpURLConnection open = http;
      if (open != null) startDaemon(open::disconnect, "joinsight-disconnect"); // it may wait for a TLS handshake
    }

    private Reply send() throws IOException {
      URL url = new URL(settings.url + "/v1/documents");
      http = (HttpURLConnection) (settings.useProxy ? url.openConnection() : url.openConnection(Proxy.NO_PROXY));
      if (settings.trust != null && http instanceof HttpsURLConnection) {
        ((HttpsURLConnection) http).setSSLSocketFactory(settings.trust.sockets());
      }
      http.setConnectTimeout(Math.min(MAX_CONNECT_MS, settings.requestTimeoutMs));
      http.setReadTimeout(settings.requestTimeoutMs);
      http.setInstanceFollowRedirects(false);
      http.setRequestMethod("POST");
      http.setDoOutput(true);
      http.setFixedLengthStreamingMode(body.length);
      http.setRequestProperty("Content-Type", "application/x-ndjson");
      http.setRequestProperty("Content-Encoding", "gzip");
      String token = settings.token.value();
      if (token != null) http.setRequestProperty("Authorization", "Bearer " + token);
      http.connect();
      if (reply.isDone()) { // given up while there was nothing to close
        http.disconnect();
        return null;
      }
      try (OutputStream out = http.getOutputStream()) {
        out.write(body);
      }
      int status = http.getResponseCode();
      byte[] text = read(status < 400 ? http.getInputStream() : http.getErrorStream());
      return new Reply(status, text, 1000L * Math.max(0, http.getHeaderFieldInt("Retry-After", 0)));
    }

    private byte[] read(InputStream stream) throws IOException {
      ByteArrayOutputStream all = new ByteArrayOutputStream();
      if (stream == null) return all.toByteArray();
      try (InputStream in = stream) {
        byte[] buffer = new byte[16 * 1024];
        for (int n; all.size() < MAX_REPLY && (n = in.read(buffer)) > 0 && !reply.isDone();) all.write(buffer, 0, n);
      }
      return all.toByteArray();
    }
  }
}
