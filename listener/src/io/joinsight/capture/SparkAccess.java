package io.joinsight.capture;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskInfo;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkPlanInfo;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetricInfo;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.storage.RDDInfo;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Product;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.mutable.ArrayBuffer;
import scala.util.Success;

/**
 * All code that depends on the version of Spark or Scala.
 *
 * <p>One jar supports Spark 3.4 to 4.3 and Scala 2.12 and 2.13. A method that returns a Scala {@code Seq} has a
 * different descriptor in each Scala version, so it is never called directly: it is looked up by name once, or its
 * value is read as an element of the case class. Fields that older versions lack are read only after {@link
 * Product#productArity()} is checked.
 */
public final class SparkAccess {
  private static final MethodHandle PLAN_CHILDREN = byName(SparkPlanInfo.class, "children", Iterable.class);
  private static final MethodHandle PLAN_METRICS = byName(SparkPlanInfo.class, "metrics", Iterable.class);
  private static final MethodHandle INPUTS = byName(SparkPlan.class, "children", Iterable.class);
  private static final MethodHandle SUBQUERIES = byName(SparkPlan.class, "subqueries", Iterable.class);
  private static final MethodHandle ACCUMULABLES = byName(TaskInfo.class, "accumulables", Iterable.class);

  private static final MethodHandle PARENTS = byName(StageInfo.class, "parentIds", Iterable.class);
  private static final MethodHandle RDDS = byName(StageInfo.class, "rddInfos", Iterable.class);

  /** {@code SQLMetric._value}, which is public since 4.0; null before. */
  private static final MethodHandle RAW_VALUE = byName(SQLMetric.class, "_value", long.class);

  private static final int JOB_STAGE_INFOS = 2;
  private static final int START_JOB_TAGS = 8;
  private static final int START_JOB_GROUP = 9;

  private static final String SHARED_QUEUE_DROPS = "queue.shared.numDroppedEvents";

  static final String SPARK_VERSION = sparkVersion();

  private SparkAccess() {}

  /** Names of Spark's built-in functions, in lower case. */
  static Set<String> functions() {
    Set<String> names = new HashSet<>();
    for (Iterator<?> i = ((Iterable<?>) (Object) FunctionRegistry.functionSet()).iterator(); i.hasNext();) {
      names.add(((FunctionIdentifier) i.next()).funcName());
    }
    return names;
  }

  /** Fails, in the listener's constructor, if this Spark's SQL classes do not have the expected methods. */
  public static void check() {
    if (PLAN_CHILDREN == null || PLAN_METRICS == null || ACCUMULABLES == null || PARENTS == null || RDDS == null) {
      throw new IllegalStateException(
          "Spark " + SPARK_VERSION + " lacks a method of SparkPlanInfo, TaskInfo or StageInfo");
    }
  }

  private static MethodHandle byName(Class<?> owner, String name, Class<?> result) {
    try {
      for (Method method : owner.getMethods()) {
        if (method.getName().equals(name) && method.getParameterCount() == 0 && !method.isBridge()) {
          return MethodHandles.publicLookup().unreflect(method).asType(MethodType.methodType(result, owner));
        }
      }
    } catch (ReflectiveOperationException | RuntimeException unreachable) {
      return null;
    }
    return null;
  }

  private static String sparkVersion() {
    try { // the class is named `package`, a reserved word in Java
      return String.valueOf(Class.forName("org.apache.spark.package").getMethod("SPARK_VERSION").invoke(null));
    } catch (ReflectiveOperationException | LinkageError e) {
      return "unknown";
    }
  }

