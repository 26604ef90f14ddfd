package io.joinsight.redaction;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** Recognises words that name a secret, by redaction.json and by Spark's patterns for properties and options. */
final class SecretNames {
  private static final List<RedactionRules.Rule> NAMES = RedactionRules.rules("names");
  private static final Pattern CIPHER = RedactionRules.pattern("ciphers");
  private static final List<String> STEMS = stems();

  private final UserPattern properties;
  private final UserPattern options;

  SecretNames(UserPattern properties, UserPattern options) {
    this.properties = properties;
    this.options = options;
  }

  private static List<String> stems() {
    List<String> stems = new ArrayList<>(RedactionRules.stems("ciphers"));
    stems.addAll(RedactionRules.stems("defaults"));
    for (RedactionRules.Rule name : NAMES) stems.addAll(name.stems);
    return stems;
  }

  boolean contains(String word) {
    return isName(word) || properties.find(word) || options.find(word);
  }

  private static boolean isName(String word) {
    String lower = word.toLowerCase(Locale.ROOT);
    for (RedactionRules.Rule name : NAMES) {
      if (name.mayMatch(lower) && name.pattern.matcher(word).find()) return true;
    }
    return false;
  }

  /** Whether the word names a function that takes a key. */
  static boolean isCipher(String word) {
    return CIPHER.matcher(word).find();
  }

  /** Whether the text may contain a secret's name or a cipher; most texts do not. */
  boolean mayBeIn(String text) {
    if (properties != UserPattern.SPARK_PROPERTIES || options != UserPattern.SPARK_OPTIONS) return true;
    if (!RedactionRules.containsAny(text.toLowerCase(Locale.ROOT), STEMS)) return false;
    return contains(text) || isCipher(text);
  }
}
