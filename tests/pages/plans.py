"""Executions for the tests of pages: one with 1,500 nodes, and one in which all texts are hostile."""

from __future__ import annotations

from tests.documents import STARTED_AT_MS, Plan, draw, execution, planned

from joinsight.contract.document import Execution

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='alert(3)' ]]>--><svg/onload=alert(4)> {{ 7*7 }}"
)


def large(nodes: int = 1_500) -> Execution:
    """A union of branches, each with joins of a shuffled and a broadcast side, under AQE."""
    lines = ["AdaptiveSparkPlan | isFinalPlan=true", "  Union"]
    branch = 0
    while len(lines) < nodes - 22:
        branch += 1
        rows = 1_000 * branch * branch
        at = "    "
        for join in range(2):
            plan_id = 10 * branch + join
            lines += [
                f"{at}Project | [k#1, amount#2]",
                f"{at}  SortMergeJoin | [k#1], [k#2], Inner | number of output rows={rows}",
                f"{at}    Sort | [k#2 ASC NULLS FIRST], false, 0 | sort time={branch}",
                f"{at}      Exchange | hashpartitioning(k#2, 200), ENSURE_REQUIREMENTS, [plan_id={plan_id}5] |"
                f" shuffle bytes written={rows * 7}, shuffle records written={rows}, records read=1+2+{rows},"
                f" shuffle write time={rows * 900}",
                f"{at}        Filter | isnotnull(k#2) | number of output rows={rows}",
                f"{at}          Scan parquet db.stores | [k#2] | number of output rows={2 * rows}, scan time={rows}",
                f"{at}    Sort | [k#1 ASC NULLS FIRST], false, 0 | sort time={branch * 3}",
                f"{at}      AQEShuffleRead | coalesced",
                f"{at}        Exchange | hashpartitioning(k#1, 200), ENSURE_REQUIREMENTS, [plan_id={plan_id}6] |"
                f" shuffle bytes written={rows * 9}, shuffle records written={rows}",
            ]
            at += " " * 10
        lines += [
            f"{at}BroadcastHashJoin | [k#1], [k#3], LeftOuter, BuildRight, false | number of output rows={rows}",
            f"{at}  Scan parquet db.sales | [k#1] | number of output rows={rows}",
            f"{at}  BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=7] |"
            " data size=4194304, number of output rows=200, time to collect=30",
            f"{at}    LocalTableScan | [k#3] | number of output rows=200",
        ]
    lines += ["    Scan ExistingRDD"] * (nodes - len(lines))
    return planned("\n".join(lines), description=f"A plan of {nodes:,} nodes", application_id="app-large")


def hostile() -> Execution:
    """Markup, quotes and template code in all texts that come from users."""
    early, _ = draw("SortMergeJoin | [k#1], [k#2], Inner")
    nodes, accumulators = draw("""
        SortMergeJoin | [k#1], [k#2], Inner
          Exchange | hashpartitioning(k#1, 8), [plan_id=1] | records read=1+2+90
          Scan
    """)
    nodes = [node._replace(simple=f"{node.simple} {HOSTILE}") for node in nodes]
    nodes[2] = nodes[2]._replace(name=f"Scan {HOSTILE}")
    return execution(
        application_id="app-hostile",
        execution_id=66,
        state="failed",
        description=HOSTILE,
        job_name=HOSTILE,
        application_name=HOSTILE,
        call_site=f"{HOSTILE}\n{HOSTILE}",
        error=f"org.example.Hostile: {HOSTILE}\n\tat {HOSTILE}",
        incomplete=[HOSTILE],
        plans=[Plan(STARTED_AT_MS, early), Plan(STARTED_AT_MS + 700, nodes)],
        accumulators=accumulators,
    )
