package io.joinsight;

import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
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
 * Attached with {@code spark.extraListeners=io.joinsight.JoinsightListener}; measures every SQL execution of the
 * application and reports it to the collector at {@code spark.joinsight.url}.
 *
 * <p>It can't harm the job: the constructor never throws, no callback lets anything out or waits, and after
 * {@link #MAX_FAILURES} failures of its own it is off. Callbacks come from one thread, the bus's.
 */
public final class JoinsightListener extends SparkListener {
  private static final Logger LOG = LoggerFactory.getLogger("io.joinsight");
  private static final int MAX_FAILURES = 10;

  private volatile boolean off = true;
  private String problem; // why it is off from the start; null: it is not
  private Settings settings;
  private Documents.Application application;
  private Executions executions;
  private Sender sender;
  private boolean applicationKnown;
  private int failures;
  private volatile boolean progressDue;
  private Thread clock;

  /** Spark calls this while the SparkContext starts; the application's id is not known yet. */
  public JoinsightListener(SparkConf conf) {
    try {
      if (!conf.getBoolean(Settings.ENABLED, true)) {
        problem = Settings.ENABLED + " is false";
        return;
      }
      SparkAccess.check();
      settings = new Settings(conf);
      if (!settings.problems.isEmpty()) {
        problem = String.join("; ", settings.problems);
        LOG.error("Joinsight is off, the job runs without it: {}", problem);
        return;
      }
      application = new Documents.Application(settings);
      sender = new Sender(settings, new Documents(settings, application));
      executions = new Executions(settings, sender::offer);
      clock = new Thread(this::tick, "joinsight-clock");
      clock.setDaemon(true);
      clock.start();
      off = false;
    } catch (Throwable t) {
      off = true;
      problem = "it could not start: " + t;
      complain("Joinsight is off, the job runs without it: it could not start", t);
    }
  }

  /** Why it measures nothing, and never did; null if it does. For {@code joinsight.attach}. */
  public String problem() {
    return problem;
  }

  /** Its settings where they are not those of {@code conf}, in words; empty if all are the same. */
  public String differing(SparkConf conf) {
    return settings.differing(conf);
  }

  /** Joins an application that runs already: this listener never sees it start. */
  public void join(SparkContext context) {
    applicationStarted(context);
    context.addSparkListener(this);
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
    if (sender == null || application.endedAt != null) return;
    try {
      off = true;
      clock.interrupt();
      executions.emitProgress();
      application.endedAt = event.time();
      if (applicationKnown) sender.close(settings.shutdownTimeoutMs);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (off) return;
    try {
      if (!applicationKnown) applicationMissed();
      if (event instanceof SparkListenerSQLExecutionStart) {
        executions.start((SparkListenerSQLExecutionStart) event);
      } else if (event instanceof SparkListenerSQLAdaptiveExecutionUpdate) {
        executions.adaptiveUpdate((SparkListenerSQLAdaptiveExecutionUpdate) event);
      } else if (event instanceof SparkListenerSQLAdaptiveSQLMetricUpdates) {
        executions.metricUpdates((SparkListenerSQLAdaptiveSQLMetricUpdates) event);
      } else if (event instanceof SparkListenerDriverAccumUpdates) {
        executions.driverUpdates((SparkListenerDriverAccumUpdates) event);
      } else if (event instanceof SparkListenerSQLExecutionEnd) {
        executions.end((SparkListenerSQLExecutionEnd) event);
      }
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart event) {
    if (off) return;
    try {
      executions.jobStart(event);
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd event) {
    if (off) return;
    try {
      executions.jobEnd(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted event) {
    if (off) return;
    try {
      executions.stageSubmitted(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onStageCompleted(SparkListenerStageCompleted event) {
    if (off) return;
    try {
      executions.stageCompleted(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onTaskStart(SparkListenerTaskStart event) {
    if (off) return;
    try {
      executions.taskStart(event);
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd event) {
    if (off) return;
    try {
      executions.taskEnd(event);
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  @Override
  public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate event) {
    if (off) return;
    try {
      executions.heartbeat(event);
      progressIfDue();
    } catch (Throwable t) {
      failed(t);
    }
  }

  /** Spark may drop any event, the application's start too. */
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
    sender.start();
    LOG.info("Joinsight reports application {} to {}", id, settings.url);
  }

  /** The clock's thread only raises a flag: the state belongs to the bus's thread, which acts at its next event. */
  private void tick() {
    try {
      while (true) {
        Thread.sleep(settings.progressIntervalMs);
        progressDue = true;
        sender.watch();
      }
    } catch (InterruptedException stop) {
      Thread.currentThread().interrupt();
    }
  }

  private void progressIfDue() {
    if (!progressDue) return;
    progressDue = false;
    executions.emitProgress();
  }

  private void failed(Throwable t) {
    failures++;
    if (application != null) application.failures = failures;
    if (failures == 1) {
      complain("Joinsight could not read an event; the job is not affected", t);
    } else if (failures >= MAX_FAILURES && !off) {
      off = true;
      complain("Joinsight is off after " + failures + " failures; the job is not affected", t);
    }
  }

  private static void complain(String what, Throwable t) {
    try {
      LOG.error(what, t);
    } catch (Throwable ignored) {
      // nothing more can be done, and nothing may get out
    }
  }
}
