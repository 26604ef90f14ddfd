"""From which numbers on something is a finding: one table, in docs/findings.md too; `joinsight serve` overrides it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from joinsight.errors import ConfigurationError, ConfigurationErrors
from joinsight.rows import byte_size

OPTION = "--finding-threshold"
VARIABLE = "JOINSIGHT_FINDING_THRESHOLDS"


def _threshold(default: float, unit: str, meaning: str) -> Any:
    return dataclasses.field(default=default, metadata={"unit": unit, "meaning": meaning})


_MB = 1 << 20
_GB = 1 << 30


@dataclasses.dataclass(frozen=True, slots=True)
class Thresholds:
    """Each with its standard, its unit (of bytes, values may be written like ``64m``) and what it means."""

    broadcast_near_share: float = _threshold(
        0.8, "share", "broadcast-near-threshold: of the threshold, or of what Spark can broadcast at all, from here on"
    )
    broadcast_growth_ratio: float = _threshold(
        1.1, "ratio", "broadcast-near-threshold: it grows if its rows are so many times the median of its earlier runs"
    )
    broadcast_growth_runs: float = _threshold(
        5, "runs", "broadcast-near-threshold: earlier runs that are needed to say that it grows"
    )
    broadcast_not_worth_bytes: float = _threshold(
        100 * _MB, "bytes", "broadcast-not-worth-it: least size of it in memory"
    )
    broadcast_not_worth_ratio: float = _threshold(
        2, "ratio", "broadcast-not-worth-it: rows of the broadcast to rows of the other side at least"
    )
    missed_broadcast_bytes: float = _threshold(
        100 * _MB, "bytes", "missed-broadcast: least size of the other side, which need not have been shuffled"
    )
    skew_ratio: float = _threshold(5, "ratio", "skewed-shuffle: largest to median task, by rows or by bytes")
    skew_rows: float = _threshold(1_000_000, "rows", "skewed-shuffle: least rows of the largest task; or")
    skew_bytes: float = _threshold(64 * _MB, "bytes", "skewed-shuffle: least bytes of the largest task")
    tiny_partitions: float = _threshold(1_000, "count", "tiny-partitions: least number of partitions that are read")
    tiny_partition_bytes: float = _threshold(_MB, "bytes", "tiny-partitions: their mean size at most")
    huge_partition_bytes: float = _threshold(512 * _MB, "bytes", "huge-partitions: mean size of a partition at least")
    spill_bytes: float = _threshold(_GB, "bytes", "spill: bytes on disk; a warning from here on")
    spill_critical_bytes: float = _threshold(100 * _GB, "bytes", "spill: critical from here on")
    exploding_ratio: float = _threshold(10, "ratio", "exploding-join: rows out to rows of the larger side at least")
    exploding_rows: float = _threshold(10_000_000, "rows", "exploding-join: rows out at least")
    nested_loop_pairs: float = _threshold(
        1e9, "pairs", "nested-loop-join: pairs of rows to be compared; a warning from here on"
    )
    nested_loop_critical_pairs: float = _threshold(1e12, "pairs", "nested-loop-join: critical from here on")
    repeated_shuffle_bytes: float = _threshold(
        100 * _MB, "bytes", "repeated-shuffle: least bytes that were written once more"
    )
    fetch_wait_share: float = _threshold(0.3, "share", "fetch-wait: of the run time of the tasks that read")
    fetch_wait_ms: float = _threshold(60_000, "ms", "fetch-wait: least wait, summed over tasks")
    cache_ms: float = _threshold(60_000, "ms", "cache-read-once: least run time of the tasks that filled it")
    driver_share: float = _threshold(0.5, "share", "driver-collect: of the time that the execution took")
    driver_alone_ms: float = _threshold(10_000, "ms", "driver-collect: least time of the driver without tasks")
    driver_result_bytes: float = _threshold(
        10 * _MB,
        "bytes",
        "driver-collect: least bytes that tasks sent for a broadcast or as the result; below it, the time is something"
        " else's",
    )
    late_replan_bytes: float = _threshold(
        _GB, "bytes", "late-replan: least bytes that had been written when AQE no longer needed them"
    )

    def overridden(self, settings: Iterable[str], origin: str = OPTION) -> Thresholds:
        """With these settings, ``NAME=VALUE`` each; of bytes, a value may be written like ``64m``.

        Raises `ConfigurationErrors`: one for each that is no threshold, or no number from 0 on. `origin` is where the
        settings come from.
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
                errors.append(ConfigurationError(origin, setting, f"{value!r} is no number from 0 on", remedy))
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
