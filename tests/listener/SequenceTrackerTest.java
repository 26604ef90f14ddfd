package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;

/** Ranges are kept as a set would keep them. */
public final class SequenceTrackerTest {
  public static void main(String[] arguments) {
    numbers();
    superseded();
    givenUp();
    endedTwice();
    manyRanges();
    System.out.println("ok");
  }

  private static void numbers() {
    Random dice = new Random(1);
    for (int round = 0; round < 2_000; round++) {
      IdRanges numbers = new IdRanges();
      Set<Long> truth = new HashSet<>();
      for (int i = 0; i < 20; i++) {
        long first = 1 + dice.nextInt(30);
        if (dice.nextInt(6) == 0) {
          numbers.removeUpTo(first);
          truth.removeIf(number -> number <= first);
        } else {
          IdRanges more = new IdRanges();
          for (long n = first; n < first + 1 + dice.nextInt(4); n++) {
            more.add(n);
            truth.add(n);
          }
          numbers.addAll(more);
        }
        check(numbers.count() == truth.size() && numbers.isEmpty() == truth.isEmpty(), numbers + " is not " + truth);
        IdRanges again = numbers.copy();
        for (long n : truth) again.add(n);
        check(again.toString().equals(numbers.toString()), numbers + " is not " + truth);
      }
      String[] ends = numbers.toString().replaceAll("[{} ]", "").split("[=,]");
      for (int i = 2; i < ends.length; i += 2) {
        check(Long.parseLong(ends[i]) > Long.parseLong(ends[i - 1]) + 1, "ranges that touch: " + numbers);
      }
    }
  }

  private static void superseded() {
    SequenceTracker tracker = new SequenceTracker();
    SequenceTracker.SequenceNumber first = tracker.next(7, false);
    SequenceTracker.SequenceNumber second = tracker.next(7, false);
    tracker.next(8, false);
    check(tracker.next(7, false).supersedes.toString().equals("{1=2}"), "those of the same execution");
    tracker.arrived(Collections.singletonList(second));
    check(tracker.next(7, true).supersedes.toString().equals("{4=4}"), "what a newer one has superseded needs no more");
    check(first.supersedes.isEmpty() && tracker.made() == 5, "the first");
  }

  private static void givenUp() {
    SequenceTracker tracker = new SequenceTracker();
    tracker.next(7, false);
    List<SequenceTracker.SequenceNumber> last = Collections.singletonList(tracker.next(7, true));
    check(tracker.dropped("spool", last) == 2, "what it superseded goes with it");
    tracker.refused(last);
    check(tracker.refused().toString().equals("{1=2}"), "what it superseded goes with it");
  }

  private static void endedTwice() {
    SequenceTracker tracker = new SequenceTracker();
    tracker.next(7, true);
    check(tracker.next(7, true).supersedes.toString().equals("{1=1}"), "a job outlived it");
    for (int i = 0; i < 5_000; i++) tracker.next(100 + i, true);
    check(tracker.next(7, true).supersedes.isEmpty(), "those that ended are remembered for ever");
  }

  /** A set keeps its newest ranges, so that the documents that list them stay valid. */
  private static void manyRanges() {
    SequenceTracker tracker = new SequenceTracker();
    for (int i = 0; i < 2 * SequenceTracker.MAX_RANGES; i++) {
      tracker.dropped("spool", Collections.singletonList(tracker.next(2 * i, true)));
      tracker.next(2 * i + 1, true);
    }
    IdRanges dropped = tracker.dropped().get("spool");
    check(dropped.count() == SequenceTracker.MAX_RANGES, dropped.count() + " are reported");
    check(dropped.toString().contains(", " + (tracker.made() - 1) + "="), "not the newest");
  }
}
