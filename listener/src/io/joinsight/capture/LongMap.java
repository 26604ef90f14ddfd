package io.joinsight.capture;

import java.util.Arrays;

/** A map from accumulator ids to objects, without boxing the ids. Entries are never removed. */
final class LongMap<V> {
  private static final int MIN_CAPACITY = 16;

  private long[] keys;
  private Object[] values; // null: the slot is free
  private int size;

  LongMap() {
    keys = new long[MIN_CAPACITY];
    values = new Object[MIN_CAPACITY];
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
    return (V) values[slot(key)];
  }

  /** Returns the key's previous value, or null. */
  @SuppressWarnings("unchecked")
  V put(long key, V value) {
    int slot = slot(key);
    V old = (V) values[slot];
    keys[slot] = key;
    values[slot] = value;
    if (old == null && 2 * ++size > keys.length) grow();
    return old;
  }

  /** The key's slot, or the free slot for it. Ids are mostly consecutive, so they rarely collide. */
  private int slot(long key) {
    int mask = keys.length - 1;
    int slot = (int) (key ^ key >>> 32) & mask;
    while (values[slot] != null && keys[slot] != key) slot = (slot + 1) & mask;
    return slot;
  }

  private void grow() {
    long[] oldKeys = keys;
    Object[] oldValues = values;
    keys = Arrays.copyOf(keys, 2 * keys.length);
    values = new Object[keys.length];
    for (int i = 0; i < oldKeys.length; i++) {
      if (oldValues[i] == null) continue;
      int slot = slot(oldKeys[i]);
      keys[slot] = oldKeys[i];
      values[slot] = oldValues[i];
    }
  }
}
