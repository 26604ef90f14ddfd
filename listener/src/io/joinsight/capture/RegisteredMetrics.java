package io.joinsight.capture;

/** The types of the metrics that an execution's plans register, by accumulator id; the latest type wins. */
final class RegisteredMetrics {
  private final LongMap<String> types;
  private int version = 1;
  private RegisteredMetrics frozen;

  RegisteredMetrics() {
    this(new LongMap<>());
  }

  private RegisteredMetrics(LongMap<String> types) {
    this.types = types;
  }

  void add(long id, String type) {
    String old = types.put(id, type);
    if (!type.equals(old)) {
      version++;
      frozen = null;
    }
  }

  boolean has(long id) {
    return types.get(id) != null;
  }

  boolean isEmpty() {
    return types.size() == 0;
  }

  String type(long id) {
    return types.get(id);
  }

  /** Changes when a metric is added, so that a failed lookup that was cached can be repeated. */
  int version() {
    return version;
  }

  /** The metrics registered so far; later ones do not appear in it. */
  RegisteredMetrics snapshot() {
    if (frozen == null) frozen = new RegisteredMetrics(new LongMap<>(types));
    return frozen;
  }
}
