"""TLS between the brokers of a cluster, with the certificate that each of them has.

Both sides show their certificate, and take one that a trusted authority has signed; the side that connects
also checks that the certificate is of the address it connected to. Beside that the brokers know each other by
the secret of the cluster, as without TLS. Files that change are read again with the next connection. Lists of
revoked certificates (CRL) stand in the same file as the authorities.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Any

from milepost.errors import InvalidSetting


class LinkTls:
    """Both ends of the connections between brokers."""

    def __init__(self, certificate: Path, key: Path, trusted: Path) -> None:
        """`InvalidSetting` if the files cannot be used."""
        self._files = certificate, key, trusted
        self._stamps = self._look()
        self._ends = self._load(ssl.PROTOCOL_TLS_SERVER), self._load(ssl.PROTOCOL_TLS_CLIENT)

    def server(self) -> ssl.SSLContext:
        """For listening: each connection is met with the files as they are then."""
        return _Listening(self)

    def client(self) -> ssl.SSLContext:
        """For one connection to another broker."""
        return self.newest()[1]

    def newest(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        stamps = self._look()
        if stamps != self._stamps:
            try:
                server = self._load(ssl.PROTOCOL_TLS_SERVER)
                self._ends = server, self._load(ssl.PROTOCOL_TLS_CLIENT)
                self._stamps = stamps
            except InvalidSetting:
                return self._ends  # half of them is replaced: the next connection looks again
        return self._ends

    def _look(self) -> list[tuple[int, int, int] | None]:
        found: list[tuple[int, int, int] | None] = []
        for path in self._files:
            try:
                stat = os.stat(path)
            except OSError:
                found.append(None)
            else:
                found.append((stat.st_ino, stat.st_mtime_ns, stat.st_size))
        return found

    def _load(self, protocol: ssl._SSLMethod) -> ssl.SSLContext:
        certificate, key, trusted = self._files
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            # Without a callback OpenSSL would ask the terminal for a passphrase.
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"cluster_tls: {certificate} and {key} are not a certificate with its key: {_why(error)}"
            ) from None
        try:
            context.load_verify_locations(trusted)
            if context.cert_store_stats()["crl"]:
                context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        except (OSError, ValueError) as error:
            raise InvalidSetting(
                f"cluster_tls: {trusted} has no certificates of authorities: {_why(error)}"
            ) from None
        return context


class _Listening(ssl.SSLContext):
    """Looks like one context to the loop, and is always the newest."""

    def __new__(cls, ends: LinkTls) -> Any:
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, ends: LinkTls) -> None:
        self._of = ends

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._of.newest()[0].wrap_bio(*args, **options)


def _why(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or "unreadable"
