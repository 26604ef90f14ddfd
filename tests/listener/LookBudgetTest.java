package io.joinsight.sampling;

import static io.joinsight.Check.check;

import java.util.Random;

/** The time that looks at stacks take is bounded, and looks that only wait for a processor do not count. */
public final class LookBudgetTest {
  private static final long MS = 1_000_000;
  private static final long INTERVAL = 50 * MS;

  public static void main(String[] arguments) {
    manyThreads();
    busyMachine();
    slowStart();
    waitsAtTheStart();
    stacksThatGrow();
    System.out.println("ok");
  }

  /** 500 threads with deep stacks stop for 100 ms, for 19 ms of CPU time. */
  private static void manyThreads() {
    Simulation simulation = new Simulation();
    while (simulation.now < 3_600_000 * MS) simulation.look(500, 100 * MS, 100 * MS, 19 * MS);
    check(simulation.stopped <= simulation.now / 100 + 200 * MS, simulation + " stopped");
    check(simulation.looks > 300, "too few looks: " + simulation);
  }

  /** Nearly all looks wait for a processor, for up to 20 ms; they are about as frequent as on an idle machine. */
  private static void busyMachine() {
    Random dice = new Random(1);
    Simulation simulation = new Simulation();
    for (int i = 0; i < 10_000; i++) {
      simulation.look(4, MS / 5, i % 16 == 0 ? MS / 5 : dice.nextInt((int) (20 * MS)), MS / 7);
    }
    check(simulation.now < 10_000 * (INTERVAL + 10 * MS) * 11 / 10, "too few looks: " + simulation);
  }

  /** The first looks of a JVM take long. */
  private static void slowStart() {
    Simulation simulation = new Simulation();
    simulation.look(2, 40 * MS, 40 * MS, 40 * MS);
    simulation.look(2, 20 * MS, 20 * MS, 20 * MS);
    check(simulation.now < 250 * MS, simulation + " until the third");
  }

  /** The first look waits for a processor for a second; it costs no more than those after it show. */
  private static void waitsAtTheStart() {
    Simulation simulation = new Simulation();
    simulation.look(2, MS / 5, 1_000 * MS, MS);
    for (int i = 0; i < 100; i++) simulation.look(2, MS / 5, MS / 5, MS / 7);
    check(simulation.now < 100 * (INTERVAL + MS) + 2_500 * MS, "too few looks: " + simulation);
  }

  private static void stacksThatGrow() {
    Simulation simulation = new Simulation();
    for (int i = 0; i < 100; i++) simulation.look(100, MS / 10, MS / 10, MS / 10);
    long before = simulation.now;
    simulation.stopped = 0;
    while (simulation.now < before + 3_600_000 * MS) simulation.look(100, 50 * MS, 50 * MS, MS);
    check(simulation.stopped <= (simulation.now - before) / 100 + 2_000 * MS, simulation + " stopped");
  }

  private static final class Simulation {
    final LookBudget budget = new LookBudget(0);
    long now;
    long stopped;
    int looks;

    void look(int threads, long stops, long duration, long cpu) {
      now += duration;
      stopped += stops;
      looks++;
      now += Math.max(INTERVAL, budget.spend(threads, duration, cpu, now));
    }

    @Override
    public String toString() {
      return stopped / MS + " of " + now / MS + " ms, " + looks + " looks";
    }
  }
}
