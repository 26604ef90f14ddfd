package io.joinsight;

import java.util.Arrays;

/** A map from long to objects without boxes, for accumulator ids. Nothing is ever removed. */
final class LongMap<V> {
  private static final int LEAST = 16;

  private long[] keys;
  private Object[] values; // null: free
  private int size;

  LongMap() {
    keys = new long[LEAST];
    values = new Object[LEAST];
  }

  LongMap(LongMap<V> other) {
    keys = other.keys.clone();
    values = other.values.clone();
    size = other.size;
  }

  int size() {
    return size;
  }

  /** The value of the key, or null. */
  @SuppressWarnings("unchecked")
  V get(long key) {
    return (V) values[place(key)];
  }

  /** Returns the value that the key had, or null. */
  @SuppressWarnings("unchecked")
  V put(long key, V value) {
    int place = place(key);
    V old = (V) values[place];
    keys[place] = key;
    values[place] = value;
    if (old == null && 2 * ++size > keys.length) grow();
    return old;
  }

  /** Where the key is, or the free place where it belongs. Ids follow each other, so they rarely collide. */
  private int place(long key) {
    int mask = keys.length - 1;
    int place = (int) (key ^ key >>> 32) & mask;
    while (values[place] != null && keys[place] != key) place = (place + 1) & mask;
    return place;
  }

  private void grow() {
    long[] oldKeys = keys;
    Object[] oldValues = values;
    keys = Arrays.copyOf(keys, 2 * keys.length);
    values = new Object[keys.length];
    for (int i = 0; i < oldKeys.length; i++) {
      if (oldValues[i] == null) continue;
      int place = place(oldKeys[i]);
      keys[place] = oldKeys[i];
      values[place] = oldValues[i];
    }
  }
}
