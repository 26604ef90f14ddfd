"""Java and Python mask the same: the listener in the driver, the backfill in its logs, byte for byte.

One JVM answers all questions of this module.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.java import compile_java
from tests.listener.test_redaction import ERRORS, HARMLESS, PLAN, SECRETS, STATEMENTS, hostile

from joinsight.eventlog import settings as of_log
from joinsight.eventlog.redaction import Redaction

TESTS = Path(__file__).parent.parent
Ask = Callable[[list[str], dict[str, str], dict[str, str]], Any]

# What texts are made of: names, what links them to values, values, and what is in the way
PIECES = [
    "password", "PASSWORD", "db.password", "token", "secret", "Secret", "auth", "basicAuth", "HTTPBasicAuth", "DB_PASS", "api_key",
    "access.key", "sig", "url", "bypass", "author", "monkey", "orderkey", "aes_decrypt", "hmac", "k", "name", "x", "value", "default",
    "lower", "trim", "cast", "lit", "EqualTo", "StartsWith", "In", "coalesce", "hashpartitioning", "Filter", "Project", "Subquery",
    "#1", "#22L", "#", " as string", " as decimal(20,2)", "count(1)", "true", "null", "hunter2", "hunter 2", "12", "1234",
    "=", " = ", "==", "!=", "<>", "<=>", "<", " > ", "->", "=>", ":", ": ", ":=", " IN ", " NOT IN ", " LIKE ", " BETWEEN ", " AND ",
    " OR ", " AS ", " IS ", " INSET ", ".isin(", ".alias(", ".as(", " VALUES ", "values", " when ", "%3D", ": str = ", ": Optional[str] = ",
    "(", ")", "[", "]", "{", "}", "{}", ",", ", ", ";", "&", "|", "+", " + ", "%", ".format(", "'", '"', "`", "\\", "\\'", '\\"', "''", "/",
    "//", "://", "@", "a@b", ":8080/", ".", "-", "--", "_", "*********(redacted)", " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c",
    "\x85", "\u00a0", "\u2028", "\u3000", "\x00", "f'", 'r"', "Bearer ", "Basic ", "Authorization: ", "Cookie: ", "Location: ", ".py", ".py:12",
    "X.java:3)", "Native Method)", "string", "struct<", "AKIAIOSFODNN7EXAMPLE", "eyJhbGciOi.eyJzdWIiOi.x", "glpat-aaaaaaaaaaaaaaaaaaa1",
    "sk-", "hvs.", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "jdbc:oracle:thin:", "hooks.slack.com/services/", "-u ",
    "IDENTIFIED BY ", "select ", "A" * 86 + "==", "é", "ſecret", "to\u212aen", "\u0130", "ß", "σς", "😀", "\U0001f4a9password", "٣", "new ",
    "Redact😀" * 40, "a" * 120, "((((((((", "))))))", "😀" * 150,
]  # fmt: skip


def generated(seed: int, count: int) -> list[str]:
    """Texts of these pieces, and of the tables of test_redaction cut and put together anew."""
    chance = random.Random(seed)
    known = [*SECRETS, *HARMLESS, *STATEMENTS, *ERRORS, *(simple for _, simple, _ in PLAN)]
    texts = []
    for _ in range(count):
        parts = [chance.choice(PIECES) for _ in range(chance.randint(1, 14))]
        if chance.random() < 0.5:
            text = chance.choice(known)
            at = chance.randint(0, len(text))
            parts[len(parts) // 2 :] = [text[:at], chance.choice(PIECES), text[at:]]
        texts.append("".join(parts))
    return texts


def recorded() -> Iterator[str]:
    """All strings of the documents that tests have recorded."""
    files = [*sorted((TESTS / "corpus").glob("*.ndjson"))]
    lines = [line for file in files for line in file.read_bytes().splitlines()]
    lines += gzip.decompress((TESTS / "findings" / "recordings.ndjson.gz").read_bytes()).splitlines()
    found: dict[str, None] = {}
    open_values: list[Any] = [json.loads(line) for line in lines if line.strip()]
    while open_values:
        value = open_values.pop()
        if isinstance(value, str):
            found[value] = None
        elif isinstance(value, dict):
            open_values += value.values()
        elif isinstance(value, list):
            open_values += value
    yield from found


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """What the listener makes of texts, with these settings of the application and of the session."""
    path = compile_java(TESTS / "listener" / "Redact.java", tmp_path_factory.mktemp("classes"))
    command = ["java", "-Xss512k", "-cp", path, "io.joinsight.Redact"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as java:
        assert java.stdin and java.stdout
        stdin, stdout = java.stdin, java.stdout

        def ask(texts: list[str], conf: dict[str, str], session: dict[str, str]) -> Any:
            question = [{"texts": texts, "conf": conf, "session": session, "isConfigured": not texts}]
            stdin.write(json.dumps(question).encode() + b"\n")
            stdin.flush()
            (answer,) = json.loads(stdout.readline())
            return answer

        yield ask
        stdin.close()


def assert_same(
    ask: Ask, texts: list[str], conf: dict[str, str] | None = None, session: dict[str, str] | None = None
) -> None:
    redaction = Redaction(conf or {}).of_session(session or {})
    ours = [redaction.text(text) for text in texts]
    theirs = ask(texts, conf or {}, session or {})["texts"]
    different = [case for case in zip(texts, ours, theirs, strict=True) if case[1] != case[2]]
    assert not different, (
        f"{len(different)} of {len(texts)}, the shortest: {min(different, key=lambda case: len(case[0]))}"
    )


def test_known_texts(ask: Ask) -> None:
    """All texts of the other tests, what is recorded of Spark, and texts made to be slow."""
    texts = [*SECRETS, *HARMLESS, *STATEMENTS, *ERRORS, *(simple for _, simple, _ in PLAN), *recorded(), *hostile(3000)]
    assert len(texts) > 1000
    assert_same(ask, texts)


def test_generated_texts(ask: Ask) -> None:
    """30,000 texts out of names, signs, quotes, brackets, blanks and letters of many kinds."""
    assert_same(ask, generated(17, 30_000))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)).filter(str.isprintable), max_size=12).map("".join)
)
def test_any_text(ask: Ask, text: str) -> None:
    """Whatever its characters are."""
    assert_same(ask, [text, text * 3])


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.redaction.regex": "colour|^b$"},
        {"spark.redaction.regex": ""},
        {"spark.sql.redaction.options.regex": "x"},
        {"spark.redaction.string.regex": r"\d{2,4}", "spark.sql.redaction.string.regex": r"(?i)hunter\s?\d|al[a-z]+$"},
        {"spark.redaction.string.regex": r"[^\s\p{L}]*|\bpass\b"},
        {"spark.redaction.string.regex": "password"},
    ],
    ids=str,
)
def test_settings_of_the_application_and_of_a_session(ask: Ask, settings: dict[str, str]) -> None:
    """Patterns of their owner find the same, in the application's settings and in a session's."""
    texts = [*SECRETS, *HARMLESS, *generated(4, 1000), "colour=red", "b=red", "abc=red", "hunter 2\n", "al\n"]
    # Where RE2 differs from Java: it finds these letters, too, and takes no vertical tab for a blank
    texts = [text for text in texts if not set("\u017f\u212a\x0b") & set(text)]
    assert_same(ask, texts, settings)
    assert_same(ask, texts, {}, settings)


def test_settings_that_a_session_changed_are_masked_by_its_own_patterns(ask: Ask) -> None:
    """Not by the application's alone."""
    conf = {"spark.sql.adaptive.x": "colour=red", "spark.sql.shuffle.partitions": "4", "spark.executor.cores": "2"}
    session = {"spark.sql.adaptive.y": "colour=red, pin 77", "spark.sql.redaction.options.regex": "colour"}
    session["spark.sql.redaction.string.regex"] = r"pin \d+"
    redaction = Redaction(conf)
    of_application = redaction.properties(of_log.allowed(conf))
    ours = of_log.of_session(of_application, redaction.of_session(session).properties(of_log.allowed(session)))
    assert ours["spark.sql.adaptive.y"] == "colour=*********(redacted), *********(redacted)"
    assert ask([], conf, session)["configuration"] == ours
