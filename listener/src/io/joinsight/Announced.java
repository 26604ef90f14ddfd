package io.joinsight;

/** The metrics that an execution's plans announced: accumulator id to metric type; a later announcement wins. */
final class Announced {
  private final LongMap<String> types;
  private int version = 1;
  private Announced frozen;

  Announced() {
    this(new LongMap<>());
  }

  private Announced(LongMap<String> types) {
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

  /** Changes whenever a metric was added: whoever remembered that one was missing must look again. */
  int version() {
    return version;
  }

  /** What is announced by now, blind to what comes later. */
  Announced snapshot() {
    if (frozen == null) frozen = new Announced(new LongMap<>(types));
    return frozen;
  }
}
