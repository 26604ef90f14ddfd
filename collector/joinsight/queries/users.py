"""Looks up what a user's applications are before executions are filtered by them."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, select

from joinsight.queries.filters import Filters
from joinsight.tables import application

_FEW = 1_000


def looked_up(connection: Connection, filters: Filters) -> Filters:
    """The filters with the applications of a user, if these are few: PostgreSQL then starts with them."""
    user = filters.user
    if user is None or user.applications is not None:
        return filters
    ids = select(application.c.application_id).where(application.c.spark_user == user.name)
    found = tuple(connection.scalars(ids.limit(_FEW + 1)))
    return replace(filters, user=replace(user, applications=found)) if len(found) <= _FEW else filters
