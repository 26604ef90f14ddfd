package io.joinsight;

import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.execution.SparkPlanInfo;

/**
 * The texts of one document's plan nodes as they may leave the driver.
 *
 * <p>Spark writes literals without quotes: {@code Filter (name#1 = alice smith)}. So where literals must go, a word
 * stays only if it is known to be structure: a column that the plan itself declares, a function of Spark's, an
 * operator, a word of Spark's operators. All else becomes {@code ?}. Brackets and commas stay, so that exchanges and
 * joins read as before. Texts that differ stay different ({@code ?2}), so that no two subtrees become one.
 */
final class PlanTexts {
  private static final Pattern CODEGEN = Pattern.compile("WholeStageCodegen \\(\\d++\\)");

  /** {@code name#12L}; the name may be anything, the id is what makes it a column. */
  private static final Pattern COLUMN = Pattern.compile("(.*)#(\\d{1,10}L?)");

  /** Columns that no operator declares: Spark's own, and that of Range. */
  private static final Pattern INTERNAL =
      Pattern.compile("(?:scalar-)?subquery|dynamicpruning|exists|pythonUDF\\d+|obj|id");

  /** Where columns are declared outside of square brackets; Spark would not ask this of a literal. */
  private static final Pattern DECLARING = Pattern.compile("(?:ExistenceJoin|isnotnull|isnull)\\(([^()]++)\\)");

  private static final Pattern SORTED = Pattern.compile(" (?:ASC|DESC) NULLS (?:FIRST|LAST)$");
  private static final Pattern PLAIN_NAME = Pattern.compile("[\\p{L}_][\\p{L}\\p{N}_.$]*+");

  /** The number of partitions, which ends what an Exchange says of its partitioning. */
  private static final Pattern PARTITIONS =
      Pattern.compile("[(, ](\\d{1,10}+)\\)(?:, [A-Z][A-Za-z_]*+)++(?:, \\[plan_id=\\d++\\])?+$");

  /** What a number may follow, for not being a literal. */
  private static final Pattern BEFORE_NUMBER =
      Pattern.compile("(?:input\\[|QueryStage |decimal\\((?:\\d+,)?|char\\(|[ (\\[,]\\.\\.\\. )$");

  private static final Pattern BEFORE_ONE = Pattern.compile("count\\($");
  private static final Pattern BEFORE_NAME =
      Pattern.compile(
          "(?:IsNotNull|IsNull|EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual|In"
              + "|StringStartsWith|StringEndsWith|StringContains)\\($");
  private static final Pattern NUMBER = Pattern.compile("\\d{1,10}");
  private static final Pattern ID = Pattern.compile("plan_id=\\d+|id=#\\d+");
  private static final Pattern ARGUMENT = Pattern.compile("(?:keys?|functions|output|orderBy|limit|step|splits|isFinalPlan)=");
  private static final Pattern KNOWN_ARGUMENT = Pattern.compile("splits=\\d{1,10}|isFinalPlan=(?:true|false)");
  private static final Pattern OF_SPARK = Pattern.compile("(?:org\\.apache\\.spark|java\\.lang)\\.[A-Za-z_.$]+");
  private static final Pattern STEP = Pattern.compile("(?:partial_|merge_|finalmerge_)+");

  private static final Set<String> OPERATORS =
      words("= <=> < > <= >= + - * / % & | ^ ~ || AND OR NOT IN INSET LIKE ILIKE RLIKE IS AS ASC DESC CASE WHEN THEN ELSE END else");

