"""Redaction in the driver: secrets are masked, and literals are removed if the setting asks for it.

One JVM answers all questions of this module: it has the listener's classes and Spark's.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.java import LIGHT, compile_java

from joinsight.plan.texts import JoinText, ShuffleText, join_text, shuffle_text

MASK = "*********(redacted)"
NO_LITERALS = {"spark.joinsight.redactLiterals": "true"}
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
Ask = Callable[..., Any]

SECRETS = {
    "password=hunter2": f"password={MASK}",
    "cause: password=hunter2 at line 3": f"cause: password={MASK} at line 3",
    "db.Password = hunter2": f"db.Password = {MASK}",
    '{"password" : "hun\\"ter2", "user": "u"}': f'{{"password" : {MASK}, "user": "u"}}',
    r"{\"password\": \"hunter2\", \"user\": 1}": rf"{{\"password\": {MASK}, \"user\": 1}}",
    "{'aws_secret_access_key': 'hunter2'}": f"{{'aws_secret_access_key': {MASK}}}",
    "password='it''s hunter2', x=1": f"password={MASK}, x=1",
    "password='hunter2 never closed, x=1": f"password={MASK}",
    "OPTIONS (user 'u', password 'hunter2')": f"OPTIONS (user 'u', password {MASK})",
    "OPTIONS (url 'jdbc:db2://h/d', dbtable 't')": f"OPTIONS (url {MASK}, dbtable 't')",
    "Map(password -> hunter2, dbtable -> t)": f"Map(password -> {MASK}, dbtable -> t)",
    "[password=hunter2,user=u]": f"[password={MASK},user=u]",
    "password=hun)ter2,x=1": f"password={MASK},x=1",
    "f(password=hunter2), false, 0": f"f(password={MASK}), false, 0",
    "--db-password hunter2 --table t": f"--db-password {MASK} --table t",
    "jdbc:sqlserver://h;user=u;password=hunter2;encrypt=true": f"jdbc:sqlserver://h;user=u;password={MASK};encrypt=true",
    "jdbc:mysql://h/d?user=u&password=hunter2&ssl=true": f"jdbc:mysql://h/d?user=u&password={MASK}&ssl=true",
    "jdbc:oracle:thin:scott/hunter2@//h:1521/x": f"jdbc:oracle:thin:scott/{MASK}@//h:1521/x",
    "https://user:hun@ter2@host/path": f"https://{MASK}@host/path",
    "s3a://AKIAIOSFODNN7EXAMPLE:hunt/er2@bucket/x": f"s3a://{MASK}@bucket/x",
    '.option(\n    "password",\n        "hunter2"\n)': f'.option(\n    "password",\n        {MASK}\n)',
    'password = (\n    "hun"\n    "ter2")': f"password = ({MASK})",
    "https://a.blob.core.windows.net/c?sv=2022&sig=hunter2&se=1": f"https://a.blob.core.windows.net/c?sv=2022&sig={MASK}&se=1",
    "fs.azure.account.key.a.dfs.core.windows.net=hunter2==": f"fs.azure.account.key.a.dfs.core.windows.net={MASK}",
    "Authorization: Bearer hunter2": f"Authorization: Bearer {MASK}",
    '"Authorization": "Basic aHVudGVyMg=="': f'"Authorization": {MASK}',
    "sent Bearer abcdef123456": f"sent Bearer {MASK}",
    "key AKIAIOSFODNN7EXAMPLE is old": f"key {MASK} is old",
    f"got {JWT}": f"got {MASK}",
    "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----.": f"{MASK}.",
    "-----BEGIN PRIVATE KEY-----\nhunter2": MASK,
    # a column that holds secrets, and what it is compared with
    "Filter (isnotnull(token#1) AND (token#1 = hunter 2))": f"Filter (isnotnull(token#1) AND (token#1 = {MASK}))",
    "[IsNotNull(password), EqualTo(password,hunter2)]": f"[IsNotNull(password), EqualTo(password,{MASK})]",
    "Project [id#1, hunter2 x AS password#2, k#3 AS token#4]": f"Project [id#1, {MASK} AS password#2, k#3 AS token#4]",
    f"password={MASK}": f"password={MASK}",
}  # fmt: skip

# How secrets stand in Python, SQL, plans and shells: a line with one, a line with what is left of it (***), an empty line
IDIOMS = Path(__file__).with_name("idioms.txt").read_text().split("\n\n")
SECRETS |= dict(idiom.strip("\n").replace("***", MASK).split("\n") for idiom in IDIOMS)

HARMLESS = (
    "",
    "collect at /home/u/tokens/password_reset.py:12",
    "SortMergeJoin [token#1], [token#22L], Inner, (token#1 = token#22L)",
    "ReadSchema: struct<password:string,token:bigint,secrets:array<string>>",
    "secret: string (nullable = true)",
    "file:/tmp/x, hdfs://namenode:8020/warehouse/t, abfss://c@account.dfs.core.windows.net/p",
    "Exchange hashpartitioning(secret#7L, 200), ENSURE_REQUIREMENTS, [plan_id=7]",
    "SELECT password FROM users WHERE name LIKE 'x' -- the token",
    "Range (0, 100, step=1, splits=2)",
    "hdfs://namenode:8020/user/a@b/x",
    "jdbc:hive2://h:10000/default;principal=hive/_HOST@REALM",
    "at org.x.TokenProvider.getToken(TokenProvider.java:33)",
    "\tat org.x.Secrets$.password(Secrets.scala:12) ~[x.jar:1.0]",
    "HashAggregate(keys=[token#1], functions=[count(1)], output=[token#1, count#2L])",
    "HashAggregate(keys=[token#1, k#2], functions=[partial_sum(tokens#3)])",
    "Project [count(1)#12L AS tokens#13L, sum(x#1) AS token_count#5, null AS token#6]",
    "SortMergeJoin [cast(token#1 as bigint)], [k#2], Inner",
    "BroadcastHashJoin [token#1, k#2], [token#3, k#4], Inner, BuildRight, (token#1 < token#3), false",
    "BatchEvalPython [count_tokens(text#5)#12], [pythonUDF0#13]",
    "Window [sum(token#1) windowspecdefinition(token#1, k#2 ASC NULLS FIRST, specifiedwindowframe(RowFrame, unboundedpreceding$(), currentrow$()))]",
    "Filter (isnotnull(token_count#1) AND (token_count#1 > avg#2))",
    "Project [coalesce(token_count#1, 0) AS n#2, round(tokens#3, 2) AS r#4]",
    "Exchange hashpartitioning(coalesce(token#1, 0), 200), ENSURE_REQUIREMENTS, [plan_id=7]",
    "Exchange rangepartitioning(token#1 ASC NULLS FIRST, 200), ENSURE_REQUIREMENTS, [plan_id=7]",
    "SELECT l_orderkey, primary_key FROM t WHERE join_key = 5 AND author = 'x' AND bypass = 1 AND assigned = 'y'",
    "SELECT token FROM t WHERE token IN (SELECT token FROM u)",
    "Filter (token#1 > Subquery scalar-subquery#40, [id=#41])",
    "Filter (token#1 IN (list#2 []) OR NOT (token#1 = coalesce(a#3, b#4)))",
    "Project [CASE WHEN (token#1 = k#2) THEN a#3 ELSE b#4 END AS token#5]",
    "Location: InMemoryFileIndex(1 paths)[file:/data/tokens/secrets.parquet]",
    "FileScan parquet default.tokens[id#1,token#2] Batched: true, DataFilters: [isnotnull(token#2)], Format: Parquet",
    "the secret of fast joins is order, a token gesture",
    "no password given (optional), token (optional)",
    "Sort [token#1 ASC NULLS FIRST, k#2 DESC NULLS LAST], true, 0",
    "TakeOrderedAndProject(limit=10, orderBy=[token#1 ASC NULLS FIRST], output=[token#1,k#2])",
    "Expand [[token#1, k#2, 0], [token#1, null, 1]], [token#1, k#2, spark_grouping_id#3]",
    "Generate explode(split(token#1, k#2)), [token#1], false, [col#4]",
    "ObjectHashAggregate(keys=[], functions=[collect_list(token#1, 0, 0)])",
    "task-00012345678901234567, spark-sklearn-0.24.1, risk-assessment-2024-final-v2",
    "ASIA_PACIFIC_SALES_2024_REGION",
)

STATEMENTS = {
    "SELECT a1, `b c` FROM t2 WHERE n = 'it''s alice' AND x > -1.5e3 OR y = 0x1F": (
        "SELECT a1, `b c` FROM t2 WHERE n = ? AND x > -? OR y = ?"
    ),
    'SELECT "al\\"ice", r\'bob\', DATE\'2024-01-31\', 1L': "SELECT ?, r?, DATE?, ?",
    "SELECT 1 -- alice\nFROM t /* bob */ WHERE x": "SELECT ?\nFROM t ? WHERE x",
    "SELECT 'alice cut off": "SELECT ?",
    "SELECT /* alice cut off": "SELECT ?",
    "batch of 2024-01-31 12:30": "batch of ?",
    "collect at /app/job_1.py:12": "collect at /app/job_1.py:12",
    "org.apache.spark.sql.Dataset.count(Dataset.scala:3615)": "org.apache.spark.sql.Dataset.count(Dataset.scala:3615)",
    "filter { string: \"alice\" integer: 42 }": "filter { string: ? integer: ? }",
}  # fmt: skip

ERRORS = {
    "[DIVIDE_BY_ZERO] Division by zero: alice. SQLSTATE: 22012\n== SQL (line 1) ==\nSELECT 'alice'\n       ^^^^": (
        "[DIVIDE_BY_ZERO] ? SQLSTATE: 22012\n?"
    ),
    "Job aborted due to stage failure: Task 1 in stage 2.0 failed 3 times, most recent failure: Lost task 1.2 in stage 2.0"
    " (TID 55) (host.example executor 7): java.lang.RuntimeException: alice\n\tat org.x.Y$.f(Y.scala:572)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\t... 3 more\nCaused by: org.x.ZException: alice\n": (
        "Job aborted due to stage failure: Task 1 in stage 2.0 failed 3 times, most recent failure: Lost task 1.2 in"
        " stage 2.0 (TID 55) (host.example executor 7): java.lang.RuntimeException: ?\n\tat org.x.Y$.f(Y.scala:572)\n"
        "\tat java.base/java.lang.Thread.run(Thread.java:840)\n\t... 3 more\nCaused by: org.x.ZException: ?"
    ),
    "[PYTHON_EXCEPTION] Worker: Traceback (most recent call last):\n  File \"/app/x.py\", line 3, in f\n"
    "    raise ValueError('alice')\nValueError: alice\n SQLSTATE: 38000": (
        "[PYTHON_EXCEPTION] ?\n  File \"/app/x.py\", line 3, in f\n?\nValueError: ?\nSQLSTATE: 38000"
    ),
    '{"errorClass":"CAST_INVALID_INPUT","messageParameters":{"expression":"alice"}}': "[CAST_INVALID_INPUT] ?",
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] `alice`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['alice]\n+- Range (0, 3)": (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] ? SQLSTATE: 42703\n?"
    ),
    "alice": "?",
    "[ALICE bob] x": "?",
    "": "",
}  # fmt: skip

# As Spark 4.3.0 wrote them: node's name, its text, what is left of it.
PLAN = (
    ("AdaptiveSparkPlan", "AdaptiveSparkPlan isFinalPlan=true", "AdaptiveSparkPlan isFinalPlan=true"),
    ("WholeStageCodegen (5)", "WholeStageCodegen (5)", "WholeStageCodegen (5)"),
    ("ShuffleQueryStage", "ShuffleQueryStage 3", "ShuffleQueryStage 3"),
    ("CollectLimit", "CollectLimit 21", "CollectLimit ?"),
    ("Filter", "Filter (isnotnull(name#1) AND (name#1 = alice smith))", "Filter (isnotnull(name#1) AND (name#1 = ?))"),
    ("Filter", "Filter (isnotnull(name#1) AND (name#1 = bob))", "Filter (isnotnull(name#1) AND (name#1 = ?2))"),
    ("Filter", "Filter (name#1 = Apt#12)", "Filter (name#1 = ?)"),
    ("Filter", "Filter (name#1 IN (alice,SM CASE) OR name#1 LIKE al(i)ce%)", "Filter (name#1 IN (?,?) OR name#1 LIKE ?(?)?)"),
    ("Filter", "Filter (amount#3 > Subquery scalar-subquery#40, [id=#41])",
     "Filter (amount#3 > Subquery scalar-subquery#40, [id=#41])"),
    ("Project", "Project [id#2L, (id#2L % 10) AS k#4L, alice AS alice#5, CASE WHEN (k#4L = 7) THEN alice ELSE bob END AS c#6]",
     "Project [id#2L, (id#2L % ?) AS k#4L, ? AS ?#5, CASE WHEN (k#4L = ?) THEN ? ELSE ? END AS c#6]"),
    ("Project", "Project [alice#5, c#6, cast(amount#3 as decimal(20,2)) AS a#7, my col#8]",
     "Project [?#5, c#6, cast(amount#3 as decimal(20,2)) AS a#7, ?#8]"),
    ("Project", "Project [myudf(k#4L, alice) AS myudf(k, alice)#9]", "Project [?(k#4L, ?) AS ?(?, ?)#9]"),
    ("HashAggregate", "HashAggregate(keys=[k#4L], functions=[partial_count(1), partial_sum((0.2 * amount#3))])",
     "HashAggregate(keys=[k#4L], functions=[partial_count(1), partial_sum((? * amount#3))])"),
    ("Exchange", "Exchange hashpartitioning(pmod(k#4L, 17), 200), ENSURE_REQUIREMENTS, [plan_id=51]",
     "Exchange hashpartitioning(pmod(k#4L, ?), 200), ENSURE_REQUIREMENTS, [plan_id=51]"),
    ("Exchange", "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=52]",
     "Exchange RoundRobinPartitioning(3), REPARTITION_BY_NUM, [plan_id=52]"),
    ("Exchange", "Exchange rangepartitioning(k#4L ASC NULLS FIRST, name#1 DESC NULLS LAST, 4), ENSURE_REQUIREMENTS, [plan_id=53]",
     "Exchange rangepartitioning(k#4L ASC NULLS FIRST, name#1 DESC NULLS LAST, 4), ENSURE_REQUIREMENTS, [plan_id=53]"),
    ("Exchange", "Exchange hashpartitioning(k#4L, c#6, ... 3 more fields), ENSURE_REQUIREMENTS, [plan_id=54]",
     "Exchange hashpartitioning(k#4L, c#6, ... 3 more fields), ENSURE_REQUIREMENTS, [plan_id=54]"),
    ("CometExchange", "CometExchange hashpartitioning(k#4L, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=57]",
     "CometExchange hashpartitioning(k#4L, 8), ENSURE_REQUIREMENTS, CometNativeShuffle, [plan_id=57]"),
    ("ColumnarExchange", "ColumnarExchange hashpartitioning(pmod(k#4L, 17), 8), ENSURE_REQUIREMENTS, [k#4L], [plan_id=58], [shuffle_writer_type=hash]",
     "ColumnarExchange hashpartitioning(pmod(k#4L, ?), 8), ENSURE_REQUIREMENTS, [k#4L], [plan_id=58], [shuffle_writer_type=hash]"),
    ("GpuColumnarExchange", "GpuColumnarExchange gpuhashpartitioning(k#4L, 8), true, [id=#59]",
     "GpuColumnarExchange gpuhashpartitioning(k#4L, 8), true, [id=#59]"),
    ("PhotonShuffleExchangeSink", "PhotonShuffleExchangeSink hashpartitioning(k#4L, 8)",
     "PhotonShuffleExchangeSink hashpartitioning(k#4L, 8)"),
    ("PhotonShuffleMapStage", "PhotonShuffleMapStage EXECUTOR_BROADCAST, [id=#60]",
     "PhotonShuffleMapStage EXECUTOR_BROADCAST, [id=#60]"),
    ("GpuShuffledHashJoin", "GpuShuffledHashJoin [k#4L], [k#4L], Inner, GpuBuildRight, (k#4L > 5), false",
     "GpuShuffledHashJoin [k#4L], [k#4L], Inner, GpuBuildRight, (k#4L > ?), false"),
    ("CometBroadcastExchange", "CometBroadcastExchange HashedRelationBroadcastMode(List(pmod(k#4L, 9)), true), [plan_id=61]",
     "CometBroadcastExchange HashedRelationBroadcastMode(List(pmod(k#4L, ?)), true), [plan_id=61]"),
    ("BroadcastExchange", "BroadcastExchange HashedRelationBroadcastMode(List(coalesce(input[0, bigint, true], 9)),false), [plan_id=55]",
     "BroadcastExchange HashedRelationBroadcastMode(List(coalesce(input[0, bigint, true], ?)),false), [plan_id=55]"),
    ("ReusedExchange", "ReusedExchange [k#4L], Exchange hashpartitioning(k#4L, 8), ENSURE_REQUIREMENTS, [plan_id=56]",
     "ReusedExchange [k#4L], Exchange hashpartitioning(k#4L, 8), ENSURE_REQUIREMENTS, [plan_id=56]"),
    ("BroadcastHashJoin", "BroadcastHashJoin [k#4L], [max(name)#30], LeftAnti, BuildRight, (c#6 < 77), true, false",
     "BroadcastHashJoin [k#4L], [max(?)#30], LeftAnti, BuildRight, (c#6 < ?), true, false"),
    ("SortMergeJoin(skew=true)", "SortMergeJoin(skew=true) [concat(name#1, alice)], [c#6], FullOuter, (k#4L < 3)",
     "SortMergeJoin(skew=true) [concat(name#1, ?)], [c#6], FullOuter, (k#4L < ?)"),
    ("BroadcastNestedLoopJoin", "BroadcastNestedLoopJoin BuildLeft, ExistenceJoin(exists#27), (k#4L > 5)",
     "BroadcastNestedLoopJoin BuildLeft, ExistenceJoin(exists#27), (k#4L > ?)"),
    ("Scan parquet spark_catalog.default.t1",
     "FileScan parquet spark_catalog.default.t1[name#1,amount#3] Batched: true, DataFilters: [(name#1 = alice)], Format: Parquet,"
     " Location: InMemoryFileIndex(1 paths)[file:/t1], PushedFilters: [EqualTo(name,alice)]",
     "FileScan parquet spark_catalog.default.t1[name#1,amount#3] Batched: true, DataFilters: [(name#1 = ?)], Format: Parquet,"
     " Location: InMemoryFileIndex(?)[?], PushedFilters: [EqualTo(name,?)]"),
    ("Scan JDBCRelation((select 'alice', 7 from t) x) [numPartitions=1]",
     "Scan JDBCRelation((select 'alice', 7 from t) x) [numPartitions=1] [k#4L] PushedFilters: [*EqualTo(c,alice)]",
     "Scan JDBCRelation((select ?, ? from t) x) [numPartitions=?] [k#4L] PushedFilters: [*EqualTo(c,?)]"),
    ("SomethingNew", "SomethingNew alice(bob), [k#4L], 12, new=alice", "SomethingNew ?(?), [k#4L], ?, ?"),
)  # fmt: skip


def hostile(length: int) -> list[str]:
    """Texts on which a careless pattern takes for ever or overflows the stack."""
    pieces = [
        "a", "password", "password ", "password=", "password='", "password=,", "password=a,b", "password#1 = ((", "--a ",
        "//", "//a:", "//a:b", "//a:@", "x@", "\\", "\\'", "'", "''", '"', "`", "\n", " ", "(", "[", "]", ",", "a.", "A_",
        "jdbc:oracle:thin:a/", "bearer a", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "-----BEGIN A", "?-", "/*", "a#1 AS ",
        "[a#1, ", "[a b AS ", " at a.b(", "\tat a.b(C.java:1", "Caused by: ", "a.B: ", "java.lang.AError: ", "Error", "[A.B",
        "File \"", "Task 1 in stage 1.0 failed 1 times, most recent failure: ", "EqualTo(", "partial_", "... ", "1",
        "get_token(x, ", "token(a#1, ", "Secret(", "secret.isin(", "password (", "password, ", "'password', ", "password VALUES (",
        "password VALUES ", "'a' = password ", "(a#1 = password#2 ", "(password#1 = password#2 AND ", "x AS password#1, ", "#1[password",
        '"password" + ', "password='a' 'b' ", "password={", "password IN (", "password: str = ", "password=*********(redacted)",
        "Cookie: ", "-u a:", "identified by '", "sk-a1", "A" * 86, "hooks.slack.com/services/", "password#1 = a" + "a" * 90 + "#1 ",
    ]  # fmt: skip
    return [piece * (length // len(piece)) for piece in pieces]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a JVM with the listener's classes: one answer for each question."""
    here = Path(__file__).parent
    path = compile_java(here / "Redact.java", tmp_path_factory.mktemp("classes"), here / "Reads.java")
    command = ["java", *LIGHT, "-Xss512k", "-cp", path, "io.joinsight.capture.Redact"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None and java.stdout is not None
        questions, answers = java.stdin, java.stdout

        def ask(*asked: dict[str, Any]) -> Any:
            questions.write(json.dumps(asked) + "\n")
            questions.flush()
            return json.loads(answers.readline())

        yield ask


@pytest.fixture(scope="module")
def answers(ask: Ask) -> Any:
    """The redacted texts of the tables above: with Spark's default settings, and without literals."""
    plan = [node[:2] for node in PLAN]
    standard = {"texts": [*SECRETS, *HARMLESS], "plan": plan}
    no_literals = {"conf": NO_LITERALS, "statements": list(STATEMENTS), "errors": list(ERRORS), "plan": plan}
    return dict(zip(("standard", "no literals"), ask(standard, no_literals), strict=True))


@pytest.mark.parametrize("number", range(len(SECRETS)), ids=[text[:40] for text in SECRETS])
def test_secrets_are_masked(answers: Any, number: int) -> None:
    """A credential's value is masked, the rest of the text stays readable."""
    text = list(SECRETS)[number]
    assert answers["standard"]["texts"][number] == SECRETS[text]


def test_what_only_sounds_secret_stays(answers: Any) -> None:
    """Columns, schemas, files and places named after secrets stay, so that plans can be read."""
    assert answers["standard"]["texts"][len(SECRETS) :] == list(HARMLESS)


def test_plans_stay_as_they_are(answers: Any) -> None:
    assert answers["standard"]["plan"] == [[name, simple] for name, simple, _ in PLAN]


@pytest.mark.parametrize("number", range(len(STATEMENTS)))
def test_statements_without_literals(answers: Any, number: int) -> None:
    """Strings, numbers and comments go from SQL; names and places in source files stay."""
    text = list(STATEMENTS)[number]
    assert answers["no literals"]["statements"][number] == STATEMENTS[text]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_errors_without_literals(answers: Any, number: int) -> None:
    """An error keeps classes, SQLSTATE and stack traces; its message is removed."""
    text = list(ERRORS)[number]
    assert answers["no literals"]["errors"][number] == ERRORS[text]


@pytest.mark.parametrize("number", range(len(PLAN)), ids=[f"{name} {number}" for number, (name, *_) in enumerate(PLAN)])
def test_plans_without_literals(answers: Any, number: int) -> None:
    """Known structure stays in a plan and all else is removed; different texts stay different."""
    assert answers["no literals"]["plan"][number][1] == PLAN[number][2]


def test_plans_without_literals_are_read_as_before(answers: Any) -> None:
    """Partitioning, partitions, keys, join type and build side can be read from a text without literals."""
    simple = [text for _, text in answers["no literals"]["plan"]]
    shuffles = [shuffle_text(text) for text in simple if text.startswith("Exchange")]
    assert shuffles[0] == ShuffleText("hashpartitioning", ("pmod(k#4L, ?)",), 200, "ENSURE_REQUIREMENTS")
    assert [shuffle.partitions for shuffle in shuffles] == [200, 3, 4, None]
    assert [join_text(text.split(" ")[0], text) for text in simple if "Join" in text.split(" ")[0]] == [
        JoinText("ShuffledHashJoin", "Inner", "right", ("k#4L",), ("k#4L",), "(k#4L > ?)"),
        JoinText("BroadcastHashJoin", "LeftAnti", "right", ("k#4L",), ("max(?)#30",), "(c#6 < ?)"),
        JoinText("SortMergeJoin", "FullOuter", None, ("concat(name#1, ?)",), ("c#6",), "(k#4L < ?)", True),
        JoinText("BroadcastNestedLoopJoin", "ExistenceJoin", "left", condition="(k#4L > ?)"),
    ]


def test_patterns_of_spark_are_honoured(ask: Ask) -> None:
    """Spark's patterns are honoured: on properties by key and value, on texts in the SparkConf and in a session."""
    properties = {"my.secret.key": "x", "a": "my token", "b": "harmless", "c": "jdbc:x://u:pw@h"}
    masked = {"my.secret.key": MASK, "a": MASK, "b": "harmless", "c": f"jdbc:x://{MASK}@h"}
    texts = ["card 1234 of alice", "x (pin 77)", "colour=red"]
    both = {"spark.redaction.string.regex": r"\d{4}", "spark.sql.redaction.string.regex": "al[a-z]+"}
    session = {"spark.sql.redaction.string.regex": "pin \\d+", "spark.sql.redaction.options.regex": "colour"}
    answers = ask(
        {"properties": properties},
        {"properties": properties, "conf": {"spark.redaction.regex": "^b$|har"}},
        {"texts": texts},
        {"texts": texts, "conf": both},
        {"texts": texts, "session": session},
        {"texts": texts, "session": {"spark.sql.redaction.string.regex": MASK}},
        {"texts": texts, "conf": {"spark.redaction.regex": "colour"}},
    )
    assert answers[0]["properties"] == masked
    assert answers[1]["properties"] == {**properties, "b": MASK, "c": masked["c"]}
    assert [answer["texts"] for answer in answers[2:]] == [
        texts,
        [f"card {MASK} of {MASK}", "x (pin 77)", "colour=red"],
        ["card 1234 of alice", f"x ({MASK})", f"colour={MASK}"],
        [MASK, MASK, MASK],
        ["card 1234 of alice", "x (pin 77)", f"colour={MASK}"],
    ]


def test_metadata_without_literals(ask: Ask) -> None:
    """Filters lose their literals, names of the plan's columns stay; schema and location stay, without credentials."""
    metadata = {
        "DataFilters": "[isnotnull(name#1), (name#1 = alice), name#1 INSET alice, bob]",
        "PushedFilters": "[IsNotNull(name), EqualTo(name,alice), In(name, [alice,bob]), EqualTo(other,alice)]",
        "PartitionFilters": "[]",
        "ReadSchema": "struct<name:string,n:decimal(15,2)>",
        "Location": "InMemoryFileIndex(1 paths)[s3a://u:hunter2@bucket/day=1]",
        "New": "alice",
    }
    (answer,) = ask(
        {"conf": NO_LITERALS, "plan": [["Scan parquet ", "FileScan parquet [name#1]"]], "metadata": metadata}
    )
    assert answer["metadata"] == {
        "DataFilters": "[isnotnull(name#1), (name#1 = ?), name#1 INSET ?, ?]",
        "PushedFilters": "[IsNotNull(name), EqualTo(name,?), In(name, [?,?]), EqualTo(?,?)]",
        "PartitionFilters": "[]",
        "ReadSchema": metadata["ReadSchema"],
        "Location": f"InMemoryFileIndex(1 paths)[s3a://{MASK}@bucket/day=1]",
        "New": "?",
    }


def test_the_table_of_a_command_without_literals(ask: Ask) -> None:
    """It is found among the arguments, where it may be a literal; so a command is told by its line of code."""
    metadata = {"Command": "SubqueryAlias s, (id#1L = 7), true", "Table": "`alice`.`bob`"}
    kept, removed = ask({"metadata": metadata}, {"conf": NO_LITERALS, "metadata": metadata})
    assert kept["metadata"] == metadata
    assert removed["metadata"] == {"Command": "?, (id#1L = ?), true"}


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("spark.redaction.regex", "(", "spark.redaction.regex=( is not a valid regular expression (Unclosed group)"),
        ("spark.redaction.string.regex", "[", "spark.redaction.string.regex=[ is not a valid regular"),
        ("spark.sql.redaction.string.regex", "*", "spark.sql.redaction.string.regex=* is not a valid regular"),
        ("spark.sql.redaction.options.regex", "a{", "spark.sql.redaction.options.regex=a{ is not a valid regular"),
        ("spark.joinsight.redactLiterals", "yes", "spark.joinsight.redactLiterals=yes is neither true nor false"),
    ],
)
def test_bad_settings_are_named(ask: Ask, key: str, value: str, problem: str) -> None:
    """An invalid setting is reported as a problem, which switches the listener off."""
    (answer,) = ask({"conf": {key: value}})
    (found,) = answer["problems"]
    assert found.startswith(problem)


