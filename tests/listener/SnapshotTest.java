package io.joinsight.capture;

import static io.joinsight.Check.check;

import java.util.Collections;

/** The queue's limit includes the texts of a snapshot. */
public final class SnapshotTest {
  public static void main(String[] arguments) {
    LiveExecution e = new LiveExecution(1);
    long without = new Snapshot(e, Collections.emptyList(), null).heapBytes;
    e.statement = String.join("", Collections.nCopies(5000, "x"));
    check(new Snapshot(e, Collections.emptyList(), null).heapBytes == without + 5000, "statement");
    e.error = "broken";
    check(new Snapshot(e, Collections.emptyList(), null).heapBytes == without + 5006, "error");
    System.out.println("ok");
  }
}
