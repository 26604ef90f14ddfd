"""A plan for tests that compare runs: its drawing, and the numbers of a normal run to format it with."""

from __future__ import annotations

# One join under another, so that one can change alone; PLAN.format(...) gives the numbers
PLAN = """
    SortMergeJoin | [a#1], [c#5], Inner | number of output rows={out}
      Sort | [a#1 ASC NULLS FIRST], false, 0 | spill size={spill}
        Exchange | hashpartitioning(a#1, 8), ENSURE_REQUIREMENTS, [plan_id=7] | shuffle bytes written={written}, shuffle records written=5000, records read=10+20+{largest}
          BroadcastHashJoin | [b#2], [b#9], Inner, BuildRight, false | number of output rows=5000
            FileScan parquet default.sales | [a#1,b#2] | number of output rows=9000
            BroadcastExchange | HashedRelationBroadcastMode(List(input[0, int]),false), [plan_id=3] | data size={size}, number of output rows=10, time to collect=30, time to build=4, time to broadcast=5
              FileScan parquet default.store | [b#9] | number of output rows=10
      Sort | [c#5 ASC NULLS FIRST], false, 0
        Exchange | hashpartitioning(c#5, 8), ENSURE_REQUIREMENTS, [plan_id=8] | shuffle bytes written=1024, shuffle records written=7
          FileScan parquet default.customer | [c#5] | number of output rows=7
"""
NUMBERS = {"out": 100, "spill": 0, "written": 5_000_000, "largest": 30, "size": 4_000_000}
