"""Roles for tests: a secret, tokens signed with it, and the settings of a broker that asks for them."""

from __future__ import annotations

import base64
from typing import Any

from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.tokens import sign

SECRET = bytes(range(32))
REFERENCE = f"data:;base64,{base64.b64encode(SECRET).decode()}"

# Authentication by token and authorisation, with `root` as the one superuser.
SECURED: dict[str, Any] = {
    "authentication": True,
    "authorization": True,
    "token_secret_key": REFERENCE,
    "superuser_roles": "root",
}


def token(role: str, **claims: Any) -> str:
    return sign(secret_key(SECRET), {"sub": role, **claims})


def shown(role: str, **claims: Any) -> dict[str, Any]:
    """The fields of a CONNECT that shows the role's token."""
    return {"auth_method_name": "token", "auth_data": token(role, **claims).encode()}


def bearer(role: str, **claims: Any) -> dict[str, str]:
    """The header of a request that shows the role's token."""
    return {"authorization": f"Bearer {token(role, **claims)}"}
