package io.joinsight;

/** An attempt of a stage, from an event. */
final class Stage {
  private static final int[] NONE = {};

  final int id;
  final int attempt;
  final String name;
  final int tasks;
  int[] parents = NONE; // ids of the stages whose shuffles it reads
  int rdd = -1; // id of the RDD that it computes; stages of several jobs that compute the same one share it
  int profile = TaskSlots.DEFAULT_PROFILE; // id of its resource profile
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
