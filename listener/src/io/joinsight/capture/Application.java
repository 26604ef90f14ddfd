package io.joinsight.capture;

import java.nio.charset.StandardCharsets;
import java.util.UUID;

/** What is known so far about the application that documents belong to; its id is unknown until it has started. */
public final class Application {
  /** True in a listener, false when an event log is read. */
  final boolean isLive;

  public volatile ApplicationSettings settings;
  public volatile String id = "";
  public volatile String attemptId = "";
  public volatile String name;
  public volatile String user = "";
  public volatile long startedAt;
  public volatile Long endedAt;
  public volatile long failures;
  public String sparkVersion;
  private final String listenerId = UUID.randomUUID().toString();

  public Application(ApplicationSettings settings, boolean isLive) {
    this.settings = settings;
    this.isLive = isLive;
    name = settings.applicationName;
    sparkVersion = isLive ? SparkAccess.SPARK_VERSION : "unknown";
  }

  String jobName() {
    return settings.jobName.isEmpty() ? name : settings.jobName;
  }

  /** A random id; for an event log the same id each time the same version of Joinsight reads it. */
  String listenerId() {
    if (isLive) return listenerId;
    String log = "event log\n" + id + "\n" + attemptId + "\n" + Documents.VERSION;
    return UUID.nameUUIDFromBytes(log.getBytes(StandardCharsets.UTF_8)).toString();
  }

  /**
   * Whether stages record metrics that their execution registers after the job started. Spark's UI does so since 4.0,
   * and documents contain what the UI of the application's version shows.
   */
  boolean stagesSeeLaterMetrics() {
    return !sparkVersion.startsWith("3.");
  }

  /** Events that Spark dropped before the listener received them; null if unknown. */
  Long droppedEvents() {
    return isLive ? SparkAccess.droppedEvents() : null;
  }
}