def patterns() -> Iterator[tuple[str, str, str]]:
    """Name, pattern and use of all rules."""
    rules = json.loads((Path(__file__).parents[2] / "listener" / "redaction.json").read_bytes())
    for name, rule in rules.items():
        for number, each in enumerate(rule if isinstance(rule, list) else [rule]):
            if isinstance(each, dict) and "pattern" in each:
                how = "find" if name in ("shapes", "names", "url", "ciphers", "word") else "match"
                how = "end" if name in ("left", "field", "predicate") else how
                yield f"{name} {number}", "|".join(each["pattern"]), how


@pytest.mark.matrix
def test_the_work_of_the_rules_grows_with_the_text(ask: Ask) -> None:
    """Four times the text are about four times the characters that a pattern reads of it, not sixteen times."""
    texts = [[*hostile(size), *hostile(4 * size)] for size in (1_000, 2_000)]
    rules = list(patterns())
    questions = ({"pattern": pattern, "how": how, "texts": texts[how == "find"]} for _, pattern, how in rules)
    for (name, _, how), answer in zip(rules, ask(*questions), strict=True):
        short, long = answer["reads"][: len(hostile(1))], answer["reads"][len(hostile(1)) :]
        cases = zip(texts[how == "find"], short, long, strict=False)
        assert not {text[:20]: (a, b) for text, a, b in cases if b > 6 * a + 10_000}, name


