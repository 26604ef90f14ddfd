package io.joinsight.capture;

import io.joinsight.redaction.Literals;
import io.joinsight.redaction.Redaction;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Redacts the texts of a document's plan nodes.
 *
 * <p>Spark writes literals without quotes: {@code Filter (name#1 = alice smith)}. So when literals are removed, a word
 * stays only if it is known to be structure: a column that the plan declares, a Spark function, an operator, a word
 * that Spark's operators use. Anything else becomes {@code ?}. Brackets and commas stay, to keep exchanges and joins
 * readable. Different texts stay different ({@code ?2}), so that no two subtrees become equal.
 */
final class PlanTexts {
  private static final Pattern CODEGEN = Pattern.compile("WholeStageCodegen \\(\\d++\\)");

  /** {@code name#12L}; the name may be anything, the id is what makes it a column. */
  static final Pattern COLUMN = Pattern.compile("(.*)#(\\d{1,10}L?)");

  /** Columns that no operator declares: those that Spark adds, and the one of Range. */
  private static final Pattern INTERNAL =
      Pattern.compile("(?:scalar-)?subquery|dynamicpruning|exists|pythonUDF\\d+|obj|id");

  /** The number of partitions, at the end of an Exchange's partitioning; native engines add more behind it. */
  private static final Pattern PARTITIONS =
      Pattern.compile("[(, ](\\d{1,10}+)\\)(?:, (?:[A-Z][A-Za-z_]*+|true|false))*+(?:, \\[[^\\[\\]]*+\\])*+$");

  /** Text before a number that shows that it is not a literal. */
  private static final Pattern BEFORE_NUMBER =
      Pattern.compile("(?:input\\[|QueryStage |decimal\\((?:\\d+,)?|char\\(|[ (\\[,]\\.\\.\\. )$");

  private static final Pattern BEFORE_ONE = Pattern.compile("count\\($");
  private static final Pattern BEFORE_NAME = Pattern.compile(
      "(?:IsNotNull|IsNull|EqualTo|EqualNullSafe|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual|In"
      + "|StringStartsWith|StringEndsWith|StringContains)\\($");
  private static final Pattern NUMBER = Pattern.compile("\\d{1,10}");
  static final Pattern ID = Pattern.compile("plan_id=\\d+|id=#\\d+");
  private static final Pattern ARGUMENT =
      Pattern.compile("(?:keys?|functions|output|orderBy|limit|step|splits|isFinalPlan)=");
  private static final Pattern KNOWN_ARGUMENT = Pattern.compile("splits=\\d{1,10}|isFinalPlan=(?:true|false)");
  private static final Pattern OF_SPARK = Pattern.compile("(?:org\\.apache\\.spark|java\\.lang)\\.[A-Za-z_.$]+");
  private static final Pattern STEP = Pattern.compile("(?:partial_|merge_|finalmerge_)+");

  private static final Set<String> OPERATORS = words(
      "= <=> < > <= >= + - * / % & | ^ ~ || AND OR NOT IN INSET LIKE ILIKE RLIKE IS AS ASC DESC CASE WHEN THEN"
      + " ELSE END else");

  /** Words that Spark's operators use; they stay after structure. */
  private static final Set<String> WORDS = words(
      "NULLS FIRST LAST NULL null true false as if class input ... more fields List Some None Inner Cross"
      + " LeftOuter RightOuter FullOuter LeftSemi LeftAnti LeftSingle ExistenceJoin BuildLeft BuildRight"
      + " hashpartitioning nullawarehashpartitioning rangepartitioning RoundRobinPartitioning SinglePartition"
      + " UnknownPartitioning ENSURE_REQUIREMENTS REPARTITION_BY_COL REPARTITION_BY_NUM"
      + " REBALANCE_PARTITIONS_BY_NONE REBALANCE_PARTITIONS_BY_COL REQUIRED_BY_STATEFUL_OPERATOR"
      + " HashedRelationBroadcastMode IdentityBroadcastMode coalesced skewed local Partial Final"
      + " windowspecdefinition specifiedwindowframe RowFrame RangeFrame unboundedpreceding$ unboundedfollowing$"
      + " currentrow$ knownfloatingpointnormalized normalizenanandzero cast try_cast ansi_cast static_invoke"
      + " staticinvoke invoke createexternalrow dynamicpruningexpression might_contain bloom_filter_agg"
      + " scalarsubquery xxhash64 named_struct EndsWith StartsWith Contains startswith endswith contains"
      + " promote_precision checkoverflow precisedecimal IF IsNotNull IsNull EqualTo EqualNullSafe GreaterThan"
      + " GreaterThanOrEqual LessThan LessThanOrEqual In Not And Or StringStartsWith StringEndsWith StringContains"
      + " AlwaysTrue AlwaysFalse string binary boolean tinyint smallint int bigint float double decimal date"
      + " timestamp timestamp_ntz char varchar interval void variant ObjectType StructField Batched: DataFilters:"
      + " Format: Location: PartitionFilters: PushedFilters: PushedAggregation: PushedGroupBy:"
      + " PushedVariantExtractions: ReadSchema: RuntimeFilters: Parquet ORC CSV JSON Text parquet orc csv json"
      + " text InMemoryFileIndex CatalogFileIndex ParquetScan Overwrite Append ErrorIfExists Ignore Complete"
      + " Update AQEShuffleRead AdaptiveSparkPlan Aggregate BroadcastExchange BroadcastHashJoin"
      + " BroadcastNestedLoopJoin BroadcastQueryStage CartesianProduct CollectLimit EmptyRelation Exchange Expand"
      + " FileScan Filter Generate HashAggregate Join LocalTableScan LogicalQueryStage ObjectHashAggregate Project"
      + " Range Relation ResultQueryStage ReusedExchange ReusedSubquery Scan ShuffleQueryStage ShuffledHashJoin"
      + " Sort SortAggregate SortMergeAsOfJoin SortMergeJoin Subquery ProjectedBroadcastValueSubquery"
      + " SubqueryAdaptiveBroadcast SubqueryBroadcast TableCacheQueryStage Union Window"
      + " CometNativeShuffle CometColumnarShuffle EXECUTOR_BROADCAST BroadcastLeft BroadcastRight"
      + " GpuBuildLeft GpuBuildRight gpuhashpartitioning gpurangepartitioning gpuroundrobinpartitioning"
      + " gpusinglepartitioning$ shuffle_writer_type=hash shuffle_writer_type=sort");

  /** Metadata of scans without literals. A location keeps the values of its partitions. */
  private static final Set<String> PLAIN_METADATA = words("Batched Format Location ReadSchema");

  private final Redaction redaction;
  private final boolean redactsLiterals;
  private final PlanColumns columns; // null if literals stay

  private final Map<String, String> redacted = new HashMap<>();
  private final Map<String, Integer> uses = new HashMap<>();

  PlanTexts(Redaction redaction, Iterable<PlanNode> nodes) {
    this.redaction = redaction;
    this.redactsLiterals = redaction.redactsLiterals;
    columns = redactsLiterals ? new PlanColumns(nodes) : null;
  }

  private static Set<String> words(String words) {
    return new HashSet<>(Arrays.asList(words.split(" ")));
  }

  String name(String name) {
    return CODEGEN.matcher(name).matches() ? name : redaction.statement(name);
  }

  /** Redacts Spark's simple string of the node with this name. */
  String simple(String name, String simple) {
    return redacted.computeIfAbsent(
        simple, raw -> redactsLiterals ? disambiguate(withoutLiterals(name, raw)) : redaction.text(raw));
  }

  Map<String, String> metadata(Map<String, String> raw) {
    Map<String, String> out = new TreeMap<>();
    for (Map.Entry<String, String> entry : raw.entrySet()) {
      if (redactsLiterals && entry.getKey().equals(Commands.TABLE_KEY)) continue; // it may be of a literal
      String text = redaction.text(entry.getValue());
      boolean plain = !redactsLiterals || PLAIN_METADATA.contains(entry.getKey());
      out.put(entry.getKey(), plain ? text : structure("", text, -1));
    }
    return out;
  }

  private String withoutLiterals(String name, String simple) {
    if (CODEGEN.matcher(simple).matches()) return simple;
    String text = redaction.text(simple);
    for (String start :
         new String[] {name, "File" + name}) { // a scan named "Scan parquet t" writes "FileScan parquet t"
      if (!name.isEmpty() && text.startsWith(start)) {
        int partitions = partitions(name, text) - start.length();
        return structure(Literals.inStatement(start), text.substring(start.length()), partitions);
      }
    }
    return structure("", text, partitions(name, text));
  }

  private static int partitions(String name, String text) {
    if (!name.contains("Exchange") || name.contains("Broadcast")) return -1;
    Matcher m = PARTITIONS.matcher(text);
    return m.find() ? m.start(1) : -1;
  }

  /** Keeps different texts different, because the collector draws equal exchanges once. */
  private String disambiguate(String text) {
    int use = uses.merge(text, 1, Integer::sum);
    int last = text.lastIndexOf(Literals.PLACEHOLDER);
    return use == 1 || last < 0 ? text : text.substring(0, last + 1) + use + text.substring(last + 1);
  }

  /** {@code prefix}, then the text with unknown words replaced; the number at {@code partitions} stays. */
  private String structure(String prefix, String text, int partitions) {
    StringBuilder out = new StringBuilder(prefix);
    int afterPlaceholder = -1; // end of a placeholder in `out` that only blanks follow, or -1
    for (int at = 0; at < text.length();) {
      int start = at;
      while (at < text.length() && !isDelimiter(text.charAt(at))) at++;
      if (at == start) {
        char c = text.charAt(at++);
        out.append(c);
        if (!Character.isWhitespace(c)) afterPlaceholder = -1;
        continue;
      }
      char next = at < text.length() ? text.charAt(at) : 0;
      String kept = start == partitions ? text.substring(start, at)
                                        : kept(text.substring(start, at), out, next, afterPlaceholder >= 0);
      boolean isPlaceholder = kept.startsWith(Literals.PLACEHOLDER);
      if (isPlaceholder && afterPlaceholder >= 0) out.setLength(afterPlaceholder - 1); // one for consecutive words
      out.append(kept);
      afterPlaceholder = kept.equals(Literals.PLACEHOLDER) ? out.length() : -1;
    }
    return out.toString();
  }

  private static boolean isDelimiter(char c) {
    return Character.isWhitespace(c) || "()[]{},".indexOf(c) >= 0;
  }

  /** The part of a word that stays, after {@code out} and before {@code next}. */
  private String kept(String word, StringBuilder out, char next, boolean isAfterPlaceholder) {
    if (OPERATORS.contains(word) && (Character.isWhitespace(next) || word.equals("END"))) return word;
    String before = out.substring(Math.max(0, out.length() - 24));
    if (before.endsWith("[") && next == ']' && ID.matcher(word).matches()) return word;
    Matcher column = COLUMN.matcher(word.endsWith(":") ? word.substring(0, word.length() - 1) : word);
    if (column.matches()) return column(word, column.group(1), column.group(2), out);
    if (isAfterPlaceholder) return Literals.PLACEHOLDER;
    if (WORDS.contains(word) || next == '(' && isFunction(STEP.matcher(word).replaceFirst(""))) return word;
    if (word.startsWith("*") && WORDS.contains(word.substring(1))) return word; // a filter that the source applies
    if (NUMBER.matcher(word).matches()) {
      boolean known = BEFORE_NUMBER.matcher(before).find() || word.equals("1") && BEFORE_ONE.matcher(before).find();
      return known ? word : Literals.PLACEHOLDER;
    }
    if (columns.hasName(word) && BEFORE_NAME.matcher(before).find()) return word;
    if (KNOWN_ARGUMENT.matcher(word).matches() || OF_SPARK.matcher(word).matches()) return word;
    Matcher argument = ARGUMENT.matcher(word);
    if (argument.matches()) return word;
    return argument.lookingAt() ? argument.group() + Literals.PLACEHOLDER : Literals.PLACEHOLDER;
  }

  private String column(String word, String name, String id, StringBuilder out) {
    if (INTERNAL.matcher(name).matches()) return word;
    boolean isOfExpression = name.isEmpty() && out.length() > 0 && out.charAt(out.length() - 1) == ')';
    if (isOfExpression) return word;
    if (!columns.hasId(id)) return Literals.PLACEHOLDER;
    return columns.has(id, name) ? word : Literals.PLACEHOLDER + "#" + id;
  }

  /** Read with the first plan, when Spark has certainly loaded its functions, and only if literals are removed. */
  private static final class Functions {
    static final Set<String> NAMES = SparkAccess.functions();
  }

  private static boolean isFunction(String name) {
    return WORDS.contains(name) || Functions.NAMES.contains(name.toLowerCase(Locale.ROOT));
  }
}
