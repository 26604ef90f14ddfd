"""TLS: a context from a certificate and its key, which are loaded again when they change."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from joinsight.errors import ConfigurationError
from joinsight.serve.files import Watched, anyone_may_read
from joinsight.serve.logs import fields

log = logging.getLogger("joinsight")


class Tls:
    """A certificate (PEM, its own first, then those up to the root) and its key (PEM, without a passphrase)."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises `ConfigurationError` if the files cannot be used."""
        self._files = certificate, key
        self._watched = Watched(certificate, key)
        self.context = self._load()

    def refresh(self) -> None:
        """Use the files as they are now if they have changed; if they are no good, the old ones stay in use."""
        if not self._watched.changed():
            return
        try:
            self._load()  # into a context of its own: half of a pair would spoil the one in use
            self.context.load_cert_chain(*self._files, password=_no_passphrase)
        except (ConfigurationError, OSError, ValueError) as error:
            log.error("certificate not loaded again, the one before stays in use", extra=fields(reason=str(error)))
        else:
            log.info("certificate loaded again", extra=fields(file=self._files[0]))

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
                "Name a PEM certificate, with those of its issuers behind it, and the PEM key that belongs to it.",
            ) from None
        if anyone_may_read(key):
            log.warning("anyone on this machine may read the key of the certificate: chmod o-r", extra=fields(file=key))
        return context


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase, which nobody can enter here")
