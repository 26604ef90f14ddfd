package io.joinsight.delivery;

import io.joinsight.capture.SequenceTracker;
import io.joinsight.capture.Texts;
import java.io.IOException;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Posts batches to the collector and acts on its replies. Used by the sender's thread only. */
final class Delivery {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");

  /** The result of posting a batch. */
  enum Outcome {
    /** The collector stored it or permanently refused it. */
    TAKEN,
    /** Retry later. */
    FAILED,
    /** Retry later, after other batches: the failure may be due to this batch. */
    BLOCKED
  }

  private final Settings settings;
  private final Transport transport;
  private final SequenceTracker tracker;
  private final Spool spool;
  private final Backoff backoff;

  Delivery(Settings settings, Transport transport, SequenceTracker tracker, Spool spool, Backoff backoff) {
    this.settings = settings;
    this.transport = transport;
    this.tracker = tracker;
    this.spool = spool;
    this.backoff = backoff;
  }

  /** Posts a batch, in halves if it is too large for the collector or a proxy. */
  Outcome deliver(Batch batch) {
    try {
      Reply reply = transport.post(batch.body);
      boolean tooLarge = reply.status == 413;
      if (tooLarge && batch.documents > 1) {
        for (Batch half : batch.halves()) {
          Outcome outcome = deliver(half);
          if (outcome != Outcome.TAKEN) return outcome;
        }
        return Outcome.TAKEN;
      }
      if (reply.isOfCollector(batch.documents) && (reply.status == 200 || reply.status == 400 || tooLarge)) {
        taken(batch, reply);
        if (backoff.isActive()) LOG.info("Joinsight: the collector at {} accepts documents again", settings.url);
        backoff.succeeded();
        return Outcome.TAKEN;
      }
      failed(problem(reply), reply.retryAfterMs);
      return reply.status == 400 || reply.status == 403 || tooLarge ? Outcome.BLOCKED : Outcome.FAILED;
    } catch (Throwable t) {
      failed(Texts.firstLine(t.toString()), 0);
      return Outcome.FAILED;
    }
  }

  private static String problem(Reply reply) {
    if (reply.status == 401) return "it responded 401: the token is wrong or missing (" + Settings.TOKENS + ")";
    String response = reply.status + " " + Texts.firstLine(reply.text);
    return (reply.status < 400 ? "this is not a Joinsight collector, it responded " : "it responded ") + response;
  }

  private void failed(String reason, long retryAfterMs) {
    if (!backoff.isActive()) {
      LOG.error(
          "Joinsight: cannot deliver documents to the collector at {}: {}. The job is not affected; documents are kept"
              + " in {} and sent later. Check {} and that the collector is running (joinsight serve).{}",
          settings.url, reason, spool, Settings.URL, aboutProxy());
    }
    backoff.failed(retryAfterMs);
  }

  private String aboutProxy() {
    String proxy = settings.unusedProxy();
    if (proxy == null) return "";
    return " The JVM's proxy (" + proxy + ") is not used; to use it, set " + Settings.USE_PROXY + "=true.";
  }

  private void taken(Batch batch, Reply reply) throws IOException {
    Set<Integer> refused = reply.refusedLines();
    if (refused.isEmpty() && reply.status != 200) {
      for (int line = 1; line <= batch.documents; line++) refused.add(line);
    }
    tracker.arrived(batch.stamps(refused, false));
    if (refused.isEmpty()) return;
    tracker.refused(batch.stamps(refused, true));
    Batch bad = batch.only(refused);
    spool.setAside(bad);
    LOG.warn(
        "Joinsight: the collector refused {} of {} documents: {}", bad.documents, batch.documents,
        Texts.firstLine(reply.text));
  }
}
