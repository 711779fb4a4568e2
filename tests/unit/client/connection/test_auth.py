"""Who the client says it is."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.connection.auth import (
    Authentication,
    AuthenticationBasic,
    AuthenticationTLS,
    AuthenticationToken,
)
from milepost.errors import InvalidInput


def test_nobody_in_particular() -> None:
    assert (Authentication().method, Authentication().data()) == ("none", b"")


def test_a_token_is_text_or_asked_for_each_time() -> None:
    assert AuthenticationToken("abc").data() == b"abc"
    assert AuthenticationToken("token:abc").data() == b"abc"
    tokens = iter(["one", "two"])
    renewed = AuthenticationToken(lambda: next(tokens))
    assert [renewed.data(), renewed.data()] == [b"one", b"two"]


@pytest.mark.parametrize("token", [None, 7, b"abc"])
def test_what_is_no_token(token: Any) -> None:
    with pytest.raises(InvalidInput):
        AuthenticationToken(token)


@pytest.mark.parametrize("given", [None, "", 7])
def test_a_function_must_give_a_token(given: Any) -> None:
    with pytest.raises(InvalidInput):
        AuthenticationToken(lambda: given).data()


def test_name_and_password() -> None:
    plain = AuthenticationBasic("ann", "secret")
    assert (plain.method, plain.data()) == ("basic", b"ann:secret")
    text = '{"username": "ann", "password": "secret", "method": "other"}'
    read = AuthenticationBasic(auth_params_string=text)
    assert (read.method, read.data()) == ("other", b"ann:secret")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"username": "a"}', '{"username": 1, "password": "x"}']
)
def test_bad_parameters_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        AuthenticationBasic(auth_params_string=text)


def test_a_certificate_says_it_by_itself() -> None:
    tls = AuthenticationTLS("cert.pem", "key.pem")
    assert (tls.method, tls.data()) == ("tls", b"")
    assert (tls.certificate_path, tls.private_key_path) == ("cert.pem", "key.pem")
