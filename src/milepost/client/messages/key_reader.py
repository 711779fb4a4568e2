"""Reads the public and private keys of encryption.

    client.create_producer("orders", encryption_key="till", crypto_key_reader=CryptoKeyReader(
        "public.pem", "private.pem"))

The official package has these two files only. Here a reader that knows many keys is a subclass: each
method is given the key's name, and what the producer said of it.
"""

from __future__ import annotations

from pathlib import Path

from milepost.errors import CryptoError


class CryptoKeyReader:
    def __init__(self, public_key_path: str, private_key_path: str) -> None:
        """Files in PEM form. A producer needs the public one only, a consumer the private one."""
        self._public_key_path = public_key_path
        self._private_key_path = private_key_path

    def public_key(self, name: str, metadata: dict[str, str]) -> bytes:
        return _read(self._public_key_path, f"the public key {name!r}")

    def private_key(self, name: str, metadata: dict[str, str]) -> bytes:
        return _read(self._private_key_path, f"the private key {name!r}")


def _read(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CryptoError(f"{what}: {error}") from error
