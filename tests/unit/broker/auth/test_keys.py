"""Keys: the algorithms each stands for, and those that are too weak."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519

from milepost.broker.auth.keys import private_key, public_key, secret_key
from milepost.errors import InvalidInput


def _public(key: object, encoding: serialization.Encoding) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("size", "algorithms"),
    [(32, ("HS256",)), (48, ("HS256", "HS384")), (64, ("HS256", "HS384", "HS512"))],
)
def test_a_secret_signs_as_strongly_as_it_is_long(size: int, algorithms: tuple[str, ...]) -> None:
    key = secret_key(size * b"k")
    assert key.algorithms == algorithms
    assert "kkk" not in repr(key)


def test_a_short_secret_is_refused_without_being_told() -> None:
    with pytest.raises(InvalidInput, match="8 bytes") as refused:
        secret_key(b"password")
    assert "password" not in str(refused.value)


@pytest.mark.parametrize("encoding", [serialization.Encoding.PEM, serialization.Encoding.DER])
@pytest.mark.parametrize(
    ("make", "algorithm"),
    [
        (lambda: ec.generate_private_key(ec.SECP256R1()), "ES256"),
        (lambda: ec.generate_private_key(ec.SECP384R1()), "ES384"),
        (lambda: ec.generate_private_key(ec.SECP521R1()), "ES512"),
        (ed25519.Ed25519PrivateKey.generate, "EdDSA"),
        (lambda: rsa.generate_private_key(65537, 2048), "RS256"),
    ],
    ids=["P-256", "P-384", "P-521", "Ed25519", "RSA"],
)
def test_a_public_key_names_its_algorithms(make, algorithm, encoding) -> None:  # type: ignore[no-untyped-def]
    made = make()
    key = public_key(_public(made, encoding))
    assert key.algorithms[0] == algorithm
    assert not any(name.startswith("HS") for name in key.algorithms)
    assert key.signing is None
    form = serialization.PrivateFormat.PKCS8
    stored = made.private_bytes(encoding, form, serialization.NoEncryption())
    assert private_key(stored).algorithms == key.algorithms


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: rsa.generate_private_key(65537, 1024), "1024 bits"),
        (lambda: ec.generate_private_key(ec.SECP256K1()), "can be used"),
        (x25519.X25519PrivateKey.generate, "can be used"),
    ],
    ids=["RSA 1024", "secp256k1", "X25519"],
)
def test_weak_and_strange_keys_are_refused(make, why: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=why):
        public_key(_public(make(), serialization.Encoding.PEM))


@pytest.mark.parametrize(
    "data", [b"", b"secret", b"-----BEGIN PUBLIC KEY-----\nAAAA\n", b"\x30\x80"]
)
def test_what_is_no_key_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput, match="not a public key"):
        public_key(data)
    with pytest.raises(InvalidInput, match="not a private key"):
        private_key(data)
