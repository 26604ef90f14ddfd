package io.joinsight;

import java.io.IOException;

/** The way to the collector: {@link Http}, but for tests. */
interface Transport {
  /** Sends a batch's body and waits for the answer; whatever it throws, the batch may or may not have arrived. */
  Reply post(byte[] body) throws IOException;

  /** Breaks a request off that takes too long. May be called from any thread. */
  void abortIfStuck();

  /** Breaks off the request under way, if any: its thread gets an IOException. May be called from any thread. */
  void abort();
}
