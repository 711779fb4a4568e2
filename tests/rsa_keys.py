"""RSA keys for tests of encryption: made once, given from memory."""

from __future__ import annotations

from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.errors import CryptoError


@cache
def key_pair(number: int = 0) -> tuple[bytes, bytes]:
    """Public and private, in PEM form; another pair for another number."""
    key = rsa.generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return public, private


class Keys(CryptoKeyReader):
    """Knows these keys by name, and counts how often it is asked."""

    def __init__(self, *names: str, number: int = 0) -> None:
        super().__init__("", "")
        self.names = names
        self.asked = 0
        self._pair = key_pair(number)

    def public_key(self, name: str, metadata: dict[str, str]) -> bytes:
        return self._key(name, 0)

    def private_key(self, name: str, metadata: dict[str, str]) -> bytes:
        return self._key(name, 1)

    def _key(self, name: str, which: int) -> bytes:
        self.asked += 1
        if name not in self.names:
            raise CryptoError(f"there is no key {name!r}")
        return self._pair[which]
