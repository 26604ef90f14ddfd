"""Queries whose advice is tried, for `test_advice`: writes what was accepted, refused and left alone as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import joinsight
from joinsight.base.errors import JoinsightError
from joinsight.contract.accepted_advice import SETTING, read_file, to_setting
from joinsight.measuring import advice as module
from joinsight.measuring.advice import Advice
from joinsight.measuring.proposals import SHUFFLED, Plans, Proposal, proposals

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "3")
builder = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp())
spark = builder.config("spark.sql.autoBroadcastJoinThreshold", "-1").getOrCreate()
facts = spark.range(3000).selectExpr("IF(id % 3 < 2, 7, id % 50) AS k", "id AS v", "id / 7.0D AS third")
dims = spark.range(50).selectExpr("id AS k", "id % 5 AS region")
facts.createOrReplaceTempView("facts")
dims.createOrReplaceTempView("dims")
query = facts.join(dims, "k").groupBy("region").agg(F.sum("third").alias("s"))
context = spark.sparkContext
out: dict[str, Any] = {}
AMPLE_S = 3600.0
"""Enough on any machine: variants are decided long before."""
module._LEAST_LIMIT_S = AMPLE_S  # no run is stopped for being slow
module._MOST_PAIRS = 2  # how many are needed is tested without Spark


def tried(what: Any, budget_s: Any = AMPLE_S, **variants: Callable[[Plans, Any, Any], Any]) -> Any:
    """What came of these changes of the plan, or of the proposals if there are none."""

    def proposed(execution: Any) -> list[Proposal]:
        if not variants:
            return proposals(execution)
        return [Proposal(name, "code", SHUFFLED, change=change) for name, change in variants.items()]

    try:
        with patch.object(module, "proposals", proposed):
            return joinsight.try_advice(spark, what, budget_s)
    except JoinsightError as error:
        return str(error)


def frame(plan: Any, session: Any) -> DataFrame:
    from joinsight.measuring.logical import dataset

    return DataFrame(dataset(session, plan), session)


def plan_of(changed: DataFrame) -> Any:
    return changed._jdf.queryExecution().analyzed()


def state() -> list[Any]:
    return [
        spark.conf.get("spark.sql.adaptive.enabled"),
        spark.conf.get("spark.sql.shuffle.partitions"),
        context.getLocalProperty("spark.jobGroup.id"),
        context.getLocalProperty("spark.job.description"),
        sorted(table.name for table in spark.catalog.listTables()),
        [each.getClass().getSimpleName() for each in context._jsc.sc().listenerBus().listeners()],
    ]


pairs: list[str] = []
goes_on = module._Trials._goes_on


def noted(trials: Any, candidate: Any, *more: Any) -> bool:
    pairs.append(candidate.proposal.variant)
    return goes_on(trials, candidate, *more)


context.setJobDescription("my own")
before = state()
with patch.object(module._Trials, "_goes_on", noted):
    whole = tried(lambda session: session.table("facts").join(dims, "k").groupBy("region").agg(F.sum("third")))
out["pairs"] = pairs
out["all"] = [*whole.accepted, *whole.refused]
out["runs"], out["baseline_ms"] = whole.runs, whole.baseline_ms
out["shown"], out["html"], out["repr"] = str(whole), whole._repr_html_(), repr(whole)
changed = tried(
    query,
    broadcast=lambda plans, plan, session: (
        None if module.logical.class_name(plan) == "Join" else plan_of(frame(plan, session))
    ),
    other=lambda plans, plan, session: plan_of(frame(plan, session).where("region > 0")),
    last_digit=lambda plans, plan, session: plan_of(frame(plan, session).selectExpr("region", "s + 1e-12 AS s")),
    digit=lambda plans, plan, session: plan_of(frame(plan, session).selectExpr("region", "s + 1e-3 AS s")),
    fails=lambda plans, plan, session: plan_of(frame(plan, session).selectExpr("region", "raise_error('no') AS s")),
    nowhere=lambda plans, plan, session: None,
)
out["changed"] = {each["variant"]: each for each in [*changed.accepted, *changed.refused]}
salted = []


def salt(plans: Plans, plan: Any, session: Any) -> Any:
    joins = [node for node in module.logical.nodes(plan) if module.logical.class_name(node) == "Join"]
    (found,) = (module.logical.join_of(node, node) for node in joins)
    keys = tuple(tuple(key.toString() for key in side.keys) for side in found.sides)
    changed = plans.salted(plan, keys, "left", session)
    salted.append(changed.toString())
    return changed


def hint(plans: Plans, plan: Any, session: Any) -> Any:
    joins = [node for node in module.logical.nodes(plan) if module.logical.class_name(node) == "Join"]
    (found,) = (module.logical.join_of(node, node) for node in joins)
    keys = tuple(tuple(key.toString() for key in side.keys) for side in found.sides)
    changed = plans.hinted(plan, keys, "right", "BROADCAST")
    salted.append(frame(changed, session)._jdf.queryExecution().executedPlan().toString())
    return changed


rewritten = tried(facts.join(dims, "k", "left").where("v >= 0"), salt=salt, hint=hint)
spread = plan_of(facts.repartition(7, "k").repartition(5))
by_key = next(each for each in module.logical.nodes(spread) if "ByExpression" in module.logical.class_name(each))
repartitions = [
    None
    if plan is None
    else [each for each in map(module.logical.class_name, module.logical.nodes(plan)) if "Rep" in each]
    for plan in (
        Plans(context).without_repartition(spread, keys)
        for keys in ((), [key.toString() for key in module.logical.elements(by_key.partitionExpressions())], ("v#0",))
    )
]
out["repartitions"] = repartitions
few = plan_of(facts.coalesce(2).repartition(2).groupBy("k").count())
out["coalesced"] = [
    plan is not None and [each for each in map(module.logical.class_name, module.logical.nodes(plan)) if "Rep" in each]
    for plan in (Plans(context).without_coalesce(few, number) for number in (2, 3))
]
sums = facts.groupBy("k").agg(F.sum("v").alias("s"))
persistent = len(context._jsc.getPersistentRDDs())
twice = sums.join(sums.selectExpr("k + 1 AS k", "s AS t"), "k")
cached = tried(twice, same=lambda plans, plan, session: plan)
out["cached"] = {each["variant"]: each["same_result"] for each in [*cached.accepted, *cached.refused]}
out["persistent"] = len(context._jsc.getPersistentRDDs()) - persistent
sums.cache()
out["cached before"] = [each["variant"] for each in tried(twice, same=lambda plans, plan, session: plan).refused]
sums.unpersist()
out["rewritten"] = [*rewritten.accepted, *rewritten.refused]
out["plans"] = salted
out["too small"] = tried(query, budget_s=0.01)
out["no budget"] = tried(query, budget_s=0)
out["text"] = tried(query, budget_s="10 min")
nested = tried(
    spark.range(20).selectExpr("map('a', id / 7D, 'b', 1D) AS m", "array(id / 3D) AS list"),
    order=lambda plans, plan, session: plan_of(
        frame(plan, session).selectExpr("map('b', m['b'], 'a', m['a'] + 1e-14)", "transform(list, x -> x - 1e-14)")
    ),
    value=lambda plans, plan, session: plan_of(
        frame(plan, session).selectExpr("map('a', m['a'], 'b', 1.001D)", "list")
    ),
)
other = {"other": lambda plans, plan, session: plan_of(frame(plan, session).selectExpr("k + 1 AS k"))}
out["why other"] = [
    tried(each, **other).refused[0]["reason"]
    for each in (facts.select("k"), facts.select("k").limit(9), facts.select((F.col("k") + F.rand(3)).alias("k")))
]
out["nested"] = {each["variant"]: each["same_result"] for each in [*nested.accepted, *nested.refused]}


def interrupt() -> None:
    while not context.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


context.setLocalProperty("mine", "kept")
threading.Thread(target=interrupt).start()
try:
    tried(spark.range(10**15).selectExpr("sum(hash(id))"))
except KeyboardInterrupt:
    out["interrupted"] = context.getLocalProperty("mine")
with joinsight.measure(spark) as measured:
    query.write.format("noop").mode("overwrite").save()
finding_of = measured.executions[0].findings
out["findings"] = len(finding_of)
(execution,) = measured.executions
from joinsight.measuring.measurement import MeasuredFinding  # noqa: E402

row = execution.rows.execution
made = MeasuredFinding(
    application_id=row.application_id,
    attempt_id=row.attempt_id,
    execution_id=row.execution_id,
    started_at=row.started_at,
    finding="missed-broadcast",
    node_id=execution.joins[0].node_id,
    severity="warning",
    operator_key=execution.joins[0].operator_key,
    title="t",
    evidence={},
    advice="a",
    wall_is_partial=False,
    plans=execution.plans,
)
its = dict.fromkeys(("saved_ms", "low_ms", "high_ms"), 7) | {"code": "c", "reason": "r"}
entries = [module._accepted_advice(execution.rows, p, {**its, "variant": p.variant}) for p in proposals(execution)]
out["entries"] = [[each.variant, each.strategy, sorted(each.settings), each.operator_key] for each in entries if each]
out["join"] = execution.joins[0].operator_key
kept = Path(tempfile.mkdtemp()) / "joinsight-advice.toml"
Advice([], [], 0, 0, entries=[each for each in entries if each and each.strategy][:1]).save(kept)
context._jsc.sc().conf().set(SETTING, to_setting(read_file(kept)))  # as attach(..., advice=FILE) does
for name, right in (("without", dims), ("with", dims.hint("broadcast"))):
    with joinsight.measure(spark) as measured:
        facts.join(right, "k").groupBy("region").agg(F.sum("third").alias("s")).write.format("noop").mode(
            "overwrite"
        ).save()
    out[name] = str(measured)
of_finding = made.try_(budget_s=AMPLE_S)
out["finding"] = [each["variant"] for each in [*of_finding.accepted, *of_finding.refused]]


def nowhere() -> None:
    spark.range(3).count()
    query.write.format("noop").mode("overwrite").save()


same = {"same": lambda plans, plan, session: plan_of(frame(plan, session).where("region < 100"))}
out["ran"] = [
    (tried(lambda: query.collect(), **same).refused or [{}])[0].get("same_result"),
    (tried(nowhere, **same).refused or [{}])[0].get("same_result"),
]
folder = Path(tempfile.mkdtemp()) / "written"
out["refused"] = [
    tried(lambda spark: spark.sql("CREATE TABLE written AS SELECT 1 AS one")),
    tried(lambda: facts.write.saveAsTable("written")),
    tried(lambda spark: spark.sql("INSERT INTO facts SELECT 1, 2, 3")),
    tried(lambda spark: spark.sql(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT 1 AS one")),
    tried(lambda spark: spark.sql("EXECUTE IMMEDIATE 'CREATE TABLE written AS SELECT 1 AS one'")),
    tried(lambda: facts.write.format("parquet").save(str(folder))),
    tried(lambda: facts.write.format("noop").save(str(folder), "parquet")),
    tried(spark.sql("SHOW TABLES")),
    tried("SELECT 1"),
    tried(lambda: 3),
]
out["is written"] = folder.exists()
out["state"] = [before, state()]
Path(sys.argv[1]).write_text(json.dumps(out))