  /** Copies a plan that Spark reported, with its description. */
  static PlanNode plan(SparkPlanInfo root, String description) throws Throwable {
    ArrayDeque<SparkPlanInfo> open = new ArrayDeque<>(); // plans can be thousands of levels deep: no recursion
    ArrayDeque<PlanNode> parents = new ArrayDeque<>();
    PlanNode top = new PlanNode("", "");
    open.add(root);
    parents.add(top);
    while (!open.isEmpty()) {
      SparkPlanInfo info = open.remove();
      PlanNode node = new PlanNode(info.nodeName(), info.simpleString());
      parents.remove().children.add(node);
      if (!info.metadata().isEmpty()) node.metadata = strings(info.metadata());
      for (Iterator<?> i = ((Iterable<?>) PLAN_METRICS.invokeExact(info)).iterator(); i.hasNext();) {
        SQLMetricInfo metric = (SQLMetricInfo) i.next();
        node.metrics.add(new PlanMetric(metric.name(), metric.accumulatorId(), metric.metricType()));
      }
      for (Iterator<?> i = ((Iterable<?>) PLAN_CHILDREN.invokeExact(info)).iterator(); i.hasNext();) {
        open.add((SparkPlanInfo) i.next());
        parents.add(node);
      }
    }
    PlanNode plan = top.children.get(0);
    Commands.addTo(plan, description);
    Fallbacks.addTo(plan, description);
    return plan;
  }

  static Iterator<?> inputs(SparkPlan plan) throws Throwable {
    return ((Iterable<?>) INPUTS.invokeExact(plan)).iterator();
  }

  static Iterator<?> subqueries(SparkPlan plan) throws Throwable {
    return ((Iterable<?>) SUBQUERIES.invokeExact(plan)).iterator();
  }

  /**
   * The plan of a query, null if Spark has not computed it. {@link QueryExecution#executedPlan} would compute it on the
   * listener's thread, or fail there and put that thread's frames into the exception that the user gets.
   */
  static SparkPlan executedPlan(QueryExecution query) throws ReflectiveOperationException {
    return (SparkPlan) computed(query, "executedPlan", "lazyExecutedPlan");
  }

  /** As {@link #executedPlan}. */
  static LogicalPlan optimizedPlan(QueryExecution query) throws ReflectiveOperationException {
    return (LogicalPlan) computed(query, "optimizedPlan", "lazyOptimizedPlan");
  }

  /** The SparkSession of a query, whose class has another name since 4.0. */
  static Object session(QueryExecution query) throws ReflectiveOperationException {
    return computed(query, "sparkSession");
  }

  private static Object computed(QueryExecution query, String name, String lazyName)
      throws ReflectiveOperationException {
    Object plan = computed(query, name);
    Object lazy = plan == null ? computed(query, lazyName) : null; // since 4.0: a LazyTry
    Object result = lazy == null ? null : computed(lazy, "tryT");
    return result instanceof Success ? ((Success<?>) result).value() : plan;
  }

  /** A node's metric if Spark has computed the node's metrics; computing them would register new accumulators. */
  @SuppressWarnings("unchecked")
  static SQLMetric metric(SparkPlan node, String name) throws ReflectiveOperationException {
    Object metrics = computed(node, "metrics");
    Option<?> metric = metrics == null ? Option.empty() : ((scala.collection.Map<String, ?>) metrics).get(name);
    return metric.isEmpty() ? null : (SQLMetric) metric.get();
  }

  /** The value of a (lazy) val of Scala; null if it is not computed yet or does not exist. */
  private static Object computed(Object owner, String name) throws ReflectiveOperationException {
    for (Class<?> type = owner.getClass(); type != null; type = type.getSuperclass()) {
      for (Field field : type.getDeclaredFields()) {
        if (!field.getName().equals(name)) continue;
        field.setAccessible(true);
        return field.get(owner);
      }
    }
    return null;
  }

  /** The input of an operator or a write that has one. */
  static LogicalPlan input(LogicalPlan plan) throws ReflectiveOperationException {
    Object input = computed(plan, "child");
    return (LogicalPlan) (input == null ? computed(plan, "query") : input);
  }

  static Iterator<?> accumulables(TaskInfo task) throws Throwable {
    return ((Iterable<?>) ACCUMULABLES.invokeExact(task)).iterator();
  }

  static Iterator<?> stageInfos(SparkListenerJobStart job) {
    return elements(job, JOB_STAGE_INFOS);
  }

