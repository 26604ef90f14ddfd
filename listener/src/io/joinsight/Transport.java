package io.joinsight;

import java.io.IOException;

/** Sends batches to the collector: {@link Http}, except in tests. */
interface Transport {
  /** Sends a batch's body and returns the response; if it throws, the batch may or may not have arrived. */
  Reply post(byte[] body) throws IOException;

  /** Aborts a request that takes too long. May be called from any thread. */
  void abortIfStuck();

  /** Aborts the current request, if any: its thread gets an IOException. May be called from any thread. */
  void abort();
}
