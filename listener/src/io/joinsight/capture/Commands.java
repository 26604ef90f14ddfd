package io.joinsight.capture;

import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What a command does whose plan is only its name, such as Delta's {@code Execute MergeIntoCommand}. Spark
 * tells it in the description of the plan: {@code (2) MergeIntoCommand}, below it its arguments.
 */
public final class Commands {
  private static final String EXECUTE = "Execute ";
  public static final String START = "== Physical Plan ==\n" + EXECUTE;

  /** The keys of a command's arguments and of the table or path that it changes, among a node's metadata. */
  static final String KEY = "Command";
  static final String TABLE_KEY = "Table";

  private static final String ARGUMENTS = "\nArguments: ";
  private static final int MAX_LENGTH = 4000;
  private static final int MAX_READ = 1 << 16;

  /** A quoted name, but not of a nested column to which the command assigns something. */
  private static final Pattern TABLE = Pattern.compile("`[^`\n]{1,200}+`(?:\\.`[^`\n]{1,200}+`){1,3}+(?! =)");
  private static final Pattern FIRST = Pattern.compile("`[^`\n]{1,200}+`(?:\\.`[^`\n]{1,200}+`){0,3}+(?=,)");
  private static final Pattern DESCRIBED = Pattern.compile("\nDatabase: ([^\\s,]{1,200}+)\nTable: ([^\\s,]{1,200}+)");
  private static final Pattern PATH =
      Pattern.compile("(?:(?<=[ \\[]path=)|(?<=Delta\\[version=[0-9]{1,18}, ))[^,\\]\\s]{1,500}+"); // not of a literal
  private static final Pattern ALIAS = Pattern.compile("SubqueryAlias\nArguments: ([^\n]{1,200}+)");

  private Commands() {}

  /** Adds a command's arguments and table to the node that is its whole plan; the description may be null. */
  public static void addTo(PlanNode root, String description) {
    if (description == null || !description.startsWith(START) || !root.children.isEmpty()) return;
    if (!root.simple.trim().equals(root.name.trim())) return;
    int inputs = description.indexOf("\n(2) "); // and the command itself, where these are others
    int own = description.indexOf(") " + root.name.trim().substring(EXECUTE.length()) + ARGUMENTS, inputs);
    if (inputs < 0 || own < 0) return;
    int start = description.indexOf(ARGUMENTS, own) + ARGUMENTS.length();
    int end = description.indexOf("\n\n", start);
    String arguments = description.substring(start, Math.min(end < 0 ? description.length() : end, start + MAX_LENGTH));
    root.metadata = new TreeMap<>(root.metadata);
    root.metadata.put(KEY, arguments.trim());
    Matcher first = FIRST.matcher(arguments);
    String told = description.substring(inputs, Math.min(description.length(), inputs + MAX_READ));
    String table = first.lookingAt() ? first.group() : table(told);
    if (table != null) root.metadata.put(TABLE_KEY, table);
  }

  private static String table(String text) {
    Matcher table = TABLE.matcher(text);
    if (table.find()) return table.group();
    Matcher described = DESCRIBED.matcher(text);
    if (described.find()) return described.group(1) + "." + described.group(2);
    Matcher path = PATH.matcher(text);
    if (path.find()) return path.group();
    Matcher alias = ALIAS.matcher(text);
    return alias.find() ? alias.group(1) : null;
  }
}
