"""Encryption: who has the key reads, nobody else, and each failure is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from rsa_keys import Keys, key_pair

from milepost.client.messages.encryption import (
    DATA_KEY_MAX_S,
    DATA_KEYS_KEPT_MAX,
    EncryptionContext,
    Opener,
    Sealer,
)
from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.client.policies import CompressionType
from milepost.errors import CryptoError
from milepost.wire import pulsar_pb2 as pb


def sealed(sealer: Sealer, payload: bytes, now_s: float = 0.0) -> tuple[pb.MessageMetadata, bytes]:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    sealer.describe(metadata, now_s)
    described = metadata.ByteSize()
    encrypted = sealer.seal(metadata, payload)
    assert metadata.ByteSize() == described, "its size is known before it is encrypted"
    assert len(encrypted) == len(payload) + 16
    return metadata, encrypted


@pytest.mark.parametrize("payload", [b"", b"a", bytes(100_000)])
def test_who_has_the_key_reads(payload: bytes) -> None:
    keys = Keys("k")
    assert Opener(keys).open(*sealed(Sealer("k", keys, 0.0), payload)) == payload


def test_a_nonce_is_never_used_again() -> None:
    sealer = Sealer("k", Keys("k"), 0.0)
    nonces = {sealed(sealer, b"same")[0].encryption_param for _ in range(100)}
    assert len(nonces) == 100


def test_a_private_key_is_asked_for_once_a_data_key() -> None:
    keys = Keys("k")
    sealer, opener = Sealer("k", keys, 0.0), Opener(keys)
    keys.asked = 0
    for _ in range(10):
        opener.open(*sealed(sealer, b"x"))
    assert keys.asked == 1


def test_a_data_key_grows_old() -> None:
    sealer = Sealer("k", Keys("k"), 0.0)
    young = sealed(sealer, b"x", DATA_KEY_MAX_S)[0].encryption_keys[0].value
    assert sealed(sealer, b"x", DATA_KEY_MAX_S)[0].encryption_keys[0].value == young
    assert sealed(sealer, b"x", DATA_KEY_MAX_S + 1)[0].encryption_keys[0].value != young


def test_old_data_keys_are_forgotten() -> None:
    opener = Opener(Keys("k"))
    metadata, payload = sealed(Sealer("k", Keys("k"), 0.0), b"x")
    opener.open(metadata, payload)
    known = opener._data_keys
    for number in range(DATA_KEYS_KEPT_MAX - 1):
        known["other", b"%d" % number] = b""
    opener.open(*sealed(Sealer("k", Keys("k"), 0.0), b"x"))
    assert len(known) == DATA_KEYS_KEPT_MAX
    assert ("k", metadata.encryption_keys[0].value) not in known


def test_any_key_that_came_along_opens() -> None:
    metadata, payload = sealed(Sealer("b", Keys("b"), 0.0), b"x")
    strange = pb.EncryptionKeys(key="a", value=b"?")
    metadata.encryption_keys.insert(0, strange)
    assert Opener(Keys("b")).open(metadata, payload) == b"x"


def test_what_does_not_open() -> None:
    metadata, payload = sealed(Sealer("k", Keys("k"), 0.0), b"secret")
    for reader, told in (
        (Keys(), "there is no key 'k'"),
        (Keys("k", number=1), "does not open the data key"),
    ):
        with pytest.raises(CryptoError, match=told):
            Opener(reader).open(metadata, payload)
    opener = Opener(Keys("k"))
    changed = bytes([payload[0] ^ 1]) + payload[1:]
    with pytest.raises(CryptoError, match="not the one it was encrypted with"):
        opener.open(metadata, changed)
    with pytest.raises(CryptoError, match="not AES-GCM"):
        opener.open(metadata, payload[:15])
    metadata.encryption_param = b"short"
    with pytest.raises(CryptoError, match="a nonce of 5"):
        opener.open(metadata, payload)
    del metadata.encryption_keys[:]
    metadata.encryption_param = bytes(12)
    with pytest.raises(CryptoError, match="no key came along"):
        opener.open(metadata, payload)


def test_keys_that_are_none(tmp_path: Path) -> None:
    public, private = tmp_path / "public.pem", tmp_path / "private.pem"
    reader = CryptoKeyReader(str(public), str(private))
    with pytest.raises(CryptoError, match="the public key 'k'"):
        Sealer("k", reader, 0.0)
    public.write_bytes(b"nonsense")
    with pytest.raises(CryptoError, match="cannot be read"):
        Sealer("k", reader, 0.0)
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    public.write_bytes(curve.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(CryptoError, match="is no RSA key"):
        Sealer("k", reader, 0.0)
    public.write_bytes(key_pair()[0])
    metadata, payload = sealed(Sealer("k", reader, 0.0), b"x")
    private.write_bytes(b"nonsense")
    with pytest.raises(CryptoError, match="the private key 'k' cannot be read"):
        Opener(reader).open(metadata, payload)
    private.write_bytes(key_pair()[1])
    assert Opener(reader).open(metadata, payload) == b"x"


def test_the_context_says_how_it_was_encrypted() -> None:
    metadata, _ = sealed(Sealer("k", Keys("k"), 0.0), b"x")
    metadata.compression = pb.LZ4
    metadata.uncompressed_size = 7
    context = EncryptionContext(metadata, is_sealed=True)
    [key] = context.keys()
    assert (key.key, key.value, key.metadata) == ("k", metadata.encryption_keys[0].value, {})
    assert context.param() == metadata.encryption_param
    assert context.compression_type() is CompressionType.LZ4
    assert context.uncompressed_message_size() == 7
    assert context.batch_size() == -1
    assert context.algorithm() == ""
    assert context.is_decryption_failed()
