"""Calls Grafana's HTTP API through the library grafana-api, which only this module knows.

The library is archived: it has no calls by a data source's uid, raises JSONDecodeError on an empty response and
TypeError on some that are not JSON, and its exceptions differ in their attributes. This module has one call and one
exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from joinsight.base.errors import ConfigurationError, GrafanaError

OLDEST = (12, 0)
TIMEOUT = 30.0
"""Seconds to wait for a response."""
_EXAMPLE = "Write it like https://grafana.example.com or http://127.0.0.1:3000."
_EXPLAINED = {
    401: " The token is not valid: create one under Administration, Service accounts.",
    403: " The token lacks permission: its service account needs the role Editor, for data sources Admin.",
    409: " The name or the uid is in use, possibly by something that this token may not see.",
}


class ErrorStatus(GrafanaError):
    """Grafana responded with an error."""

    def __init__(self, request: str, status: int, message: str) -> None:
        reason = message.rstrip(".") or "no reason given"
        super().__init__(f"Grafana responded with status {status} to {request}: {reason}.{_EXPLAINED.get(status, '')}")
        self.status = status


class Grafana:
    """A client for one Grafana with one token."""

    def __init__(self, url: str, token: str, ca_file: Path | None = None) -> None:
        """Does not connect. Raises `ConfigurationError`, and `GrafanaError` if grafana-api is not installed."""
        try:
            import requests
            from grafana_api.grafana_api import GrafanaAPI, GrafanaException
        except ImportError:
            raise GrafanaError("grafana-api is not installed. Run: pip install 'joinsight[grafana]'") from None
        host, port, prefix, protocol = _parts(url)
        if not (token.isascii() and token.isprintable()) or " " in token:
            raise ConfigurationError("--token-file", "(not shown)", "not a valid token", "Copy it from Grafana again.")
        if ca_file is not None and not ca_file.is_file():
            raise ConfigurationError("--ca-file", str(ca_file), "file not found", "Name a PEM file.")
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
        """Check that Grafana responds and is not too old; raises `GrafanaError`."""
        try:
            health = self._call("GET", "/health")
        except ErrorStatus as error:
            raise GrafanaError(f"Grafana does not respond at {self.url}: {error} {_EXAMPLE}") from None
        version = health.get("version", "") if isinstance(health, dict) else ""
        if not isinstance(health, dict) or "database" not in health:
            raise GrafanaError(f"{self.url} is not Grafana. {_EXAMPLE}")
        found = re.match(r"(\d+)\.(\d+)", version)  # Grafana can be configured to hide it
        if found and (int(found[1]), int(found[2])) < OLDEST:
            raise GrafanaError(f"Grafana {version} is too old: the dashboards need {OLDEST[0]}.{OLDEST[1]} or later.")

    def find(self, path: str, absent: Sequence[int] = (404,)) -> dict[str, Any] | None:
        """Get the object at `path`; None for the statuses in `absent`."""
        try:
            body: dict[str, Any] = self._call("GET", path)
        except ErrorStatus as error:
            if error.status in absent:
                return None
            raise
        return body

    def post(self, path: str, body: dict[str, Any]) -> None:
        """Create an object."""
        self._call("POST", path, body)

    def put(self, path: str, body: dict[str, Any]) -> None:
        """Replace an object."""
        self._call("PUT", path, body)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        request = f"{method} /api{path}"
        try:
            return getattr(self._api, method)(path, json=body)
        except self._refused as error:
            message = error.response.get("message", "") if isinstance(error.response, dict) else ""
            raise ErrorStatus(request, error.status_code, message) from None
        except self._redirected:
            raise GrafanaError(f"{self.url} redirects elsewhere. Use the final address.") from None
        except self._not_trusted as error:
            problem = "name the PEM file of its certificate authority with --ca-file"
            raise GrafanaError(f"The certificate of {self.url} is not trusted, {problem}: {error}") from None
        except (self._no_json, json.JSONDecodeError, TypeError):  # the library looks for a message in what is not JSON
            raise GrafanaError(
                f"{self.url} is not Grafana: the response to {request} is not JSON. {_EXAMPLE}"
            ) from None
        except (self._failed, OSError) as error:
            raise GrafanaError(f"Grafana does not respond at {self.url}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The message of a failed connection, without those of the layers around it."""
    inmost = getattr(error.args[0], "reason", error) if error.args else error
    return str(inmost).partition("): ")[2] or str(inmost)


def _parts(url: str) -> tuple[str, int | None, str, str]:
    """Host, port, path with a trailing slash, and protocol, as arguments of the library."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigurationError("--url", url, "not a valid address", _EXAMPLE) from None
    if "@" in parts.netloc:
        raise ConfigurationError("--url", "(not shown)", "it must not contain a password", "Use --token-file.")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigurationError("--url", url, "not a valid address of Grafana", _EXAMPLE)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    prefix = parts.path.strip("/")
    return host, port, f"{prefix}/" if prefix else "", parts.scheme