@pytest.mark.parametrize("size", [5_000, pytest.param(20_000, marks=pytest.mark.matrix)])
def test_long_texts_overflow_no_stack(ask: Ask, size: int) -> None:
    """In a long text only what looks secret is masked, whatever the text contains and even with a small stack."""
    texts = hostile(size)
    plan = [["Filter", f"Filter {text}"] for text in texts]
    questions: list[dict[str, Any]] = [{"texts": [text], "statements": [text], "errors": [text]} for text in texts]
    questions += [{"conf": NO_LITERALS, "statements": [text], "errors": [text]} for text in texts]
    questions += [{"conf": NO_LITERALS, "plan": [node]} for node in plan]
    answers = ask(*questions)
    masked = [text[:20] for text, answer in zip(texts, answers, strict=False) if answer["texts"] == [MASK]]
    assert masked == ["-----BEGIN PRIVATE K", "sk-a1sk-a1sk-a1sk-a1"]


SLOW = ["(a|b)*c", "(a+)+c", r"(?=(a+))a*b?\1c"]
SLOWER = ["(a|a)*c", "(.*)*c", "((a{0,50}){0,50}){0,50}c"]
"""Patterns of a user's that overflow the stack, or take years."""


@pytest.mark.parametrize("patterns", [SLOW, pytest.param(SLOWER, marks=pytest.mark.matrix)])
def test_patterns_of_the_user_end(ask: Ask, patterns: list[str]) -> None:
    """A text on which a pattern takes too long or overflows the stack is masked completely; later ones are not affected."""
    key = "spark.sql.redaction.string.regex"
    texts = ["x", "ab" * 100_000, *["a" * 5_000] * 30, "y"]
    questions: list[dict[str, Any]] = [{"conf": {key: pattern}, "texts": texts} for pattern in patterns]
    questions += [{"session": {key: pattern}, "texts": texts} for pattern in patterns[1:2]]
    questions += [{"conf": {"spark.redaction.regex": patterns[1]}, "properties": {"k": "a" * 5_000, "b": "c"}}]
    *answers, properties = ask(*questions)
    for answer in answers[: len(patterns)]:
        assert answer["texts"][0] == "x" and answer["texts"][2:-1] == [MASK] * 30
        assert answer["texts"][-1] == MASK, "a pattern that failed ten times is not tried any more"
    assert all(answer["texts"][2:] == [MASK] * 31 for answer in answers[len(patterns) :])
    assert properties["properties"] == {"k": MASK, "b": MASK}