  /** Words of Spark's operators; they stay where structure stands before them. */
  private static final Set<String> WORDS =
      words(
          "NULLS FIRST LAST NULL null true false as if class input ... more fields List Some None"
              + " Inner Cross LeftOuter RightOuter FullOuter LeftSemi LeftAnti LeftSingle ExistenceJoin BuildLeft BuildRight"
              + " hashpartitioning nullawarehashpartitioning rangepartitioning RoundRobinPartitioning SinglePartition UnknownPartitioning"
              + " ENSURE_REQUIREMENTS REPARTITION_BY_COL REPARTITION_BY_NUM REBALANCE_PARTITIONS_BY_NONE"
              + " REBALANCE_PARTITIONS_BY_COL REQUIRED_BY_STATEFUL_OPERATOR HashedRelationBroadcastMode IdentityBroadcastMode"
              + " coalesced skewed local Partial Final windowspecdefinition specifiedwindowframe RowFrame RangeFrame"
              + " unboundedpreceding$ unboundedfollowing$ currentrow$"
              + " knownfloatingpointnormalized normalizenanandzero cast try_cast ansi_cast static_invoke staticinvoke invoke"
              + " createexternalrow dynamicpruningexpression might_contain bloom_filter_agg scalarsubquery xxhash64 named_struct EndsWith StartsWith"
              + " Contains startswith endswith contains promote_precision checkoverflow precisedecimal IF"
              + " IsNotNull IsNull EqualTo EqualNullSafe GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual In Not And Or"
              + " StringStartsWith StringEndsWith StringContains AlwaysTrue AlwaysFalse"
              + " string binary boolean tinyint smallint int bigint float double decimal date timestamp timestamp_ntz char varchar"
              + " interval void variant ObjectType StructField"
              + " Batched: DataFilters: Format: Location: PartitionFilters: PushedFilters: PushedAggregation: PushedGroupBy:"
              + " PushedVariantExtractions: ReadSchema: RuntimeFilters: Parquet ORC CSV JSON Text parquet orc csv json text"
              + " InMemoryFileIndex CatalogFileIndex ParquetScan"
              + " Overwrite Append ErrorIfExists Ignore Complete Update"
              + " AQEShuffleRead AdaptiveSparkPlan Aggregate BroadcastExchange BroadcastHashJoin BroadcastNestedLoopJoin"
              + " BroadcastQueryStage CartesianProduct CollectLimit EmptyRelation Exchange Expand FileScan Filter Generate"
              + " HashAggregate Join LocalTableScan LogicalQueryStage ObjectHashAggregate Project Range Relation ResultQueryStage"
              + " ReusedExchange ReusedSubquery Scan ShuffleQueryStage ShuffledHashJoin Sort SortAggregate SortMergeAsOfJoin SortMergeJoin Subquery"
              + " ProjectedBroadcastValueSubquery SubqueryAdaptiveBroadcast SubqueryBroadcast TableCacheQueryStage Union Window");

  /** Metadata of scans in which no literal stands. A location keeps its partitions' values. */
  private static final Set<String> PLAIN_METADATA = words("Batched Format Location ReadSchema");

  private final Redaction redaction;
  private final boolean redactsLiterals;

  /** The columns' names by expression id; none where Spark named a column after its expression. */
  private final Map<String, Set<String>> columns = new HashMap<>();

  /** Ids of columns that are named after a literal. */
  private final Set<String> unnamed = new HashSet<>();

  private final Set<String> names = new HashSet<>();
  private final Map<String, String> redacted = new HashMap<>();
  private final Map<String, Integer> uses = new HashMap<>();

  PlanTexts(Redaction redaction, Iterable<SparkPlanInfo> nodes) {
    this.redaction = redaction;
    this.redactsLiterals = redaction.redactsLiterals;
    if (redactsLiterals) for (SparkPlanInfo node : nodes) declare(node.simpleString());
    for (String id : unnamed) columns.get(id).clear();
    for (Set<String> known : columns.values()) names.addAll(known);
  }

  private static Set<String> words(String words) {
    return new HashSet<>(Arrays.asList(words.split(" ")));
  }

  String name(String name) {
    return CODEGEN.matcher(name).matches() ? name : redaction.statement(name);
  }

  /** Spark's simple string; {@code name} is the node's. */
  String simple(String name, String simple) {
    return redacted.computeIfAbsent(simple, raw -> redactsLiterals ? apart(withoutLiterals(name, raw)) : redaction.text(raw));
  }

  Map<String, String> metadata(Map<String, String> raw) {
    Map<String, String> out = new TreeMap<>();
    for (Map.Entry<String, String> entry : raw.entrySet()) {
      String text = redaction.text(entry.getValue());
      boolean plain = !redactsLiterals || PLAIN_METADATA.contains(entry.getKey());
      out.put(entry.getKey(), plain ? text : structure("", text, -1));
    }
    return out;
  }

  private String withoutLiterals(String name, String simple) {
    if (CODEGEN.matcher(simple).matches()) return simple;
    String text = redaction.text(simple);
    for (String start : new String[] {name, "File" + name}) { // a scan named "Scan parquet t" writes "FileScan parquet t"
      if (!name.isEmpty() && text.startsWith(start)) {
        int partitions = partitions(name, text) - start.length();
        return structure(Literals.inStatement(start), text.substring(start.length()), partitions);
      }
    }
    return structure("", text, partitions(name, text));
  }

  private static int partitions(String name, String text) {
    if (!name.endsWith("Exchange")) return -1;
    Matcher m = PARTITIONS.matcher(text);
    return m.find() ? m.start(1) : -1;
  }

  /** Two texts that were different must not be equal: the collector draws equal exchanges once. */
  private String apart(String text) {
    int use = uses.merge(text, 1, Integer::sum);
    int gone = text.lastIndexOf(Literals.GONE);
    return use == 1 || gone < 0 ? text : text.substring(0, gone + 1) + use + text.substring(gone + 1);
  }

