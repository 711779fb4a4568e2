"""Checks JSON Web Tokens: signature, expiry, audience, role.

The key decides which algorithms count, never the token: a token that names another (`none`, or HS256
where the key is public) is refused before anything in it is believed. Signing is here as well, for the
command line. It reads no file and no clock.

    >>> from milepost.broker.auth.keys import secret_key
    >>> key = secret_key(32 * b"k")
    >>> token = sign(key, {"sub": "reporter", "exp": 1800000000})
    >>> TokenVerifier(key).verify(token, now_ms=1799999999_000)
    Identity(role='reporter', method='token', expires_at_ms=1800000000000, original_role='')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import jwt

from milepost.broker.auth.keys import Key
from milepost.broker.auth.roles import TOKEN, Identity, check_role
from milepost.errors import NotAuthenticated

# Far above what any issuer makes; a header or a claim that is nested without end fits in little.
TOKEN_SIZE_MAX = 16 * 1024

# Seconds since 1970 that a time in a token may say: up to the year 9999.
_TIME_MAX_S = 253_402_300_799

# Everything about time and audience is judged here: the library asks a clock of its own.
_SIGNATURE_ONLY: Any = {
    "verify_signature": True,
    **dict.fromkeys(("verify_exp", "verify_nbf", "verify_iat", "verify_aud", "verify_iss"), False),
    **dict.fromkeys(("verify_sub", "verify_jti"), False),
    "require": [],
}


@dataclass(frozen=True, slots=True)
class TokenVerifier:
    key: Key = field(repr=False)

    # The claim that names the role; a list names it first.
    role_claim: str = "sub"

    # The claim that must hold `audience`; empty: none must.
    audience_claim: str = ""
    audience: str = ""

    # How far the clocks of issuer and broker may be apart.
    clock_skew_ms: int = 0

    def verify(self, token: str, now_ms: int) -> Identity:
        """Whose token it is, or `NotAuthenticated`."""
        claims = self._claims(token)
        expires_at_ms = _time_ms(claims, "exp")
        if expires_at_ms is not None:
            expires_at_ms += self.clock_skew_ms
            if now_ms >= expires_at_ms:
                _refuse("token_expired", "the token has expired")
        not_before_ms = _time_ms(claims, "nbf")
        if not_before_ms is not None and now_ms + self.clock_skew_ms < not_before_ms:
            _refuse("token_not_yet_valid", "the token is not valid yet")
        if self.audience_claim and self.audience not in _texts(claims.get(self.audience_claim)):
            _refuse("token_wrong_audience", f"the token is not meant for {self.audience}")
        roles = _texts(claims.get(self.role_claim))
        if not roles:
            _refuse("token_without_role", f"the token has no claim {self.role_claim}")
        return Identity(check_role(roles[0]), TOKEN, expires_at_ms)

    def _claims(self, token: str) -> dict[str, Any]:
        if not token:
            _refuse("no_credentials", "there is no token")
        if len(token) > TOKEN_SIZE_MAX:
            _refuse("token_malformed", f"a token of {len(token)} characters")
        algorithms = list(self.key.algorithms)
        try:
            claims: dict[str, Any] = jwt.decode(
                token, self.key.verifying, algorithms, options=_SIGNATURE_ONLY
            )
        except jwt.InvalidAlgorithmError:
            _refuse("token_algorithm", f"the token is not signed by {' or '.join(algorithms)}")
        except jwt.InvalidSignatureError:
            _refuse("token_signature", "the token's signature does not hold")
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            # Whatever the library says may quote the token.
            _refuse("token_malformed", "not a JSON Web Token")
        return claims


def sign(key: Key, claims: dict[str, Any], algorithm: str = "") -> str:
    """A token with these claims; the key must be one that signs."""
    assert key.signing is not None, "a public key signs nothing"
    chosen = algorithm or key.algorithms[0]
    assert chosen in key.algorithms, f"{chosen} is not an algorithm of this key"
    return jwt.encode(claims, key.signing, chosen)


def peek(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, not verified: for showing them to the holder of the token."""
    try:
        read = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise NotAuthenticated("token_malformed", "not a JSON Web Token") from None
    return read["header"], read["payload"]


def _time_ms(claims: dict[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= _TIME_MAX_S:
        _refuse("token_malformed", f"the token's {name} is not a time")
    return int(value * 1000)


def _texts(value: object) -> list[str]:
    """A claim that is a text, or a list of them."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _refuse(reason: str, message: str) -> NoReturn:
    raise NotAuthenticated(reason, message) from None
