"""TLS: a context from a certificate and its key, reloaded when the files change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from joinsight.base.errors import ConfigurationError
from joinsight.serve.files import Watched, anyone_may_read
from joinsight.serve.logs import fields

log = logging.getLogger("joinsight")


class Tls:
    """A certificate chain (PEM, the server's first, then its issuers) and its key (PEM, without a passphrase)."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises `ConfigurationError` if the files cannot be used."""
        self._files = certificate, key
        self._watched = Watched(certificate, key)
        self.context = self._load()
        """The context for new connections."""

    def refresh(self) -> None:
        """Reload the files if they have changed; if they are invalid, the previous certificate stays in use."""
        if not self._watched.changed():
            return
        try:
            self.context = self._load()
        except (ConfigurationError, OSError) as error:
            log.error("certificate not reloaded, the previous one stays in use", extra=fields(reason=str(error)))
        else:
            log.info("certificate reloaded", extra=fields(file=self._files[0]))

    def _load(self) -> ssl.SSLContext:
        certificate, key = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        for option, file in ("--tls-certificate", certificate), ("--tls-key", key):
            try:
                file.read_bytes()
            except OSError as error:
                raise ConfigurationError(
                    option, str(file), error.strerror or str(error), "Name a readable PEM file."
                ) from None
        try:
            context.load_cert_chain(certificate, key, password=_no_passphrase)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                "--tls-certificate/--tls-key",
                f"{certificate} and {key}",
                getattr(error, "reason", None) or str(error),
                "Name a PEM certificate, followed by its issuers', and its PEM key.",
            ) from None
        if anyone_may_read(key):
            log.warning("the key of the certificate is readable by all users: chmod o-r", extra=fields(file=key))
        return context


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase")
