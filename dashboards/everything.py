"""All dashboards, in display order."""

from __future__ import annotations

import json

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards.broadcasts import broadcasts
from dashboards.collector import collector
from dashboards.cost import cost
from dashboards.history import history
from dashboards.joins import joins
from dashboards.overview import overview
from dashboards.query import query
from dashboards.shuffles import shuffles

ALL = (overview, broadcasts, shuffles, joins, query, history, cost, collector)


def rendered() -> dict[str, str]:
    """JSON by file name."""
    pages = {}
    for make in ALL:
        built = make().build()
        pages[f"{built.uid}.json"] = (
            json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        )
    return pages
