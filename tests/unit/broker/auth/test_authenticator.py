"""Credentials in, an identity out."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path

import pytest

from milepost.broker.auth.authenticator import (
    PASSWORDS_WAITING_MAX,
    Authenticator,
    Presented,
    presented_over_http,
)
from milepost.broker.auth.files import WatchedFile
from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.passwords import PasswordTable
from milepost.broker.auth.roles import Identity
from milepost.broker.auth.tokens import TokenVerifier, sign
from milepost.errors import NotAuthenticated

KEY = secret_key(32 * b"k")
TOKEN = sign(KEY, {"sub": "reporter"}).encode()
USERS = "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="
CERTIFICATE = {"subject": ((("commonName", "carol"),),)}


def _authenticator(**more: object) -> Authenticator:
    return Authenticator(
        lambda: 0,
        is_enabled=True,
        tokens=TokenVerifier(KEY),
        passwords=PasswordTable.parse(USERS),
        takes_certificates=True,
        **more,  # type: ignore[arg-type]
    )


def _of(authenticator: Authenticator, presented: Presented) -> Identity:
    return asyncio.run(authenticator.authenticate(presented))


def _reason(authenticator: Authenticator, presented: Presented) -> str:
    with pytest.raises(NotAuthenticated) as refused:
        _of(authenticator, presented)
    assert "secret" not in str(refused.value)
    return refused.value.reason


def test_each_method() -> None:
    who = _authenticator()
    assert who.methods == ["token", "basic", "tls"]
    assert _of(who, Presented("token", TOKEN)) == Identity("reporter", "token")
    assert _of(who, Presented("basic", b"alice:secret")) == Identity("alice", "basic")
    assert _of(who, Presented("tls", b"", CERTIFICATE)) == Identity("carol", "tls")


@pytest.mark.parametrize(
    ("presented", "reason"),
    [
        (Presented("none"), "no_credentials"),
        (Presented(""), "no_credentials"),
        (Presented("kerberos", b"x"), "unknown_method"),
        (Presented("token", b""), "no_credentials"),
        (Presented("token", b"\xff\xfe"), "token_malformed"),
        (Presented("basic", b""), "password_malformed"),
        (Presented("basic", b"alice"), "password_malformed"),
        (Presented("basic", b"\xff:x"), "password_malformed"),
        (Presented("basic", b"alice:wrong secret"), "password_wrong"),
        (Presented("basic", b"bob:secret"), "password_wrong"),
        (Presented("basic", b"al\nice:secret"), "bad_role"),
        (Presented("tls", b"carol"), "no_certificate"),
        (Presented("tls", TOKEN, {}), "no_certificate"),
    ],
)
def test_each_wrong_in_each_way(presented: Presented, reason: str) -> None:
    assert _reason(_authenticator(), presented) == reason


def test_an_unknown_user_and_a_wrong_password_are_told_alike() -> None:
    texts = set()
    for data in (b"alice:guess", b"bob:guess"):
        with pytest.raises(NotAuthenticated) as refused:
            _of(_authenticator(), Presented("basic", data))
        texts.add(str(refused.value))
    assert len(texts) == 1


def test_anonymous_are_those_who_show_nothing_that_could_be_judged() -> None:
    who = _authenticator(anonymous_role="guest")
    assert _of(who, Presented("none")) == Identity("guest", "anonymous")
    assert _of(who, Presented("kerberos", b"x")).role == "guest"
    assert _reason(who, Presented("token", b"forged")) == "token_malformed"


def test_a_method_that_is_not_set_up_is_none() -> None:
    who = Authenticator(lambda: 0, is_enabled=True, takes_certificates=True)
    assert _reason(who, Presented("token", TOKEN)) == "unknown_method"


def test_secrets_may_be_for_tls_only() -> None:
    who = _authenticator(confidential_only=True)
    for method, data in (("token", TOKEN), ("basic", b"alice:secret")):
        assert _reason(who, Presented(method, data, None, False)) == "not_confidential"
        assert _of(who, Presented(method, data, None, True)).method == method
    assert _of(who, Presented("tls", b"", CERTIFICATE, False)).role == "carol"


def test_too_many_passwords_at_once_are_turned_away() -> None:
    async def run() -> list[str]:
        who = _authenticator()
        shown = [
            Presented("basic", b"alice:guess %d" % n) for n in range(PASSWORDS_WAITING_MAX + 5)
        ]
        judged = await asyncio.gather(*map(who.authenticate, shown), return_exceptions=True)
        # The right one is judged all the same, once there is room.
        assert (await who.authenticate(Presented("basic", b"alice:secret"))).role == "alice"
        return [error.reason for error in judged if isinstance(error, NotAuthenticated)]

    reasons = asyncio.run(run())
    assert reasons.count("passwords_too_many") == 5
    assert reasons.count("password_wrong") == PASSWORDS_WAITING_MAX


def test_changed_passwords_are_taken_and_broken_ones_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "users"
    path.write_text(USERS)
    file = WatchedFile(path)
    file.read()
    who = _authenticator(password_file=file)
    right = Presented("basic", b"alice:secret")
    assert _of(who, right).role == "alice"
    assert not who.reload()
    path.write_text("alice:hunter22")
    assert not who.reload()
    assert _of(who, right).role == "alice"
    assert "line 1" in caplog.text
    assert "hunter22" not in caplog.text
    path.write_text("bob:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
    assert who.reload() == {"basic"}
    # What was remembered of the old table is gone with it.
    assert _reason(who, right) == "password_wrong"
    assert _of(who, Presented("basic", b"bob:secret")).role == "bob"


def _http(certificate: dict[str, object] | None = None, **headers: str) -> Presented:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return presented_over_http(given, certificate, is_confidential=True, takes_certificates=True)


def test_what_a_request_shows() -> None:
    basic = base64.b64encode(b"alice:secret").decode()
    assert _http(authorization="Bearer abc")[:2] == ("token", b"abc")
    assert _http(authorization="bearer abc")[:2] == ("token", b"abc")
    assert _http(authorization=f"Basic {basic}")[:2] == ("basic", b"alice:secret")
    assert _http(authorization="Basic ***")[:2] == ("basic", b"")
    assert _http(authorization="Negotiate abc")[0] == "unknown"
    assert _http()[0] == "none"
    assert _http(CERTIFICATE)[::2] == ("tls", CERTIFICATE)
    assert _http(CERTIFICATE, authorization="Bearer abc")[:2] == ("token", b"abc")
    assert _http(None, x_pulsar_auth_method_name="tls")[0] == "tls"
    assert _http(CERTIFICATE, x_pulsar_auth_method_name="tls", authorization="x")[0] == "tls"


def test_credentials_are_not_shown_by_accident(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("test").warning("%s %r", *[Presented("token", TOKEN)] * 2)
    assert TOKEN.decode() not in caplog.text
