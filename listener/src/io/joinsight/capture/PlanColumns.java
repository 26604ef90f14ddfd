package io.joinsight.capture;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The columns that a plan declares: their names are structure, not literals. */
final class PlanColumns {
  /** Calls that declare a column outside of square brackets; Spark never makes them with a literal. */
  private static final Pattern DECLARING = Pattern.compile("(?:ExistenceJoin|isnotnull|isnull)\\(([^()]++)\\)");

  private static final Pattern SORTED = Pattern.compile(" (?:ASC|DESC) NULLS (?:FIRST|LAST)$");
  private static final Pattern PLAIN_NAME = Pattern.compile("[\\p{L}_][\\p{L}\\p{N}_.$]*+");

  /** Column names by expression id; an empty set if Spark named the column after its expression. */
  private final Map<String, Set<String>> namesById = new HashMap<>();

  private final Set<String> names = new HashSet<>();

  PlanColumns(Iterable<PlanNode> nodes) {
    Set<String> unnamed = new HashSet<>(); // ids of columns named after a literal
    for (PlanNode node : nodes) declare(node.simple, unnamed);
    for (String id : unnamed) namesById.get(id).clear();
    for (Set<String> known : namesById.values()) names.addAll(known);
  }

  boolean hasName(String name) {
    return names.contains(name);
  }

  boolean hasId(String id) {
    return namesById.containsKey(id);
  }

  boolean has(String id, String name) {
    return namesById.getOrDefault(id, Collections.emptySet()).contains(name);
  }

  /**
   * Adds the columns that an operator lists in square brackets: {@code [a#1, (b#2 + 1) AS c#3, d#4 ASC NULLS FIRST]}.
   */
  private void declare(String simple, Set<String> unnamed) {
    ArrayDeque<Integer> outer = new ArrayDeque<>(); // for each open list, the depth of parentheses around it
    int depth = 0;
    int start = 0;
    for (int at = 0; at < simple.length(); at++) {
      char c = simple.charAt(at);
      if (c == '(') depth++;
      if (c == ')') depth--;
      boolean bounds = c == '[' || c == ']' || c == ',' && depth == 0;
      if (!bounds) continue;
      if (depth == 0 && !outer.isEmpty()) element(simple.substring(start, at).trim(), unnamed);
      start = at + 1;
      if (c == '[') {
        outer.push(depth);
        depth = 0;
      } else if (c == ']' && !outer.isEmpty()) {
        depth = outer.pop();
      }
    }
    Matcher m = DECLARING.matcher(simple);
    while (m.find()) element(m.group(1), unnamed);
  }

  private void element(String element, Set<String> unnamed) {
    if (PlanTexts.ID.matcher(element).matches()) return;
    String column = " " + SORTED.matcher(element).replaceFirst("");
    int alias = column.lastIndexOf(" AS ");
    Matcher m = PlanTexts.COLUMN.matcher(alias < 0 ? column.trim() : column.substring(alias + 4));
    if (!m.matches()) return;
    String name = m.group(1);
    Set<String> known = namesById.computeIfAbsent(m.group(2), id -> new HashSet<>());
    if (alias > 0 && column.substring(1, alias).equals(name))
      unnamed.add(m.group(2)); // SELECT 'alice': alice AS alice#7
    if (PLAIN_NAME.matcher(name).matches()) known.add(name);
  }
}
