"""Tells a webhook about certain regressions and forecasts: once each, signed, tried again with growing pauses.

A message is a row of table `notification`, which a collector locks while it sends it: of several collectors one does.
If one dies between the receiver's answer and its commit, a message is sent twice; its ``id`` is the same.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import Connection, Engine, select, update
from sqlalchemy.dialects.postgresql import insert

from joinsight import __version__
from joinsight.alarms import messages
from joinsight.base.errors import ConfigurationError
from joinsight.queries.reading import complete_titles, read_rows
from joinsight.queries.regressions import read_forecasts, read_owner
from joinsight.serve.files import anyone_may_read
from joinsight.serve.logs import fields
from joinsight.tables import alarm, notification

URL_VARIABLE = "JOINSIGHT_WEBHOOK_URL"
SIGNATURE, TIMESTAMP = "X-Joinsight-Signature", "X-Joinsight-Timestamp"
RECENT = timedelta(days=2)
"""Older alarms are not told: a first update may find many."""
SOON = timedelta(days=30)
"""Forecasts are told when what they say may happen within this time."""
KEPT = timedelta(days=100)
MOST_AT_ONCE = 20
ATTEMPTS = 12
"""After this many, which take a day, a message is given up."""
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=30), timedelta(hours=4)
TIMEOUT = httpx.Timeout(10.0)
_SHORT_SECRET = 16

log = logging.getLogger("joinsight")


@dataclass(frozen=True, slots=True)
class Webhook:
    """The checked settings."""

    url: str
    secret: bytes | None = None
    template: Any = None
    with_titles: bool = False
    public_url: str | None = None


def read_settings(
    url: str | None, secret_file: Path | None, template: str | None, public_url: str | None, *, with_titles: bool
) -> Webhook | None:
    """The settings of `joinsight serve`; None without a URL. Raises `ConfigurationError`."""
    if public_url is not None:
        _check_url("--public-url", public_url)
    if not url:
        return None
    _check_url("--webhook-url", url)
    secret = None if secret_file is None else _read_secret(secret_file)
    return Webhook(url, secret, messages.read_template(template), with_titles, public_url)


def _check_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        # not shown: the address of a webhook is often its secret
        raise ConfigurationError(name, "(not shown)", "not a valid address", "Write https://HOST/PATH.")


def _read_secret(file: Path) -> bytes:
    try:
        secret = file.read_bytes().strip()
        if anyone_may_read(file) and stat.S_ISREG(file.stat().st_mode):
            log.warning("the webhook's secret is readable by all users: chmod o-r", extra=fields(file=file))
    except OSError as error:
        problem = error.strerror or str(error)
        raise ConfigurationError("--webhook-secret-file", str(file), problem, "Name a readable file.") from None
    if len(secret) < _SHORT_SECRET:
        problem = f"fewer than {_SHORT_SECRET} characters"
        raise ConfigurationError("--webhook-secret-file", str(file), problem, "Make one: openssl rand -hex 32.")
    return secret


def signature(secret: bytes, timestamp: str, body: bytes) -> str:
    """``sha256=``, and the HMAC of timestamp, ``.`` and body, in hexadecimal digits."""
    return "sha256=" + hmac.new(secret, timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def tell(engine: Engine, webhook: Webhook, count: Callable[[str], None], now: datetime | None = None) -> None:
    """Note what is to be told, and send what is due; `count` takes the outcome of each attempt."""
    now = now or datetime.now(timezone.utc)
    with engine.begin() as connection:
        _note(connection, webhook, now)
    with httpx.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=True) as client:
        for _ in range(MOST_AT_ONCE):
            with engine.begin() as connection:
                outcome = _send_next(connection, client, webhook, now)
            if outcome is None:
                break
            count(outcome)


def _note(connection: Connection, webhook: Webhook, now: datetime) -> None:
    """Add the alarms that are open, new, and whose causes are known."""
    c = alarm.c
    new = select(alarm).where(c.raised_at > now - RECENT, c.closed_at.is_(None), c.causes.is_not(None))
    how: dict[str, Any] = {"with_titles": webhook.with_titles, "public_url": webhook.public_url}
    alarms = read_rows(connection, new.order_by(c.raised_at))
    complete_titles(connection, alarms)
    told = [messages.regression(row, **how) for row in alarms]
    told += [
        messages.forecast(row, **how)
        for row in read_forecasts(connection)
        if row["first_forecast_at"] > now - RECENT and row["earliest_at"] < now + SOON
    ]
    identity = notification.c.notification_id
    ids = [message["id"] for message in told]
    noted = set(connection.scalars(select(identity).where(identity.in_(ids))))
    for message in told:
        if message["id"] in noted:
            continue
        message |= read_owner(connection, message["job"])
        values = {"notification_id": message["id"], "created_at": now, "body": message, "attempts": 0, "next_at": now}
        connection.execute(insert(notification).values(values).on_conflict_do_nothing())
    connection.execute(notification.delete().where(notification.c.created_at < now - KEPT))


def _send_next(connection: Connection, client: httpx.Client, webhook: Webhook, now: datetime) -> str | None:
    """Send one message; its outcome, or None if none is due."""
    c = notification.c
    due = select(notification).where(c.next_at <= now).order_by(c.next_at).limit(1).with_for_update(skip_locked=True)
    row = connection.execute(due).mappings().first()
    if row is None:
        return None
    problem = _post(client, webhook, row["body"], now)
    attempts = row["attempts"] + 1
    values: dict[str, Any] = {"attempts": attempts, "problem": problem, "next_at": None}
    if problem is None:
        values["delivered_at"] = now
    elif attempts < ATTEMPTS:
        values["next_at"] = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (attempts - 1))
    connection.execute(update(notification).where(c.notification_id == row["notification_id"]).values(values))
    if problem is not None:
        log.warning(
            "the webhook did not take a message",
            extra=fields(reason=problem, attempts=attempts, given_up=values["next_at"] is None or None),
        )
    return "delivered" if problem is None else "failed"


def _post(client: httpx.Client, webhook: Webhook, message: dict[str, Any], now: datetime) -> str | None:
    """Send a message; why it was not taken, or None."""
    body = json.dumps(messages.filled(webhook.template, message)).encode()
    headers = {"Content-Type": "application/json", "User-Agent": f"joinsight/{__version__}"}
    if webhook.secret is not None:
        timestamp = str(int(now.timestamp()))
        headers |= {TIMESTAMP: timestamp, SIGNATURE: signature(webhook.secret, timestamp, body)}
    try:
        with client.stream("POST", webhook.url, content=body, headers=headers) as response:  # no body is read
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return type(error).__name__  # its text may have the address
    if 200 <= status < 300:
        return None
    return f"status {status}, a redirection, which is not followed" if 300 <= status < 400 else f"status {status}"
