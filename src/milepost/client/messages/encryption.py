"""End-to-end encryption of messages.

A payload (a message's or a whole batch's, compressed; or one chunk) is encrypted with AES-256-GCM under a
data key of the producer's, with a fresh nonce: `encryption_param`. The data key goes along, encrypted
with an RSA public key (OAEP, SHA-1) under that key's name: `encryption_keys`. Who has the private key
reads it.

    sealer = Sealer("till", reader, now_s=0.0)
    sealer.describe(metadata, now_s)                  # how large the metadata will be
    sealed = sealer.seal(metadata, payload)           # 16 bytes more
    assert Opener(reader).open(metadata, sealed) == payload

`CryptoError` says what cannot be done; nothing is ever sent or handed out half encrypted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.client.policies import CompressionType
from milepost.errors import CryptoError
from milepost.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.padding import OAEP

    from milepost.client.messages.key_reader import CryptoKeyReader

DATA_KEY_SIZE: Final = 32
NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16

# A data key is used no longer than this, nor for more payloads than random nonces are good for.
DATA_KEY_MAX_S: Final = 4 * 3600.0
DATA_KEY_USES_MAX: Final = 1 << 31

# Data keys that a consumer remembers: one a producer, and a few old ones.
DATA_KEYS_KEPT_MAX: Final = 1000


class EncryptionKey(NamedTuple):
    """A data key as it came along: encrypted, under the name of the key that opens it."""

    key: str
    value: bytes
    metadata: dict[str, str]


class EncryptionContext:
    """How a message was encrypted: what its metadata says. Method names are the official package's."""

    __slots__ = ("_is_sealed", "_metadata")

    def __init__(self, metadata: pb.MessageMetadata, *, is_sealed: bool) -> None:
        self._metadata = metadata
        self._is_sealed = is_sealed

    def keys(self) -> list[EncryptionKey]:
        return [
            EncryptionKey(one.key, one.value, {item.key: item.value for item in one.metadata})
            for one in self._metadata.encryption_keys
        ]

    def param(self) -> bytes:
        """The nonce."""
        return self._metadata.encryption_param

    def algorithm(self) -> str:
        """As the producer named it; official clients leave it empty."""
        return self._metadata.encryption_algo

    def compression_type(self) -> CompressionType:
        return CompressionType(self._metadata.compression)

    def uncompressed_message_size(self) -> int:
        return self._metadata.uncompressed_size

    def batch_size(self) -> int:
        """Messages in the batch; −1 if it is none."""
        metadata = self._metadata
        is_batch = metadata.HasField("num_messages_in_batch")
        return metadata.num_messages_in_batch if is_batch else -1

    def is_decryption_failed(self) -> bool:
        """Whether the message's data are still encrypted (`ConsumerCryptoFailureAction.CONSUME`)."""
        return self._is_sealed


class Sealer:
    """A producer's side. Reads the public key whenever it makes a data key."""

    def __init__(self, name: str, reader: CryptoKeyReader, now_s: float) -> None:
        self._name = name
        self._reader = reader
        self._renew(now_s)

    def describe(self, metadata: pb.MessageMetadata, now_s: float) -> None:
        """Write all that goes along, in its final size, with a nonce that `seal` replaces."""
        if now_s - self._since_s > DATA_KEY_MAX_S or self._uses >= DATA_KEY_USES_MAX:
            self._renew(now_s)
        del metadata.encryption_keys[:]
        metadata.encryption_keys.add(key=self._name, value=self._sealed_key)
        metadata.encryption_param = bytes(NONCE_SIZE)

    def seal(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        """The payload, encrypted; the metadata has been described before."""
        nonce = os.urandom(NONCE_SIZE)
        metadata.encryption_param = nonce
        self._uses += 1
        return self._cipher.encrypt(nonce, payload, None)

    def _renew(self, now_s: float) -> None:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        pem = self._reader.public_key(self._name, {})
        try:
            key = load_pem_public_key(pem)
        except Exception as error:  # whatever the library makes of a file that is no key
            raise CryptoError(f"the public key {self._name!r} cannot be read: {error}") from error
        if not isinstance(key, RSAPublicKey):
            raise CryptoError(f"the public key {self._name!r} is no RSA key")
        data_key = os.urandom(DATA_KEY_SIZE)
        self._sealed_key = key.encrypt(data_key, _padding())
        self._cipher = AESGCM(data_key)
        self._since_s = now_s
        self._uses = 0


class Opener:
    """A consumer's side. Asks for a private key once for each data key it meets."""

    def __init__(self, reader: CryptoKeyReader) -> None:
        self._reader = reader
        # By name and encrypted data key, the oldest first.
        self._data_keys: dict[tuple[str, bytes], bytes] = {}

    def open(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = metadata.encryption_param
        if len(nonce) != NONCE_SIZE or len(payload) < TAG_SIZE:
            raise CryptoError(f"{len(payload)} bytes with a nonce of {len(nonce)} are not AES-GCM")
        failure: CryptoError | None = None
        for key in metadata.encryption_keys:
            try:
                return AESGCM(self._data_key(key)).decrypt(nonce, payload, None)
            except CryptoError as error:
                failure = error
            except InvalidTag:
                failure = CryptoError(f"the key {key.key!r} is not the one it was encrypted with")
        raise failure or CryptoError("no key came along")

    def _data_key(self, key: pb.EncryptionKeys) -> bytes:
        found = self._data_keys.get((key.key, key.value))
        if found is None:
            found = self._opened(key)
            if len(self._data_keys) >= DATA_KEYS_KEPT_MAX:
                del self._data_keys[next(iter(self._data_keys))]
            self._data_keys[key.key, key.value] = found
        return found

    def _opened(self, key: pb.EncryptionKeys) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        told = {item.key: item.value for item in key.metadata}
        pem = self._reader.private_key(key.key, told)
        try:
            private = load_pem_private_key(pem, None)
        except Exception as error:
            raise CryptoError(f"the private key {key.key!r} cannot be read: {error}") from error
        if not isinstance(private, RSAPrivateKey):
            raise CryptoError(f"the private key {key.key!r} is no RSA key")
        try:
            data_key = private.decrypt(key.value, _padding())
        except ValueError as error:
            raise CryptoError(f"{key.key!r} does not open the data key: {error}") from error
        if len(data_key) != DATA_KEY_SIZE:
            raise CryptoError(f"a data key of {len(data_key)} bytes; expected {DATA_KEY_SIZE}")
        return data_key


def _padding() -> OAEP:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    sha1 = hashes.SHA1()  # noqa: S303  # what official clients use; OAEP stays sound with it
    return padding.OAEP(padding.MGF1(sha1), sha1, None)
