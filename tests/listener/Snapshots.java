package io.joinsight.capture;

import java.util.Collections;

/** Snapshots of executions, for tests of what is done with them. */
public final class Snapshots {
  private Snapshots() {}

  /** One of an execution that runs or has ended; without settings its document cannot be written. */
  public static Snapshot of(long id, ApplicationSettings settings, boolean hasEnded) {
    LiveExecution e = new LiveExecution(id);
    e.startedAt = 1_700_000_000_000L;
    if (hasEnded) e.endedAt = e.startedAt + 1;
    e.startSeen = true;
    e.redaction = settings == null ? null : settings.redaction;
    return new Snapshot(e, Collections.emptyList(), null);
  }
}
