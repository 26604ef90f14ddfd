"""Whether a plan follows the advice that was accepted for its operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from joinsight.contract.accepted_advice import AcceptedAdvice

_DEFAULTS = {
    f"spark.sql.adaptive.{name}": "true" for name in ("enabled", "coalescePartitions.enabled", "skewJoin.enabled")
}
"""A session that does not set these follows the advice, too."""


def not_followed(
    advice: Iterable[AcceptedAdvice], strategies: Mapping[str, str], settings: Mapping[str, str]
) -> Iterator[AcceptedAdvice]:
    """The advice that a plan does not follow.

    `strategies`: by key, of all operators of the final plan, those of joins, "" for others. `settings`: in force.
    """
    for each in advice:
        if each.operator_key not in strategies:
            continue
        if each.settings:
            is_followed = all(settings.get(name, _DEFAULTS.get(name)) == value for name, value in each.settings.items())
        else:
            is_followed = bool(each.strategy) and strategies[each.operator_key] != each.strategy
        if not is_followed:
            yield each
