package io.joinsight;

/** An attempt of a stage, from an event. */
final class Stage {
  final int id;
  final int attempt;
  final String name;
  final int tasks;
  Long submittedAt;
  Long completedAt;
  String failure; // null if it did not fail

  Stage(int id, int attempt, String name, int tasks) {
    this.id = id;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
  }
}
