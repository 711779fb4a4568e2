"""Authentication of the client: token, basic, TLS certificate.

An authentication object gives the name of its method and its data anew for every connection and every
challenge of the broker, so that a token that expires can be renewed by a function.

    Client(url, authentication=AuthenticationToken(lambda: vault.read("pulsar-token")))
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from milepost.errors import InvalidInput


class Authentication:
    """No authentication; what the others are kinds of."""

    method = "none"
    # Paths of a client certificate and its key in PEM form; TLS presents them.
    certificate_path: str | None = None
    private_key_path: str | None = None

    def data(self) -> bytes:
        """What goes with CONNECT or answers a challenge; asked for each time."""
        return b""


class AuthenticationToken(Authentication):
    """A token (a JWT, mostly), or a function that gives one."""

    method = "token"

    def __init__(self, token: str | Callable[[], str]) -> None:
        if not isinstance(token, str) and not callable(token):
            raise InvalidInput(f"a token is text or a function, not {type(token).__name__}")
        self._token = token

    def data(self) -> bytes:
        token = self._token if isinstance(self._token, str) else self._token()
        if not isinstance(token, str) or not token:
            raise InvalidInput(f"the token function gave {type(token).__name__}, not a token")
        return token.removeprefix("token:").encode()


class AuthenticationBasic(Authentication):
    """A user's name and password."""

    def __init__(
        self,
        username: str | None = None,
        password: str | None = None,
        method: str = "basic",
        auth_params_string: str | None = None,
    ) -> None:
        if auth_params_string is not None:
            try:
                given: Any = json.loads(auth_params_string)
            except ValueError as error:
                raise InvalidInput(f"auth_params_string is no JSON: {error}") from None
            if not isinstance(given, dict):
                raise InvalidInput("auth_params_string is no JSON object")
            username, password = given.get("username"), given.get("password")
            method = given.get("method", "basic")
        for name, value in (("username", username), ("password", password), ("method", method)):
            if not isinstance(value, str):
                raise InvalidInput(f"{name} is {type(value).__name__}, not text")
        self.method = method
        self._data = f"{username}:{password}".encode()

    def data(self) -> bytes:
        return self._data


class AuthenticationTLS(Authentication):
    """A client certificate: the TLS handshake itself says who it is."""

    method = "tls"

    def __init__(self, certificate_path: str, private_key_path: str) -> None:
        self.certificate_path = certificate_path
        self.private_key_path = private_key_path
