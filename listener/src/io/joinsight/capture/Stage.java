package io.joinsight.capture;

/** An attempt of a stage, from an event. */
public final class Stage {
  private static final int[] NONE = {};

  final int id;
  final int attempt;
  final String name;
  final int tasks;
  public int[] parents = NONE; // ids of the stages whose shuffles it reads
  public int rdd = -1; // id of the RDD that it computes; stages of several jobs that compute the same one share it
  public int profile = TaskSlots.DEFAULT_PROFILE; // id of its resource profile
  public Long submittedAt;
  public Long completedAt;
  public String failure; // null if it did not fail

  public Stage(int id, int attempt, String name, int tasks) {
    this.id = id;
    this.attempt = attempt;
    this.name = name;
    this.tasks = tasks;
  }
}