  /** The ids of the stages whose shuffles a stage reads. */
  static int[] parents(StageInfo stage) throws Throwable {
    int[] parents = {};
    for (Iterator<?> i = ((Iterable<?>) PARENTS.invokeExact(stage)).iterator(); i.hasNext();) {
      parents = Arrays.copyOf(parents, parents.length + 1); // there are few
      parents[parents.length - 1] = ((Number) i.next()).intValue();
    }
    return parents;
  }

  /** The id of the RDD that a stage computes, which Spark lists before those that it is computed from. */
  static int rdd(StageInfo stage) throws Throwable {
    Iterator<?> rdds = ((Iterable<?>) RDDS.invokeExact(stage)).iterator();
    return rdds.hasNext() ? ((RDDInfo) rdds.next()).id() : -1;
  }

  /** The elements of the Scala collection that is field {@code index} of a case class. */
  static Iterator<?> elements(Object caseClass, int index) {
    return ((Iterable<?>) ((Product) caseClass).productElement(index)).iterator();
  }

  static String[] jobTags(SparkListenerSQLExecutionStart start) {
    Product fields = (Product) start;
    if (fields.productArity() <= START_JOB_TAGS) return new String[0];
    java.util.TreeSet<String> tags = new java.util.TreeSet<>();
    for (Iterator<?> i = elements(start, START_JOB_TAGS); i.hasNext();) tags.add(String.valueOf(i.next()));
    return tags.toArray(new String[0]);
  }

  static String jobGroup(SparkListenerSQLExecutionStart start) {
    Product fields = (Product) start;
    if (fields.productArity() <= START_JOB_GROUP) return null;
    Option<?> group = (Option<?>) fields.productElement(START_JOB_GROUP);
    return group.isEmpty() ? null : String.valueOf(group.get());
  }

  static Map<String, String> strings(scala.collection.Map<?, ?> map) {
    Map<String, String> copy = new TreeMap<>();
    for (Iterator<?> i = ((Iterable<?>) (Object) map).iterator(); i.hasNext();) {
      scala.Tuple2<?, ?> entry = (scala.Tuple2<?, ?>) i.next();
      copy.put(String.valueOf(entry._1()), String.valueOf(entry._2()));
    }
    return copy;
  }

  static ArrayBuffer<AccumulatorV2<?, ?>> externalAccumulators(TaskMetrics metrics) {
    return metrics._externalAccums();
  }

  /** The accumulator's value that Spark's UI uses: −1 if a task never touched a size or timing metric. */
  static long raw(SQLMetric metric) throws Throwable {
    if (RAW_VALUE != null) return (long) RAW_VALUE.invokeExact(metric);
    long value = metric.value();
    return value != 0 ? value : number(metric.toInfoUpdate().update());
  }

  /** The active context; null while it starts. */
  public static SparkContext activeContext() {
    Option<SparkContext> context = SparkContext$.MODULE$.getActive();
    return context.isEmpty() ? null : context.get();
  }

  /** The executors that Spark knows, each an {@code ExecutorSummary}; in local mode, the driver. */
  static Iterator<?> executors() throws ReflectiveOperationException {
    Object store = activeContext().statusStore();
    return ((Iterable<?>) store.getClass().getMethod("executorList", boolean.class).invoke(store, true)).iterator();
  }

  /** Events that Spark dropped from the queue of its shared listeners; null if unknown. */
  static Long droppedEvents() {
    try {
      SparkContext context = activeContext();
      if (context == null) return null;
      return context.listenerBus().metrics().metricRegistry().counter(SHARED_QUEUE_DROPS).getCount();
    } catch (RuntimeException | LinkageError e) {
      return null;
    }
  }

  static boolean hasUpdate(AccumulableInfo info) {
    return info.update().isDefined();
  }

  static long update(AccumulableInfo info) {
    return number(info.update());
  }

  private static long number(Option<Object> value) {
    Object number = value.get();
    return number instanceof Number ? ((Number) number).longValue() : Long.parseLong(number.toString());
  }
}
