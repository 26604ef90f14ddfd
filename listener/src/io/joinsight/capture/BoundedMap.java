package io.joinsight.capture;

import java.util.LinkedHashMap;
import java.util.Map;

/** A map in the order of its first puts, which removes its eldest key instead of holding more than so many. */
final class BoundedMap<K, V> extends LinkedHashMap<K, V> {
  private static final long serialVersionUID = 1;
  private final int most;

  BoundedMap(int most) {
    this.most = most;
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
    return size() > most;
  }
}
