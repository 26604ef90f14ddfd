"""Numbers with their units, as people read them: ``2.0 KiB``, ``1.0 s``, ``1 min 48 s``, ``23,000×``.

Sizes have the units of Spark's UI. Source: ``Utils.bytesToString``.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

_BYTES = [(1 << 60, "EiB"), (1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
_MINUTE, _HOUR = 60, 3_600
_LONG_HOURS = 100
_EXACT_RATIO, _ROUNDED_RATIO = 100, 1_000


def value_text(kind: str, value: int) -> str:
    """A single value of a metric of this type, with its unit."""
    return FORMATS.get(kind, "{:,}".format)(value)


def bytes_text(size: int) -> str:
    """``1,999 B``, ``2.0 KiB``: as in Spark, a unit is used from twice its size on."""
    for unit, name in _BYTES:
        if size >= 2 * unit:
            return f"{round_half_up(size / unit, 1)} {name}"
    return f"{size:,} B"


def duration_text(ms: int) -> str:
    """``999 ms``, ``1.0 s``, ``1 min 48 s``, ``2 h 5 min``, ``1,200 h``."""
    if ms < 1_000:
        return f"{ms} ms"
    seconds = round_half_up(ms / 1_000, 1)
    if seconds < _MINUTE:
        return f"{seconds} s"
    whole = int(round_half_up(ms / 1_000, 0))
    if whole < _HOUR:
        return _two(whole, _MINUTE, "min", 1, "s")
    if whole < _LONG_HOURS * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "min")
    return f"{round_half_up(ms / 3_600_000, 0):,} h"


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    """An amount in two units, without the small one where it is 0."""
    rounded = (whole + small // 2) // small * small
    rest = rounded % large // small
    return f"{rounded // large:,} {large_name}" + (f" {rest} {small_name}" if rest else "")


def ratio_text(ratio: float | None) -> str:
    """``6.3×``, ``230×``, ``23,000×``: two digits from 1,000 on; empty for None."""
    if ratio is None:
        return ""
    if ratio < _EXACT_RATIO:
        return f"{ratio:.1f}×"
    return f"{float(f'{ratio:.2g}') if ratio >= _ROUNDED_RATIO else ratio:,.0f}×"


def percent_text(share: float) -> str:
    """``85 %``."""
    return f"{share * 100:,.0f} %"


def times(ratio: float) -> str:
    """``7.3 times``, ``120 times``."""
    return f"{ratio:,.1f} times" if ratio < 100 else f"{ratio:,.0f} times"


def first_up(sentence: str) -> str:
    """With a capital letter."""
    return sentence[:1].upper() + sentence[1:]


def _nanoseconds(ns: int) -> str:
    return duration_text(ns // 1_000_000)


def _average(tenfold: int) -> str:
    return f"{Decimal(repr(float(tenfold) / 10)):,f}".removesuffix(".0")


def round_half_up(x: float, digits: int) -> Decimal:
    """As Java's ``%.nf`` does: half up on the decimal digits, where Python's ``%`` takes the exact binary value."""
    return Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


FORMATS = {"size": bytes_text, "timing": duration_text, "nsTiming": _nanoseconds, "average": _average}
"""How to write a value of each type of metric that has a unit."""
