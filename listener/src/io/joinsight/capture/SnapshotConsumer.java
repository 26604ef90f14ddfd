package io.joinsight.capture;

/** Where a listener puts what it measures. */
public interface SnapshotConsumer {
  /** Called once the application is known. */
  void start();

  /** Takes a snapshot; does not block. A later one of the same execution replaces it. */
  void offer(Snapshot snapshot);

  /** Called at the end of the application. */
  void close(long timeoutMs) throws InterruptedException;
}
