"""The TLS contexts of the listeners, replaced when their files change.

`ListenerContext` is given to a listener once and for all; each new connection gets the context that was
made last, and a connection keeps the one it began with. So a certificate, a key, the trusted authorities
or their lists of revoked certificates are renewed without anyone being cut off.

TLS 1.2 and 1.3 only. Trusted authorities make client certificates welcome; `require` makes them needed.
Lists of revoked certificates (CRL) stand in the same file as the authorities.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from milepost.broker.auth.files import WatchedFile
from milepost.errors import InvalidSetting

logger = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    certificate: Path
    """The certificate, and behind it those of the authorities in between."""
    key: Path
    trusted: Path | None
    """Authorities of client certificates; None: none is asked for."""
    require: bool
    """Is a client without a certificate turned away?"""
    protocols: tuple[str, ...] = ()
    """What is spoken inside (ALPN), for clients that ask; empty: they are told nothing."""


class _Handshake(ssl.SSLObject):
    """Tells of handshakes that fail, which the loop keeps to itself."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            context = self.context
            if isinstance(context, _Context) and context.on_failure is not None:
                context.on_failure(error)
            raise


class _Context(ssl.SSLContext):
    on_failure: Callable[[ssl.SSLError], None] | None = None


class ListenerContext(ssl.SSLContext):
    """Looks like one context to the loop, and is always the newest."""

    def __new__(cls, files: TlsFiles, on_failure: Callable[[ssl.SSLError], None]) -> Any:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, files: TlsFiles, on_failure: Callable[[ssl.SSLError], None]) -> None:
        self._files = files
        self._on_failure = on_failure
        paths = (files.certificate, files.key, files.trusted)
        self._watched = [WatchedFile(path) for path in paths if path is not None]
        self._newest = self._load()

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._newest.wrap_bio(*args, **options)

    def reload(self) -> bool:
        """Take changed files; if they cannot be used yet, go on with the old ones and say so."""
        if not any(file.has_changed() for file in self._watched):
            return False
        try:
            self._newest = self._load()
        except InvalidSetting as error:
            logger.warning("TLS goes on with what it has: %s", error)
            return False
        logger.info("TLS files were read again")
        return True

    def _load(self) -> _Context:
        files = self._files
        # Read first, so that a change during the load is seen the next time.
        contents = [file.read() for file in self._watched]
        context = _Context(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.sslobject_class = _Handshake
        context.on_failure = self._on_failure
        try:
            # Without a callback OpenSSL would ask the terminal for a passphrase.
            context.load_cert_chain(files.certificate, files.key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"{files.certificate} and {files.key}: not a certificate with its key: {_why(error)}"
            ) from None
        if files.protocols:
            context.set_alpn_protocols(list(files.protocols))
        if files.trusted is not None:
            try:
                context.load_verify_locations(files.trusted)
            except (OSError, ValueError) as error:
                raise InvalidSetting(
                    f"{files.trusted}: not certificates of authorities: {_why(error)}"
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED if files.require else ssl.CERT_OPTIONAL
            if b"BEGIN X509 CRL" in contents[-1]:
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        return context


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
