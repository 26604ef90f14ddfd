"""Secrets in a log's texts are masked as in the driver, by the patterns in the log."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.eventlog.recorded import SQL, read_events
from tests.listener.test_redaction import MASK

from joinsight.contract.document import Document, Execution

RULES = json.loads((Path(__file__).parents[2] / "listener" / "redaction.json").read_bytes())
STANDARD = "(?i)secret|password|token|access[.]?key"


def read_log(
    folder: Path, texts: list[str], conf: Mapping[str, str], session: Mapping[str, str] | None = None
) -> list[Document]:
    """The documents of a log of an application with these settings; each text is the description of an execution."""
    events: list[dict[str, Any]] = [
        {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": conf},
        {"Event": "SparkListenerApplicationStart", "App Name": "a", "App ID": "local-1", "Timestamp": 1, "User": "u"},
    ]
    for number, text in enumerate(texts):
        own = {"executionId": number, "time": 2, "description": text, "details": "", "modifiedConfigs": session or {}}
        properties = {"spark.sql.execution.id": str(number), "sql.streaming.queryId": text}
        properties["streaming.sql.batchId"] = "7"
        events += [
            {"Event": f"{SQL}Start", **own},
            {"Event": "SparkListenerJobStart", "Job ID": number, "Submission Time": 3, "Properties": properties},
            {"Event": "SparkListenerJobEnd", "Job ID": number, "Job Result": {"Result": "JobSucceeded"}},
            {"Event": f"{SQL}End", "executionId": number, "time": 4},
        ]
    return read_events(folder, events)


def descriptions(documents: list[Document]) -> list[str]:
    return [document.description for document in documents if isinstance(document, Execution)]


def test_the_patterns_that_the_log_tells_of_mask_its_texts(tmp_path: Path) -> None:
    """Those of the application and of the session; a streaming query's id is a text, too."""
    conf = {"spark.redaction.string.regex": r"\d{4}", "spark.sql.adaptive.x": "pin 77"}
    session = {"spark.sql.redaction.string.regex": r"pin \d+", "spark.sql.adaptive.y": "pin 78 of 1234"}
    (document, *_) = read_log(tmp_path, ["of 1234 and pin 5"], conf, session)
    assert isinstance(document, Execution)
    assert document.description == document.streaming_query_id == f"of {MASK} and {MASK}"
    assert document.streaming_batch_id == 7
    assert document.configuration == {"spark.sql.adaptive.x": "pin 77", "spark.sql.adaptive.y": f"{MASK} of {MASK}"}


@pytest.mark.parametrize("pattern", [MASK, "(?<x", "["])
def test_a_pattern_that_is_not_known_masks_every_text(tmp_path: Path, pattern: str) -> None:
    """Spark masks patterns that look secret in the log itself, in the settings of the application and of a session."""
    setting = {"spark.sql.redaction.string.regex": pattern}
    assert descriptions(read_log(tmp_path, ["a text"], setting)) == [MASK]
    assert descriptions(read_log(tmp_path, ["a text"], {}, setting)) == [MASK]


def test_sparks_own_pattern_of_names_is_in_force_where_the_log_masks_it(tmp_path: Path) -> None:
    """It contains words that it masks, so a log never shows that it was set to what it is anyway."""
    for pattern in (MASK, STANDARD):
        conf = {"spark.redaction.regex": pattern, "spark.sql.redaction.options.regex": pattern}
        assert descriptions(read_log(tmp_path, ["a text", "token=x"], conf)) == ["a text", f"token={MASK}"]


def test_texts_that_come_again_are_masked_again(tmp_path: Path) -> None:
    """This holds even if there are more texts than the cache keeps."""
    texts = [f"password=a{number}" for number in range(10_100)] * 2
    assert set(descriptions(read_log(tmp_path, texts, {}))) == {f"password={MASK}"}


PREFIXES = [
    "AIza",
    "ya29.",
    "GOCSPX-",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "gldt-",
    "glrt-",
    "glcbt-",
    "glptt-",
    "glsa_",
    "glc_",
    "hvs.",
    "hvb.",
    "hvr.",
    "sk-",
    "sk_live_",
    "rk_test_",
    "whsec_",
    "xoxb-",
    "xoxe.",
    "xapp-",
    "dapi",
    "dkea",
    "hf_",
    "npm_",
    "pypi-",
    "SG.",
    "dop_v1_",
    "doo_v1_",
    "dckr_pat_",
    "ATATT3",
    "shpat_",
    "shpss_",
    "sq0atp-",
    "lin_api_",
    "NRAK-",
    "nvapi-",
    "pscale_tkn_",
    "AGE-SECRET-KEY-1",
    "gsk_",
    "tskey-",
]


def test_keys_of_services_are_known_by_their_prefix(tmp_path: Path) -> None:
    """Wherever they stand; a word that only begins so stays."""
    key = "hunter2Hunter2hunter2"
    texts = [text for p in PREFIXES for text in (f"x {p}{key}, y", f"x{p}{key}", f"a {p}some-long-name")]
    expected = [text for p in PREFIXES for text in (f"x {MASK}, y", f"x{p}{key}", f"a {p}some-long-name")]
    assert descriptions(read_log(tmp_path, texts, {})) == expected


@pytest.mark.parametrize("rule", [*RULES["shapes"], *RULES["names"]], ids=lambda rule: str(rule["stems"])[:60])
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_one_of_the_stems_is_in_all_that_a_pattern_finds(rule: dict[str, list[str]], data: st.DataObject) -> None:
    """Texts are made from the pattern, and its stems are looked for in small letters."""
    pattern = re.compile("|".join(rule["pattern"]), re.ASCII)
    m = pattern.search(data.draw(st.from_regex(pattern, alphabet=st.characters(max_codepoint=127))))
    assert m and any(stem in m[0].lower() for stem in rule["stems"])
