"""Tokens: who they name, and every way to forge one."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from milepost.broker.auth.keys import Key, private_key, public_key, secret_key
from milepost.broker.auth.roles import Identity
from milepost.broker.auth.tokens import TOKEN_SIZE_MAX, TokenVerifier, peek, sign
from milepost.errors import NotAuthenticated

NOW_MS = 1_800_000_000_000
NOW_S = NOW_MS // 1000
SECRET = secret_key(64 * b"k")


@pytest.fixture(scope="module")
def pair() -> tuple[Key, Key, bytes]:
    made = rsa.generate_private_key(65537, 2048)
    private = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = made.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return private_key(private), public_key(public), public


def _refused(verifier: TokenVerifier, token: str) -> str:
    with pytest.raises(NotAuthenticated) as refused:
        verifier.verify(token, NOW_MS)
    # A part of the token in a log is a part of a secret.
    for part in token.split("."):
        assert not part or part not in str(refused.value)
    return refused.value.reason


def _raw(header: object, claims: object, signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


def _with_mac(algorithm: str, digest: str, secret: bytes) -> str:
    """Signed by hand: the library would not."""
    head = _raw({"alg": algorithm, "typ": "JWT"}, {"sub": "admin"}).rsplit(".", 1)[0]
    mac = hmac.digest(secret, head.encode(), digest)
    return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def test_a_token_names_its_role() -> None:
    token = sign(SECRET, {"sub": "reporter"})
    assert TokenVerifier(SECRET).verify(token, NOW_MS) == Identity("reporter", "token")


def test_a_token_of_a_key_pair_names_its_role(pair: tuple[Key, Key, bytes]) -> None:
    private, public, _ = pair
    for algorithm in ("RS256", "PS512"):
        token = sign(private, {"sub": "reporter"}, algorithm)
        assert TokenVerifier(public).verify(token, NOW_MS).role == "reporter"


def test_times_are_judged_by_the_clock_that_is_given() -> None:
    verifier = TokenVerifier(SECRET)
    token = sign(SECRET, {"sub": "r", "exp": NOW_S + 10, "nbf": NOW_S})
    assert verifier.verify(token, NOW_MS).expires_at_ms == NOW_MS + 10_000
    with pytest.raises(NotAuthenticated, match="expired"):
        verifier.verify(token, NOW_MS + 10_000)
    with pytest.raises(NotAuthenticated, match="not valid yet"):
        verifier.verify(token, NOW_MS - 1)


def test_clocks_may_be_apart_by_the_skew() -> None:
    verifier = TokenVerifier(SECRET, clock_skew_ms=5000)
    token = sign(SECRET, {"sub": "r", "exp": NOW_S - 4, "nbf": NOW_S + 5})
    assert verifier.verify(token, NOW_MS).expires_at_ms == NOW_MS + 1000
    late = sign(SECRET, {"sub": "r", "exp": NOW_S - 5})
    assert _refused(verifier, late) == "token_expired"


def test_alg_none_is_refused() -> None:
    for name in ("none", "None", "NONE", "nOnE", ""):
        token = _raw({"alg": name, "typ": "JWT"}, {"sub": "admin"})
        reason = _refused(TokenVerifier(SECRET), token)
        assert reason in ("token_algorithm", "token_malformed")
    unsigned = jwt.encode({"sub": "admin"}, "", algorithm="none")
    assert _refused(TokenVerifier(SECRET), unsigned) == "token_algorithm"


def test_a_public_key_is_no_secret(pair: tuple[Key, Key, bytes]) -> None:
    """The confusion of HS and RS: the attacker signs with what everybody knows."""
    _, public, pem = pair
    for secret in (pem, pem.strip(), pem.replace(b"\n", b"")):
        token = _with_mac("HS256", "sha256", secret)
        assert _refused(TokenVerifier(public), token) == "token_algorithm"


def test_an_algorithm_that_the_key_is_too_short_for_is_refused() -> None:
    short = secret_key(32 * b"k")
    token = _with_mac("HS512", "sha512", 32 * b"k")
    assert _refused(TokenVerifier(short), token) == "token_algorithm"


def test_another_keys_token_is_refused(pair: tuple[Key, Key, bytes]) -> None:
    token = sign(secret_key(64 * b"x"), {"sub": "admin"})
    assert _refused(TokenVerifier(SECRET), token) == "token_signature"
    assert _refused(TokenVerifier(pair[1]), token) == "token_algorithm"
    assert _refused(TokenVerifier(SECRET), sign(pair[0], {"sub": "admin"})) == "token_algorithm"


def test_a_changed_claim_breaks_the_signature() -> None:
    head, _, signature = sign(SECRET, {"sub": "reporter"}).split(".")
    forged = base64.urlsafe_b64encode(b'{"sub":"admin"}').rstrip(b"=").decode()
    assert _refused(TokenVerifier(SECRET), f"{head}.{forged}.{signature}") == "token_signature"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({}, "token_without_role"),
        ({"sub": None}, "token_without_role"),
        ({"sub": 7}, "token_without_role"),
        ({"sub": []}, "token_without_role"),
        ({"sub": ""}, "bad_role"),
        ({"sub": "admin\nX"}, "bad_role"),
        ({"sub": "a" * 2000}, "bad_role"),
        ({"sub": "a", "exp": NOW_S}, "token_expired"),
        ({"sub": "a", "exp": 0}, "token_expired"),
        ({"sub": "a", "exp": "never"}, "token_malformed"),
        ({"sub": "a", "exp": True}, "token_malformed"),
        ({"sub": "a", "exp": -1}, "token_malformed"),
        ({"sub": "a", "exp": 1e300}, "token_malformed"),
        ({"sub": "a", "exp": float("nan")}, "token_malformed"),
        ({"sub": "a", "exp": float("inf")}, "token_malformed"),
        ({"sub": "a", "nbf": NOW_S + 1}, "token_not_yet_valid"),
        ({"sub": "a", "nbf": [1]}, "token_malformed"),
    ],
)
def test_claims_that_do_not_hold(claims: dict[str, Any], reason: str) -> None:
    payload = json.dumps(claims).encode()
    token = jwt.PyJWS().encode(payload, SECRET.signing, "HS256")
    assert _refused(TokenVerifier(SECRET), token) == reason


@pytest.mark.parametrize(
    "token",
    [
        ".",
        "..",
        "aaaa.bbbb.cccc",
        "a" * 100,
        "é.é.é",
        "\x00",
        _raw([], {}),
        _raw({"alg": []}, {}),
        _raw({"alg": {"a": 1}}, {}),
        _raw({"alg": "HS256", "crit": ["x"]}, {"sub": "a"}),
        base64.urlsafe_b64encode(b"[" * 9000).decode() + ".e30.e30",
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    assert _refused(TokenVerifier(SECRET), token) in ("token_malformed", "token_algorithm")


def test_a_claim_nested_without_end_is_refused() -> None:
    token = jwt.PyJWS().encode(b"[" * 9000, SECRET.signing, "HS256")
    assert _refused(TokenVerifier(SECRET), token) == "token_malformed"


def test_no_token_and_a_giant_one() -> None:
    assert _refused(TokenVerifier(SECRET), "") == "no_credentials"
    giant = sign(SECRET, {"sub": "a", "x": "y" * TOKEN_SIZE_MAX})
    assert _refused(TokenVerifier(SECRET), giant) == "token_malformed"


def test_the_role_may_be_another_claim_or_the_first_of_a_list() -> None:
    verifier = TokenVerifier(SECRET, role_claim="roles")
    token = sign(SECRET, {"sub": "a", "roles": ["reader", "writer"]})
    assert verifier.verify(token, NOW_MS).role == "reader"
    assert _refused(verifier, sign(SECRET, {"sub": "a"})) == "token_without_role"


@pytest.mark.parametrize(
    ("audience", "is_meant"),
    [
        ("broker", True),
        (["x", "broker"], True),
        ("other", False),
        (["x"], False),
        ("brok", False),
        (None, False),
        ({"broker": 1}, False),
        (["broker", 7], True),
    ],
)
def test_a_token_is_meant_for_its_audience(audience: object, is_meant: bool) -> None:
    verifier = TokenVerifier(SECRET, audience_claim="aud", audience="broker")
    token = jwt.PyJWS().encode(
        json.dumps({"sub": "a", "aud": audience}).encode(), SECRET.signing, "HS256"
    )
    if is_meant:
        assert verifier.verify(token, NOW_MS).role == "a"
    else:
        assert _refused(verifier, token) == "token_wrong_audience"


def test_an_audience_that_nobody_asked_for_changes_nothing() -> None:
    token = sign(SECRET, {"sub": "a", "aud": "elsewhere", "iss": "x", "iat": NOW_S + 99})
    assert TokenVerifier(SECRET).verify(token, NOW_MS).role == "a"


def test_peeking_believes_nothing() -> None:
    header, claims = peek(sign(SECRET, {"sub": "a", "exp": 1}))
    assert (header["alg"], claims) == ("HS256", {"sub": "a", "exp": 1})
    with pytest.raises(NotAuthenticated):
        peek("nothing")


def test_a_verifier_does_not_show_its_key() -> None:
    assert "kkk" not in repr(TokenVerifier(SECRET))
