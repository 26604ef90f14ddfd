"""Talks to Grafana's HTTP interface through the library grafana-api, which only this module knows.

The library is archived: it knows no calls by a data source's uid, raises JSONDecodeError on an empty answer and
TypeError on some that are no JSON, and its exceptions differ in their attributes. Here is one way to ask and one
exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joinsight.errors import ConfigurationError, GrafanaError

OLDEST = (12, 0)
TIMEOUT = 30.0
"""Seconds that Grafana may take to answer."""
_EXAMPLE = "Write it like https://grafana.example.com or http://127.0.0.1:3000."
_EXPLAINED = {
    401: " It does not know this token: make one under Administration, Service accounts.",
    403: " The token may not do this: its service account needs the role Editor, for data sources Admin.",
    409: " Something that is not ours has the name or the uid, or this token may not see it.",
}


class Answered(GrafanaError):
    """Grafana answered, with an error."""

    def __init__(self, asked: str, status: int, message: str) -> None:
        said = message.rstrip(".") or "no reason given"
        super().__init__(f"Grafana answers {status} to {asked}: {said}.{_EXPLAINED.get(status, '')}")
        self.status = status


class Grafana:
    """One Grafana, asked in the name of a token."""

    def __init__(self, url: str, token: str, ca_file: Path | None = None) -> None:
        """Asks nothing yet. Raises `ConfigurationError`, `GrafanaError` where grafana-api is not installed."""
        try:
            import requests
            from grafana_api.grafana_api import GrafanaAPI, GrafanaException
        except ImportError:
            raise GrafanaError("This needs a library more: pip install 'joinsight[grafana]'") from None
        host, port, prefix, protocol = _parts(url)
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ConfigurationError("--token-file", "(not shown)", "this is no token of Grafana's", "Copy it again.")
        if ca_file is not None and not ca_file.is_file():
            raise ConfigurationError("--ca-file", str(ca_file), "there is no such file", "Name a PEM file.")
        verify = str(ca_file) if ca_file else True
        self.url = url.rstrip("/")
        self._api = GrafanaAPI(token, host, port, prefix, protocol, verify, TIMEOUT)
        self._api.s.max_redirects = 0  # requests would follow a POST with a GET
        self._refused, self._failed, self._redirected = (
            GrafanaException,
            requests.RequestException,
            requests.TooManyRedirects,
        )
        self._not_trusted, self._no_json = requests.exceptions.SSLError, requests.exceptions.JSONDecodeError

    def check(self) -> None:
        """That a Grafana answers, and none that is too old. Raises `GrafanaError`."""
        try:
            health = self._ask("GET", "/health")
        except Answered as error:
            raise GrafanaError(f"No Grafana answers at {self.url}: {error} {_EXAMPLE}") from None
        version = health.get("version", "") if isinstance(health, dict) else ""
        if not isinstance(health, dict) or "database" not in health:
            raise GrafanaError(f"What answers at {self.url} is no Grafana. {_EXAMPLE}")
        found = re.match(r"(\d+)\.(\d+)", version)  # it may be hidden
        if found and (int(found[1]), int(found[2])) < OLDEST:
            raise GrafanaError(f"Grafana {version} is too old: the dashboards need {OLDEST[0]}.{OLDEST[1]} or later.")

    def find(self, path: str, absent: Sequence[int] = (404,)) -> dict[str, Any] | None:
        """What is at `path`; None where nothing is, which these statuses say."""
        try:
            found: dict[str, Any] = self._ask("GET", path)
        except Answered as error:
            if error.status in absent:
                return None
            raise
        return found

    def post(self, path: str, body: dict[str, Any]) -> None:
        """Make something."""
        self._ask("POST", path, body)

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Change something."""
        self._ask("PUT", path, body)

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        asked = f"{method} /api{path}"
        try:
            return getattr(self._api, method)(path, json=body)
        except self._refused as error:
            message = error.response.get("message", "") if isinstance(error.response, dict) else ""
            raise Answered(asked, error.status_code, message) from None
        except self._redirected:
            raise GrafanaError(f"{self.url} leads elsewhere (a redirect). Write the address where it ends.") from None
        except self._not_trusted as error:
            problem = "name the PEM file of its authority with --ca-file"
            raise GrafanaError(f"The certificate of {self.url} is not trusted, {problem}: {error}") from None
        except (self._no_json, json.JSONDecodeError, TypeError):  # the library looks for a message in what is no JSON
            raise GrafanaError(f"What answers at {self.url} to {asked} is no Grafana: no JSON. {_EXAMPLE}") from None
        except (self._failed, OSError) as error:
            raise GrafanaError(f"No Grafana answers at {self.url}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """Of a connection that failed, without the layers that it went through."""
    inmost = getattr(error.args[0], "reason", error) if error.args else error
    return str(inmost).partition("): ")[2] or str(inmost)


def _parts(url: str) -> tuple[str, int | None, str, str]:
    """Host, port, path with a slash behind it, protocol: as the library wants them."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError("--url", url, "it is no address", _EXAMPLE) from None
    if "@" in parts.netloc:
        raise ConfigurationError("--url", "(not shown)", "a password does not belong here", "Use --token-file.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError("--url", url, "it is no address of a Grafana", _EXAMPLE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    prefix = parts.path.strip("/")
    return host, port, f"{prefix}/" if prefix else "", parts.scheme
