package io.joinsight;

import io.joinsight.capture.Application;
import io.joinsight.capture.Documents;
import io.joinsight.capture.Executions;
import io.joinsight.capture.SnapshotConsumer;
import io.joinsight.capture.SparkAccess;
import io.joinsight.capture.SparkEvents;
import io.joinsight.delivery.Sender;
import io.joinsight.delivery.Settings;
import io.joinsight.sampling.FailureLimit;
import io.joinsight.sampling.LocalTasks;
import io.joinsight.sampling.Sampler;
import io.joinsight.sampling.TaskSamples;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.LongFunction;
import java.util.function.LongSupplier;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorAdded;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerExecutorRemoved;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate;
import org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveSQLMetricUpdates;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Measures every SQL execution of the application and reports it to the collector at {@code spark.joinsight.url}.
 * Attached with {@code spark.extraListeners=io.joinsight.JoinsightListener}.
 *
 * <p>It never fails the job: neither the constructor nor a callback throws, none but that of the application's end waits
 * for anything, and after {@link FailureLimit#MAX} failures within an hour the listener pauses for an hour. Spark's
 * listener bus calls all callbacks from one thread.
 */
public final class JoinsightListener extends SparkListener {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final long MARKER_AGAIN_MS = 1_000;
  private static final int MAX_SAMPLES = 10_000; // messages of executors that wait for the bus's thread

  /**
   * Asks a listener for something on the bus's thread: when it arrives, so have all events that were posted before. Not
   * written to event logs.
   */
  private static final class Marker implements SparkListenerEvent {
    final JoinsightListener listener;
    final Runnable asked;

    Marker(JoinsightListener listener, Runnable asked) {
      this.listener = listener;
      this.asked = asked;
    }

    @Override
    public boolean logEvent() {
      return false;
    }
  }

  private static volatile String unknownBefore = ""; // settings that do not exist, of the listener made last

  private volatile boolean off = true;
  private String problem; // why it never started; null if it did
  private Settings settings;
  private Application application;
  private Executions executions;
  private SparkEvents events;
  private SnapshotConsumer consumer;
  private boolean applicationKnown;
  private boolean executorsMissed; // those that were added before it listened, or while it was paused
  private final LongSupplier time; // nanoseconds
  private final FailureLimit failures;
  private volatile boolean isPaused;
  private long pausedAt; // in nanoseconds of the time
  private volatile boolean joining; // executions that started so far do not count
  private boolean leaving; // no execution that starts from now on counts
  private final CountDownLatch joined = new CountDownLatch(1);
  private final CountDownLatch emitted = new CountDownLatch(1); // open once nothing more will be
  private volatile boolean progressDue;
  private Thread clock;
  private final LocalTasks.Listener localTasks = new LocalTasks.Listener() {
    @Override
    public boolean isBusy() {
      return isBusy;
    }

    @Override
    public void offer(TaskSamples samples) {
      JoinsightListener.this.offer(samples);
    }
  };
  private Sampler sampler; // of local mode; null: tasks are not sampled here
  private volatile boolean isBusy;
  private final Queue<TaskSamples> samples = new LinkedBlockingQueue<>(MAX_SAMPLES);

  /** Called by Spark while the SparkContext starts, before the application's id is known. */
  public JoinsightListener(SparkConf conf) {
    this(conf, (settings, application) -> new Sender(settings, new Documents(application)));
  }

  JoinsightListener(SparkConf conf, BiFunction<Settings, Application, SnapshotConsumer> makeConsumer) {
    this(conf, makeConsumer, System::nanoTime);
  }

  JoinsightListener(
      SparkConf conf, BiFunction<Settings, Application, SnapshotConsumer> makeConsumer, LongSupplier time) {
    this.time = time;
    failures = new FailureLimit(time);
    try {
      if (!conf.getBoolean(Settings.ENABLED, true)) {
        problem = Settings.ENABLED + " is false";
        return;
      }
      SparkAccess.check();
      settings = new Settings(conf);
      String unknown = settings.unknown();
      if (!settings.problems.isEmpty()) {
        problem = String.join("; ", settings.problems);
        if (!unknown.isEmpty()) problem += "; these do not exist: " + unknown;
        LOG.error("Joinsight is off, the job runs without it: {}", problem);
        return;
      }
      // Each measurement has a listener of its own
      if (!unknown.isEmpty() && !unknown.equals(unknownBefore))
        LOG.warn("Joinsight ignores settings that do not exist: {}", unknown);
      unknownBefore = unknown;
      application = new Application(settings.application, true);
      consumer = makeConsumer.apply(settings, application);
      executions = new Executions(application, settings.memoryLimit / 2, consumer::offer);
      events = new SparkEvents(executions);
      clock = new Thread(this::tick, "joinsight-clock");
      clock.setDaemon(true);
      clock.start();
      off = false;
    } catch (Throwable t) {
      off = true;
      problem = "it could not start: " + t;
      log("Joinsight is off, the job runs without it: it could not start", t);
    }
  }

  /** Why the listener never started; null if it did. For {@code joinsight.attach}. */
  public String problem() {
    return problem;
  }

  /** Whether task time is sampled, where, or why not; null if the listener never started. For {@code joinsight doctor}. */
  public String sampling() {
    return problem == null ? settings.sampling() : null;
  }

  /** Settings that do not exist; empty if there are none. For {@code joinsight doctor}. */
  public String unknownSettings() {
    return problem == null ? settings.unknown() : "";
  }

  /** Whether it reports to a collector; false for that of a {@link Measurement}. */
  public boolean delivers() {
    return consumer instanceof Sender;
  }

  /** Describes its settings that differ from those in {@code conf}; empty if none does. */
  public String differing(SparkConf conf) {
    return settings.differing(conf);
  }

  /** Adds the listener to a running application, whose start event it never receives. */
  public void join(SparkContext context) {
    applicationStarted(context);
    executorsMissed = true;
    context.addSparkListener(this);
  }

  /**
   * Like {@link #join}, but executions that start before it returns do not count, although their events may arrive later:
   * it waits for the events that were posted so far, up to {@code timeoutMs}. Called by another thread than the bus's.
   */
  void joinFromNow(SparkContext context, long timeoutMs) throws InterruptedException {
    joining = true;
    join(context);
    try {
      awaitMarker(context, joined, timeoutMs, ms -> joined::countDown);
    } finally {
      joining = false;
    }
  }

  /**
   * Removes the listener from a running application once the events that were posted so far have arrived, and, for up to
   * {@code jobsMs}, those of jobs whose execution has ended. False if that took longer than {@code timeoutMs}. Called by
   * another thread than the bus's.
   */
  boolean leave(SparkContext context, long jobsMs, long timeoutMs) throws InterruptedException {
    try {
      return awaitMarker(context, emitted, timeoutMs, ms -> () -> leave(ms < jobsMs));
    } finally {
      off = true;
      isPaused = false;
      clock.interrupt();
      LocalTasks.stop(localTasks);
      context.removeSparkListener(this);
    }
  }

  /** {@code ask}: what is asked after these milliseconds, again and again, because a full queue drops the event. */
  private boolean awaitMarker(SparkContext context, CountDownLatch done, long timeoutMs, LongFunction<Runnable> ask)
      throws InterruptedException {
    long start = System.nanoTime();
    boolean all = false;
    for (long ms = 0; !all && ms < timeoutMs; ms = (System.nanoTime() - start) / 1_000_000) {
      context.listenerBus().post(new Marker(this, ask.apply(ms)));
      all = done.await(Math.min(MARKER_AGAIN_MS, timeoutMs - ms), TimeUnit.MILLISECONDS);
    }
    return all;
  }

  private void leave(boolean waitsForJobs) {
    leaving = true;
    leaveIfDone(waitsForJobs);
  }

  private void leaveIfDone(boolean waitsForJobs) {
    if (waitsForJobs && executions.awaitJobs()) return;
    emitLast();
  }

  private void emitLast() {
    try {
      addLastSamples();
      off = true;
      LocalTasks.stop(localTasks);
      executions.emitChanged();
    } finally {
      off = true;
      emitted.countDown();
    }
  }

  /** Takes samples, from any thread. If too many wait they are dropped: the others are still true. */
  void offer(TaskSamples ofStage) {
    if (!off) samples.offer(ofStage);
  }

  private void addSamples() {
    for (TaskSamples each = samples.poll(); each != null; each = samples.poll()) executions.samples(each);
  }

  /** Adds those, too, that the sampler of local mode has not handed over. */
  private void addLastSamples() {
    if (sampler != null) sampler.send();
    addSamples();
  }

  private void expectTasks() {
    boolean isExpected = !executions.isIdle();
    if (isExpected == isBusy) return;
    isBusy = isExpected;
    if (isBusy && sampler != null) sampler.wake();
  }

  @Override
  public void onApplicationStart(SparkListenerApplicationStart event) {
    if (off || applicationKnown) return;
    try {
      String id = text(event.appId());
      applicationStarted(id, text(event.appAttemptId()), event.appName(), event.sparkUser(), event.time());
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    if (consumer == null || application.endedAt != null) return;
    try {
      isPaused = false;
      clock.interrupt();
      emitLast();
      application.endedAt = event.time();
      if (applicationKnown) consumer.close(settings.shutdownTimeoutMs);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (off) return;
    try {
      if (!applicationKnown) applicationMissed();
      addSamples();
      if (event instanceof SparkListenerSQLExecutionStart) {
        if (!joining && !leaving) events.start((SparkListenerSQLExecutionStart) event);
      } else if (event instanceof SparkListenerSQLAdaptiveExecutionUpdate) {
        events.adaptiveUpdate((SparkListenerSQLAdaptiveExecutionUpdate) event);
      } else if (event instanceof SparkListenerSQLAdaptiveSQLMetricUpdates) {
        events.metricUpdates((SparkListenerSQLAdaptiveSQLMetricUpdates) event);
      } else if (event instanceof SparkListenerDriverAccumUpdates) {
        events.driverUpdates((SparkListenerDriverAccumUpdates) event);
      } else if (event instanceof SparkListenerSQLExecutionEnd) {
        events.end((SparkListenerSQLExecutionEnd) event);
      } else if (event instanceof Marker) {
        Marker marker = (Marker) event;
        if (marker.listener == this) marker.asked.run();
      } else {
        events.other(event);
      }
      expectTasks();
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart event) {
    if (off) return;
    try {
      events.jobStart(event);
      expectTasks();
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd event) {
    if (off) return;
    try {
      events.jobEnd(event);
      expectTasks();
      if (leaving) leaveIfDone(true);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    if (off) return;
    try {
      findExecutors();
      events.stageSubmitted(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted event) {
    if (off) return;
    try {
      events.stageCompleted(event);
      addLastSamples();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onExecutorAdded(SparkListenerExecutorAdded event) {
    if (off) return;
    try {
      findExecutors();
      events.executorAdded(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onExecutorRemoved(SparkListenerExecutorRemoved event) {
    if (off) return;
    try {
      findExecutors();
      events.executorRemoved(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  private void findExecutors() {
    if (!executorsMissed) return;
    executorsMissed = false;
    events.findExecutors();
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart event) {
    if (off) return;
    try {
      events.taskStart(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    if (off) return;
    try {
      events.taskEnd(event);
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
    if (off) return;
    try {
      events.heartbeat(event);
      addSamples();
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  /** Spark may drop any event, including the application's start. */
  private void applicationMissed() {
    SparkContext context = SparkAccess.activeContext();
    if (context != null) applicationStarted(context);
  }

  private void applicationStarted(SparkContext context) {
    String attempt = text(context.applicationAttemptId());
    applicationStarted(context.applicationId(), attempt, context.appName(), context.sparkUser(), context.startTime());
  }

  private static String text(Option<String> value) {
    return value.isEmpty() ? "" : value.get();
  }

  private void applicationStarted(String id, String attempt, String name, String user, long time) {
    if (id.isEmpty()) id = "unknown-" + time;
    application.id = id;
    application.attemptId = attempt;
    application.name = name;
    application.user = user;
    application.startedAt = time;
    applicationKnown = true;
    consumer.start();
    if (settings.isLocal && settings.sampleIntervalMs > 0)
      sampler = LocalTasks.start(localTasks, settings.sampleIntervalMs);
    if (delivers()) LOG.info("Joinsight sends documents of application {} to {}", id, settings.url);
    LOG.info("Joinsight {}", settings.sampling());
  }

  /**
   * Marks that progress is due, and ends a pause that is over: the state belongs to the bus's thread, which emits
   * progress at its next event.
   */
  private void tick() {
    while (true) {
      try {
        Thread.sleep(settings.progressIntervalMs);
        progressDue = true;
        resumeIfDue();
      } catch (InterruptedException stop) {
        return;
      } catch (Throwable t) {
        // Such as no memory to log: the next round may succeed
      }
    }
  }

  private void progressIfDue() {
    if (!progressDue) return;
    progressDue = false;
    executions.emitProgress(System.nanoTime());
  }

  private void failed(Throwable t) {
    if (application != null) application.failures++;
    int recent = failures.add();
    if (recent == 1) {
      log("Joinsight could not process an event; the job is not affected", t);
    } else if (recent >= FailureLimit.MAX && !off) {
      log("Joinsight pauses for an hour after " + recent + " failures; the job is not affected", t);
      pause();
      emitted.countDown();
    }
  }

  private void pause() {
    off = true;
    try {
      executions.abandonAll();
    } catch (Throwable t) {
      // This may be what fails
    }
    try {
      executions = executions.afterGap();
      isBusy = false;
      events = new SparkEvents(executions);
      executorsMissed = true;
      pausedAt = time.getAsLong();
      isPaused = true;
    } catch (Throwable t) {
      log("Joinsight is off; the job is not affected", t);
    }
  }

  private void resumeIfDue() {
    if (!isPaused || time.getAsLong() - pausedAt < FailureLimit.PERIOD) return;
    isPaused = false;
    off = false;
    LOG.warn("Joinsight measures again. Executions that started or ended during its pause are missing or incomplete");
  }

  private static void log(String message, Throwable t) {
    try {
      LOG.error(message, t);
    } catch (Throwable ignored) {
      // Nothing may reach the job
    }
  }
}
