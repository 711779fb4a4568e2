"""The keys that sign and verify tokens, and the algorithms of each.

A secret signs and verifies; a public key verifies what its private half has signed. The algorithms
follow from the key: HS256 for a secret, RS256 and its like for RSA, ES256 for the curve P-256. A key
that is too weak for any of them is refused.

    >>> secret_key(48 * b"k").algorithms
    ('HS256', 'HS384')
    >>> secret_key(b"password")
    Traceback (most recent call last):
    ...
    milepost.errors.InvalidInput: a secret key of 8 bytes; it takes 32 or more
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from milepost.errors import InvalidInput

SECRET_SIZE_MIN = 32
RSA_BITS_MIN = 2048

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


@dataclass(frozen=True, slots=True)
class Key:
    # Those that the key is strong enough for, the usual one first. Invariant: never empty, and all of
    # one kind: secret or public.
    algorithms: tuple[str, ...]

    verifying: Any = field(repr=False)

    # None for a public key.
    signing: Any = field(repr=False, default=None)


def secret_key(secret: bytes) -> Key:
    """A secret that both sides know: any bytes but those of a key pair or a certificate, of which one
    half is known to everybody."""
    if _is_half_of_a_pair(secret):
        raise InvalidInput(
            "a secret key that is one of a key pair, or a certificate: name it as the private or "
            "public key, or make a secret with `milepost tokens create-secret-key`"
        )
    if len(secret) < SECRET_SIZE_MIN:
        raise InvalidInput(
            f"a secret key of {len(secret)} bytes; it takes {SECRET_SIZE_MIN} or more"
        )
    strengths = (("HS256", 32), ("HS384", 48), ("HS512", 64))
    algorithms = tuple(name for name, size in strengths if len(secret) >= size)
    return Key(algorithms, secret, secret)


def public_key(data: bytes) -> Key:
    """A public key, PEM or DER (X.509 SubjectPublicKeyInfo), as `create-key-pair` writes it."""
    try:
        if data.lstrip().startswith(b"-----"):
            loaded: Any = serialization.load_pem_public_key(data)
        else:
            loaded = serialization.load_der_public_key(data)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidInput("not a public key, neither PEM nor DER") from None
    return Key(_algorithms(loaded), loaded)


def private_key(data: bytes) -> Key:
    """A private key without a passphrase, PEM or DER (PKCS #8)."""
    try:
        if data.lstrip().startswith(b"-----"):
            loaded: Any = serialization.load_pem_private_key(data, password=None)
        else:
            loaded = serialization.load_der_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InvalidInput(
            "not a private key, neither PEM nor DER, or one with a passphrase"
        ) from None
    public = loaded.public_key()
    return Key(_algorithms(public), public, loaded)


def _is_half_of_a_pair(data: bytes) -> bool:
    if b"-----BEGIN " in data or data.lstrip().startswith(b"ssh-"):
        return True
    for load in (
        serialization.load_der_public_key,
        lambda one: serialization.load_der_private_key(one, password=None),
    ):
        try:
            load(data)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        return True
    return False


def _algorithms(public: Any) -> tuple[str, ...]:
    match public:
        case rsa.RSAPublicKey():
            if public.key_size < RSA_BITS_MIN:
                raise InvalidInput(
                    f"an RSA key of {public.key_size} bits; it takes {RSA_BITS_MIN} or more"
                )
            return _RSA
        case ec.EllipticCurvePublicKey() if public.curve.name in _CURVES:
            return (_CURVES[public.curve.name],)
        case ed25519.Ed25519PublicKey():
            return ("EdDSA",)
    raise InvalidInput(
        f"a key of the kind {type(public).__name__}; RSA, Ed25519 and the curves P-256, P-384 and "
        "P-521 can be used"
    )
