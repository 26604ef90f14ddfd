"""The thresholds of all findings, also in docs/findings.md; `joinsight serve` overrides them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from joinsight.analysis.rows import byte_size
from joinsight.base.errors import ConfigurationError, ConfigurationErrors
from joinsight.verdict import LARGEST_PART_SHARE

OPTION = "--finding-threshold"
VARIABLE = "JOINSIGHT_FINDING_THRESHOLDS"


def _threshold(default: float, unit: str, meaning: str) -> Any:
    return dataclasses.field(default=default, metadata={"unit": unit, "meaning": meaning})


_MB = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True)
class Thresholds:
    """Each with its default, its unit (bytes may be written like ``64m``) and its meaning."""

    wall_share: float = _threshold(
        0.2, "share", "findings about time: minimum share of the execution's wall time at stake, and"
    )
    wall_ms: float = _threshold(1_000, "ms", "findings about time: minimum wall time at stake")
    largest_part_share: float = _threshold(
        LARGEST_PART_SHARE, "share", "largest-part: minimum share of the execution's wall time, and"
    )
    largest_part_ms: float = _threshold(2_000, "ms", "largest-part, contention: minimum wall time")
    broadcast_near_share: float = _threshold(
        0.8,
        "share",
        "broadcast-near-threshold: minimum share of the threshold, or of the most that Spark can broadcast",
    )
    broadcast_growth_ratio: float = _threshold(
        1.1,
        "ratio",
        "broadcast-near-threshold: minimum ratio of its rows to the median of its earlier runs, to count as growing",
    )
    broadcast_growth_runs: float = _threshold(
        5, "runs", "broadcast-near-threshold: minimum number of earlier runs to detect growth"
    )
    broadcast_bytes: float = _threshold(
        64 * _MB,
        "bytes",
        "broadcast-not-worth-it, broadcast-slow: minimum size in memory; smaller ones take long in busy drivers only",
    )
    broadcast_not_worth_ratio: float = _threshold(
        2, "ratio", "broadcast-not-worth-it: minimum ratio of rows of the broadcast to rows of the other side"
    )
    skew_ratio: float = _threshold(
        5, "ratio", "hidden-skew: minimum ratio of the largest to the median task, by rows or by bytes"
    )
    hidden_skew_partitions: float = _threshold(
        2_000,
        "count",
        "hidden-skew: the application's spark.shuffle.minNumPartitionsToHighlyCompress; with more partitions AQE knows"
        " only mean sizes",
    )
    nested_loop_pairs: float = _threshold(1e6, "pairs", "nested-loop-join: minimum pairs of rows to compare")
    fetch_wait_share: float = _threshold(0.3, "share", "fetch-wait: minimum share of the run time of the reading tasks")
    stream_state_rows: float = _threshold(100_000, "rows", "stream-state: minimum rows of state")
    driver_result_bytes: float = _threshold(
        10 * _MB,
        "bytes",
        "driver-collect: minimum bytes that tasks sent for a broadcast or as the result; below it, the time has"
        " another cause",
    )
    rewritten_rows: float = _threshold(
        100_000, "rows", "rewritten-rows: minimum number of rows that were copied without change, and"
    )
    rewritten_share: float = _threshold(0.5, "share", "rewritten-rows: minimum share of them of the rows written")
    unpruned_files: float = _threshold(100, "count", "unpruned-files: minimum number of files that were read, and")
    unpruned_share: float = _threshold(0.1, "share", "unpruned-files: maximum share of them that had such rows")

    def overridden(self, settings: Iterable[str], origin: str = OPTION) -> Thresholds:
        """With these settings, ``NAME=VALUE`` each; of bytes, a value may be written like ``64m``.

        Raises `ConfigurationErrors`: one for each unknown threshold or invalid number. `origin` is where the settings
        come from.
        """
        known = {field.name: field for field in dataclasses.fields(Thresholds)}
        changed: dict[str, float] = {}
        errors: list[ConfigurationError] = []
        for setting in settings:
            name, _, value = (part.strip() for part in setting.partition("="))
            if name not in known:
                remedy = f"Write NAME=VALUE, one of {', '.join(known)}."
                errors.append(ConfigurationError(origin, setting, f"there is no threshold {name!r}", remedy))
                continue
            unit = known[name].metadata["unit"]
            number = _number(value, unit)
            if number is None:
                remedy = f"Write {name}=NUMBER, in {unit}{', or like 64m' if unit == 'bytes' else ''}."
                errors.append(ConfigurationError(origin, setting, f"{value!r} is not a number of 0 or more", remedy))
            else:
                changed[name] = number
        if errors:
            raise ConfigurationErrors(errors)
        return dataclasses.replace(self, **changed)


def _number(text: str, unit: str) -> float | None:
    size = byte_size(text, None) if unit == "bytes" else None
    try:
        number = float(text) if size is None else size
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def split(text: str) -> list[str]:
    """The settings in ``"a=1, b=2"``, as an environment variable has them."""
    return [part.strip() for part in text.split(",") if part.strip()]
