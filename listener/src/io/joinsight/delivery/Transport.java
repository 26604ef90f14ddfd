package io.joinsight.delivery;

import java.io.IOException;

/** Sends batches to the collector: {@link Http}, except in tests. */
interface Transport {
  /**
   * Sends a batch's body and returns the response; if it throws, the batch may or may not have arrived, or may still
   * arrive.
   */
  Reply post(byte[] body) throws IOException;

  /** Makes the current request, if any, and all later ones fail at once. May be called from any thread. */
  void abort();
}