  /** Finds columns where operators list them in square brackets: {@code [a#1, (b#2 + 1) AS c#3, d#4 ASC NULLS FIRST]}. */
  private void declare(String simple) {
    ArrayDeque<Integer> outer = new ArrayDeque<>(); // for each open list, the depth of parentheses around it
    int depth = 0;
    int start = 0;
    for (int at = 0; at < simple.length(); at++) {
      char c = simple.charAt(at);
      if (c == '(') depth++;
      if (c == ')') depth--;
      boolean bounds = c == '[' || c == ']' || c == ',' && depth == 0;
      if (!bounds) continue;
      if (depth == 0 && !outer.isEmpty()) element(simple.substring(start, at).trim());
      start = at + 1;
      if (c == '[') {
        outer.push(depth);
        depth = 0;
      } else if (c == ']' && !outer.isEmpty()) {
        depth = outer.pop();
      }
    }
    Matcher m = DECLARING.matcher(simple);
    while (m.find()) element(m.group(1));
  }

  private void element(String element) {
    if (ID.matcher(element).matches()) return;
    String column = " " + SORTED.matcher(element).replaceFirst("");
    int alias = column.lastIndexOf(" AS ");
    Matcher m = COLUMN.matcher(alias < 0 ? column.trim() : column.substring(alias + 4));
    if (!m.matches()) return;
    String name = m.group(1);
    Set<String> known = columns.computeIfAbsent(m.group(2), id -> new HashSet<>());
    if (alias > 0 && column.substring(1, alias).equals(name)) unnamed.add(m.group(2)); // SELECT 'alice': alice AS alice#7
    if (PLAIN_NAME.matcher(name).matches()) known.add(name);
  }

  /** {@code done}, then the text with all that is not known replaced; a number at {@code partitions} stays. */
  private String structure(String done, String text, int partitions) {
    StringBuilder out = new StringBuilder(done);
    int afterGone = -1; // where `out` ends if only blanks follow what went
    for (int at = 0; at < text.length(); ) {
      int start = at;
      while (at < text.length() && !isDelimiter(text.charAt(at))) at++;
      if (at == start) {
        char c = text.charAt(at++);
        out.append(c);
        if (!Character.isWhitespace(c)) afterGone = -1;
        continue;
      }
      char next = at < text.length() ? text.charAt(at) : 0;
      String kept = start == partitions ? text.substring(start, at) : kept(text.substring(start, at), out, next, afterGone >= 0);
      boolean isGone = kept.startsWith(Literals.GONE);
      if (isGone && afterGone >= 0) out.setLength(afterGone - 1); // several in a row are one
      out.append(kept);
      afterGone = kept.equals(Literals.GONE) ? out.length() : -1;
    }
    return out.toString();
  }

  private static boolean isDelimiter(char c) {
    return Character.isWhitespace(c) || "()[]{},".indexOf(c) >= 0;
  }

  /** What stays of a word that is followed by {@code next} and stands behind {@code out}. */
  private String kept(String word, StringBuilder out, char next, boolean isAfterGone) {
    if (OPERATORS.contains(word) && (Character.isWhitespace(next) || word.equals("END"))) return word;
    String before = out.substring(Math.max(0, out.length() - 24));
    if (before.endsWith("[") && next == ']' && ID.matcher(word).matches()) return word;
    Matcher column = COLUMN.matcher(word.endsWith(":") ? word.substring(0, word.length() - 1) : word);
    if (column.matches()) return column(word, column.group(1), column.group(2), out);
    if (isAfterGone) return Literals.GONE;
    if (WORDS.contains(word) || next == '(' && isFunction(STEP.matcher(word).replaceFirst(""))) return word;
    if (word.startsWith("*") && WORDS.contains(word.substring(1))) return word; // a filter that the source applies
    if (NUMBER.matcher(word).matches()) {
      boolean known = BEFORE_NUMBER.matcher(before).find() || word.equals("1") && BEFORE_ONE.matcher(before).find();
      return known ? word : Literals.GONE;
    }
    if (names.contains(word) && BEFORE_NAME.matcher(before).find()) return word;
    if (KNOWN_ARGUMENT.matcher(word).matches() || OF_SPARK.matcher(word).matches()) return word;
    Matcher argument = ARGUMENT.matcher(word);
    if (argument.matches()) return word;
    return argument.lookingAt() ? argument.group() + Literals.GONE : Literals.GONE;
  }

  private String column(String word, String name, String id, StringBuilder out) {
    if (INTERNAL.matcher(name).matches()) return word;
    boolean isOfExpression = name.isEmpty() && out.length() > 0 && out.charAt(out.length() - 1) == ')';
    if (isOfExpression) return word;
    Set<String> known = columns.get(id);
    if (known == null) return Literals.GONE;
    return known.contains(name) ? word : Literals.GONE + "#" + id;
  }

  /** Read when the first plan is: only then are Spark's functions surely loaded, and only for this. */
  private static final class Functions {
    static final Set<String> NAMES = SparkAccess.functions();
  }

  private static boolean isFunction(String name) {
    return WORDS.contains(name) || Functions.NAMES.contains(name.toLowerCase(Locale.ROOT));
  }
}
