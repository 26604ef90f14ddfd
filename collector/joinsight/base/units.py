"""Numbers with their units, as Spark's UI writes them: ``2.0 KiB``, ``1.0 s``.

Source: ``Utils.bytesToString``, ``Utils.msDurationToString``.
"""

from __future__ import annotations

import struct
from decimal import ROUND_HALF_UP, Decimal

_BYTES = [(1 << 60, "EiB"), (1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
_DURATIONS = [(60_000, 1_000, "s", 1), (3_600_000, 60_000, "m", 1)]


def value_text(kind: str, value: int) -> str:
    """A single value of a metric of this type, with its unit."""
    return FORMATS.get(kind, "{:,}".format)(value)


def bytes_text(size: int) -> str:
    """``1999.0 B``, ``2.0 KiB``: as in Spark, a unit is used from twice its size on."""
    for unit, name in _BYTES:
        if size >= 2 * unit:
            return f"{_round(size / unit, 1)} {name}"
    return f"{_round(float(size), 1)} B"


def duration_text(ms: int) -> str:
    """``999 ms``, ``1.0 s``, ``1.0 m``, ``1.00 h``; the quotient is a 32-bit float, as in Spark."""
    if ms < 1_000:
        return f"{ms} ms"
    for limit, unit, name, digits in _DURATIONS:
        if ms < limit:
            return f"{_round(_float32(_float32(ms) / unit), digits)} {name}"
    return f"{_round(_float32(_float32(ms) / 3_600_000), 2)} h"


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


def _float32(x: float) -> float:
    unpacked: float = struct.unpack("f", struct.pack("f", x))[0]
    return unpacked


def _round(x: float, digits: int) -> Decimal:
    """As Java's ``%.nf`` does: half up on the decimal digits, where Python's ``%`` takes the exact binary value."""
    return Decimal(repr(x)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


FORMATS = {"size": bytes_text, "timing": duration_text, "nsTiming": _nanoseconds, "average": _average}
"""How to write a value of each type of metric that Spark writes with a unit."""
