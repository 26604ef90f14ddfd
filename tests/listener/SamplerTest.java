package io.joinsight.sampling;

import static io.joinsight.Check.check;

import java.io.IOException;
import java.lang.management.ThreadInfo;
import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** A sampler that fails goes on: a look that throws, and samples that cannot be handed over. */
public final class SamplerTest {
  /** Stacks with a class of this name are those of tasks. */
  private static final class GeneratedIteratorForCodegenStage1 {
    static boolean await(CountDownLatch latch) throws InterruptedException {
      return latch.await(1, TimeUnit.MINUTES);
    }
  }

  public static void main(String[] arguments) throws InterruptedException {
    AtomicInteger looks = new AtomicInteger();
    AtomicInteger handedOver = new AtomicInteger();
    CountDownLatch taken = new CountDownLatch(1);
    Sampler.Task task = new Sampler.Task(3, 0, null);
    Map<Long, Sampler.Task> running = Collections.singletonMap(Thread.currentThread().getId(), task);
    Sampler.Tasks tasks = new Sampler.Tasks() {
      @Override
      public boolean areExpected() {
        return true;
      }

      @Override
      public Map<Long, Sampler.Task> running() {
        if (looks.incrementAndGet() == 1) throw new IllegalStateException("the first look fails");
        return running;
      }

      @Override
      public boolean isRunning(Sampler.Task each, ThreadInfo thread) {
        return true;
      }
    };
    Sampler sampler = new Sampler(10, tasks, samples -> {
      if (handedOver.incrementAndGet() == 1) throw new IOException("the driver is away");
      check(samples.stageId == 3, "the samples are of another stage");
      taken.countDown();
    });
    sampler.start();
    check(GeneratedIteratorForCodegenStage1.await(taken), "nothing was handed over after a failure");
    check(!sampler.isStopped(), "it has stopped");
    sampler.stop();
    System.out.println("ok");
  }
}
