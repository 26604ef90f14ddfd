"""What a webhook is told: a JSON body for each certain regression, in the form that its receiver takes.

Bodies name jobs, keys of queries and numbers. Titles of queries, which may be their text, and what `joinsight why` saw
are only in them if that was allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from joinsight.base.errors import ConfigurationError
from joinsight.present import forecasts, regressions
from joinsight.present.values import execution_name, short_key, when
from joinsight.tables import Row

FORMATS: Mapping[str, Any] = {
    "slack": {"text": "{text} {url}"},
    "teams": {
        "type": "message",
        "attachments": [
            {
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": [{"type": "TextBlock", "wrap": True, "text": "{text} {url}"}],
                },
            }
        ],
    },
    "alertmanager": [
        {
            "labels": {
                "alertname": "{alert}",
                "severity": "warning",
                "job_name": "{job}",
                "query": "{query}",
                "measure": "{measure}",
                "team": "{team}",
                "user": "{user}",
            },
            "annotations": {"summary": "{text}", "page": "{url}"},
        }
    ],
}
"""Templates by name; a file may have another."""
_FIELD = re.compile(r"\{(\w+)\}")
_MOST_TITLE = 200


def regression(row: Row, *, with_titles: bool, public_url: str | None) -> dict[str, Any]:
    """The message about a row of table `alarm`."""
    shape = short_key(row["query_shape"])
    title = (row["title"] or "")[:_MOST_TITLE] if with_titles else ""
    shown = row | {"baseline": row["before"], "current": row["after"], "subject": "query"}
    causes = [
        {"code": each["code"], "wall_ms": each["wall_ms"]} | ({"evidence": each["evidence"]} if with_titles else {})
        for each in row["causes"] or ()
    ]
    factor = row["after"] / row["before"] if row["before"] else None
    parts = [
        f"{row['job_name']}: query {title or shape} is worse for certain since {when(row['since'])}:"
        f" {regressions.measure(shown)} {regressions.value(shown, 'baseline')} →"
        f" {regressions.value(shown, 'current')} ({regressions.KINDS[row['kind']]})."
    ]
    if causes:
        parts.append(f"First causes: {regressions.causes_text(causes)}.")
    return {
        "version": 1,
        "id": identity(row),
        "alert": "JoinsightCertainRegression",
        "job": row["job_name"],
        "query": row["query_shape"],
        "title": title or None,
        "measure": row["measure"],
        "kind": row["kind"],
        "before": row["before"],
        "after": row["after"],
        "factor": factor,
        "since": row["since"].isoformat(),
        "raised_at": row["raised_at"].isoformat(),
        "evidence_weeks": row["evidence_weeks"],
        "causes": causes,
        "runs": _runs(row),
        "url": _url(public_url, row["query_shape"], row["job_name"]),
        "text": " ".join(parts),
    }


def forecast(row: Row, *, with_titles: bool, public_url: str | None) -> dict[str, Any]:
    """The message about a row of table `forecast`."""
    title = (row["title"] or "")[:_MOST_TITLE] if with_titles else ""
    shape = short_key(row["query_shape"])
    names = (row["job_name"], row["origin"], row["kind"], row["operator_key"], row["first_forecast_at"].isoformat())
    text = (
        f"{row['job_name']}: query {title or shape}, about {row['reaches_at']:%Y-%m-%d}"
        f" ({forecasts.interval(row)}): {forecasts.WHAT[row['kind']]}. Now"
        f" {forecasts.value(row, 'current')} of {forecasts.value(row, 'limit_value')}, growing by"
        f" {row['growth_a_day']:.1%} a day."
    )
    return {
        "version": 1,
        "id": "forecast/" + "/".join(quote(name, safe="") for name in names),
        "alert": "JoinsightForecast",
        "job": row["job_name"],
        "query": row["query_shape"],
        "title": title or None,
        "measure": row["kind"],
        "kind": "forecast",
        "operator": row["operator_key"],
        "before": row["current"],
        "after": row["limit_value"],
        "growth_a_day": row["growth_a_day"],
        "reaches_at": row["reaches_at"].isoformat(),
        "earliest_at": row["earliest_at"].isoformat(),
        "latest_at": row["latest_at"] and row["latest_at"].isoformat(),
        "url": _url(public_url, row["query_shape"], row["job_name"]) if row["query_shape"] else "",
        "text": text,
    }


def identity(row: Row) -> str:
    """What an alarm is called, the same at each collector."""
    names = (row["job_name"], row["query_shape"], row["origin"], row["measure"], row["raised_at"].isoformat())
    return "regression/" + "/".join(quote(name, safe="") for name in names)


def _runs(row: Row) -> list[str]:
    """The names of typical runs before and since, for `joinsight why`."""
    if row["application_id"] is None or row["baseline_application_id"] is None:
        return []
    names = ("application_id", "attempt_id", "execution_id")
    return [execution_name({name: row[prefix + name] for name in names}) for prefix in ("baseline_", "")]


def _url(public_url: str | None, shape: str, job: str) -> str:
    """The page of a query; empty unless the collector's address is known."""
    return f"{public_url.rstrip('/')}/queries/{quote(shape)}?{urlencode({'job': job})}" if public_url else ""


def read_template(name: str | None) -> Any:
    """The template of a name or file; None: the whole message is sent. Raises `ConfigurationError`."""
    if name is None or name in FORMATS:
        return FORMATS[name] if name else None
    try:
        found = json.loads(Path(name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        remedy = f"Write {', '.join(FORMATS)}, or name a JSON file with texts such as {{text}}."
        raise ConfigurationError("--webhook-template", name, f"not a readable JSON file ({error})", remedy) from None
    unknown = sorted(set(_FIELD.findall(json.dumps(found))) - _FIELDS)
    if unknown:
        remedy = f"Known ones are {', '.join(sorted(_FIELDS))}."
        raise ConfigurationError("--webhook-template", name, f"unknown field {unknown[0]}", remedy)
    return found


_FIELDS = {
    *("id", "alert", "job", "query", "title", "measure", "kind", "before", "after", "factor", "since", "raised_at"),
    *("evidence_weeks", "operator", "growth_a_day", "reaches_at", "earliest_at", "latest_at"),
    *("team", "user", "url", "text"),
}


def filled(template: Any, message: Mapping[str, Any]) -> Any:
    """A template with the fields of a message in its texts; without a template the message."""
    if template is None:
        return message
    if isinstance(template, dict):
        return {name: filled(each, message) for name, each in template.items()}
    if isinstance(template, list):
        return [filled(each, message) for each in template]
    if isinstance(template, str):
        return _FIELD.sub(lambda found: _field(message.get(found[1])), template).strip()
    return template


def _field(value: object) -> str:
    return "" if value is None else str(value)
