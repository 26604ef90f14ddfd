package io.joinsight.bench;

import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * For bench/cost.py, as {@code spark.sql.extensions}: a rule that AQE applies when it optimizes the rest of a plan again,
 * and that is slow when asked to be.
 */
public final class SlowRule extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final AtomicLong NEXT_MS = new AtomicLong();

  /** The next time that AQE optimizes takes so much longer. */
  public static void delayNext(long ms) {
    NEXT_MS.set(ms);
  }

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectRuntimeOptimizerRule(session -> new Sleep());
    return BoxedUnit.UNIT;
  }

  private static final class Sleep extends Rule<LogicalPlan> {
    @Override
    public LogicalPlan apply(LogicalPlan plan) {
      try {
        Thread.sleep(NEXT_MS.getAndSet(0));
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
      return plan;
    }
  }
}
