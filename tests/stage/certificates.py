"""Authorities and certificates for tests, made in memory and written where a test wants them.

authority = Authority("Test authority")
files = authority.issue("localhost", is_server=True).write(tmp_path, "server")
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_HOUR = dt.timedelta(hours=1)


class Files(NamedTuple):
    certificate: Path
    key: Path


class Issued(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def write(self, folder: Path, name: str) -> Files:
        files = Files(folder / f"{name}.pem", folder / f"{name}.key")
        files.certificate.write_bytes(self.pem)
        files.key.write_bytes(self.key_pem)
        files.key.chmod(0o600)
        return files


class Authority:
    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name([name])
        now = dt.datetime.now(dt.UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(self._name)
            .issuer_name(self._name)
            .public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(now + _HOUR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, *names: str, is_server: bool = False, expired: bool = False) -> Issued:
        """A certificate with these common names."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(list(names)))
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * _HOUR)
            .not_valid_after(now - _HOUR if expired else now + _HOUR)
        )
        if is_server:
            here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(here), critical=False)
        return Issued(builder.sign(self._key, hashes.SHA256()), key)

    def revoke(self, *issued: Issued) -> bytes:
        """A list of revoked certificates, PEM."""
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _HOUR)
            .next_update(now + _HOUR)
        )
        for one in issued:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(one.certificate.serial_number)
                .revocation_date(now - _HOUR)
                .build()
            )
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _name(names: list[str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
