package io.joinsight.capture;

/** What a command does whose plan is only its name comes from the plan's description. */
public final class CommandsTest {
  private static final String PLAN =
      "== Physical Plan ==\nExecute MergeIntoCommand (1)\n   +- MergeIntoCommand (2)\n\n\n"
      + "(1) Execute MergeIntoCommand\nOutput [1]: [num_affected_rows#3L]\n\n(2) MergeIntoCommand\nArguments: ";

  public static void main(String[] arguments) {
    String merge = "SubqueryAlias s, [`a`.`b` = id#1L], `spark_catalog`.`shop`.`orders`, Delta[file:/w/orders], true";
    check("{Command=" + merge + ", Table=`spark_catalog`.`shop`.`orders`}", "", PLAN + merge + "\n\n\n(3) Else\n");
    check(
        "{Command=Delta[version=1, s3a://b/orders], 1, Table=s3a://b/orders}", "",
        PLAN + "Delta[version=1, s3a://b/orders], 1");
    check(
        "{Command=X@1, [a=hdfs:/x, path=/w/orders], Append, Table=/w/orders}", "",
        PLAN + "X@1, [a=hdfs:/x, path=/w/orders], Append\n");
    check("{Command=a, Table=shop.orders}", "", PLAN + "a\n\n(3) SubqueryAlias\nArguments: shop.orders\n\n");
    check("{Command=`kinds`, Append, Table=`kinds`}", "", PLAN + "`kinds`, Append");
    check("{Command=(id#1 = 5)}", "", PLAN + "(id#1 = 5)");
    check("{Command=MergeIntoTable, [set(a#1, http://x)]}", "", PLAN + "MergeIntoTable, [set(a#1, http://x)]");
    check("{}", " [a#1]", PLAN + merge);
    String catalog = "Delta, t, V2(Some(CatalogTable(\nCatalog: c\nDatabase: shop\nTable: small\nType: MANAGED)))";
    check(
        "{Command=Context(None), Table=shop.small}", "",
        PLAN.replace("Arguments: ", "Arguments: " + catalog + "\n\n(3) MergeIntoCommand\nArguments: Context(None)")
            .replace("(2) MergeIntoCommand", "(2) ResolvedTable"));
    String bare = PLAN.substring(0, PLAN.indexOf("(2) "));
    for (String other : new String[] {null, "", bare, "AppendData" + PLAN}) check("{}", "", other);
    String most = "x".repeat(4000);
    check("{Command=" + most + "}", "", PLAN + most + "x");
    System.out.println("ok");
  }

  private static void check(String expected, String text, String description) {
    PlanNode root = new PlanNode("Execute MergeIntoCommand", "Execute MergeIntoCommand" + text);
    Commands.addTo(root, description);
    String found = root.metadata.toString();
    if (!found.equals(expected)) throw new AssertionError(found + ", not " + expected);
  }
}
