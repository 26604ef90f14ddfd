"""A query's runs over two weeks: its plan, its settings and Spark change, it gets slower, and one run fails."""

from __future__ import annotations

from typing import Any

import msgspec
from tests.documents import LISTENER, STARTED_AT_MS, Plan, draw, execution
from tests.pages.plans import HOSTILE

from joinsight.contract.document import Execution, Stage

JOB, RUNS, EACH_MS = "shop/nightly <sales>", 28, 12 * 3_600_000
SLOWER_FROM, SETTINGS_FROM, SPARK_FROM, FAILED = 20, 8, 14, 17
NOW_MS = STARTED_AT_MS
"""A time for tests that need none in particular."""
BROADCAST = """
    AdaptiveSparkPlan | isFinalPlan=true
      HashAggregate | keys=[region#1], functions=[sum(amount#2)] | number of output rows=20
        Exchange | hashpartitioning(region#1, 200), [plan_id=1] | shuffle bytes written=90000, records read=1+2+3
          BroadcastHashJoin | [store#3], [id#4], Inner, BuildRight, false | number of output rows=90000
            Scan parquet shop.sales | [store#3, amount#2, region#1] | number of output rows=90000
            BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=7] |\
 data size=4194304, number of output rows=200, time to collect=30
              Scan parquet shop.stores | [id#4] | number of output rows=200
"""
SORTED = """
    AdaptiveSparkPlan | isFinalPlan=true
      HashAggregate | keys=[region#1], functions=[sum(amount#2)] | number of output rows=20
        Exchange | hashpartitioning(region#1, 200), [plan_id=1] | shuffle bytes written=90000, records read=1+2+3
          SortMergeJoin | [store#3], [id#4], Inner | number of output rows=90000, spill size=80000000
            Sort | [store#3 ASC NULLS FIRST], false, 0 | sort time=900
              Exchange | hashpartitioning(store#3, 200), [plan_id=2] | shuffle bytes written=900000000
                Scan parquet shop.sales | [store#3, amount#2, region#1] | number of output rows=90000
            Sort | [id#4 ASC NULLS FIRST], false, 0 | sort time=3
              Exchange | hashpartitioning(id#4, 200), [plan_id=3] | shuffle bytes written=9000000
                Scan parquet shop.stores | [id#4] | number of output rows=200
"""


def runs(now_ms: int, job: str = JOB) -> list[Execution]:
    """The runs, the oldest first; the last one ended an hour before now."""
    return [_run(i, now_ms - 3_600_000 - (RUNS - 1 - i) * EACH_MS, job) for i in range(RUNS)]


def _run(i: int, started_at_ms: int, job: str) -> Execution:
    is_slow = i >= SLOWER_FROM
    nodes, accumulators = draw(SORTED if is_slow else BROADCAST)
    took = 40_000 + 900 * (i * 7 % 5) + (75_000 if is_slow else 0)
    changes: dict[str, Any] = {"state": "failed", "error": f"No space left: {HOSTILE}"} if i == FAILED else {}
    spark = "4.2.0" if i < SPARK_FROM else "4.3.0"
    return execution(
        application_id=f"app-{i:03}-{job[:4]}",
        job_name=job,
        application_name=job,
        description="Sales by region" if job == JOB else HOSTILE,
        started_at_ms=started_at_ms,
        ended_at_ms=started_at_ms + took,
        listener=msgspec.structs.replace(LISTENER, spark_version=spark),
        configuration={"spark.sql.shuffle.partitions": "200" if i < SETTINGS_FROM else "400"},
        plans=[Plan(started_at_ms, nodes)],
        accumulators=accumulators,
        stages=[
            Stage(
                1,
                0,
                "s",
                8,
                "succeeded",
                succeeded_tasks=8,
                run_time_ms=took * 4,
                shuffle_write_bytes=90_000 + is_slow * 909_000_000,
            )
        ],
        **changes,
    )
