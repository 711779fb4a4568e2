"""Security, made from settings: set-ups that look protected and are not do not start."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from stage.certificates import Authority

from milepost.broker.auth.authenticator import Presented
from milepost.broker.auth.grant_book import GrantBook
from milepost.broker.auth.keys import secret_key
from milepost.broker.auth.roles import Identity
from milepost.broker.auth.security import Security
from milepost.broker.auth.tokens import sign
from milepost.broker.settings.settings import Settings
from milepost.errors import InvalidSetting, NotAuthenticated, NotAuthorized

SECRET = 32 * b"k"
KEY = f"data:;base64,{base64.b64encode(SECRET).decode()}"
USERS = "data:;base64," + base64.b64encode(b"alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=").decode()


def make(**settings: Any) -> Security:
    async def never(change: object) -> None:
        raise AssertionError

    return Security(
        Settings(**settings),
        GrantBook(never, check=lambda catalog, name: None, on_change=lambda namespace: None),
        now_ms=lambda: 0,
        admins_of=lambda tenant: (),
        on_tls_failure=lambda error: None,
    )


def _tls(tmp_path: Path) -> dict[str, Any]:
    authority = Authority("test")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    files = authority.issue("localhost", is_server=True).write(tmp_path, "server")
    return {
        "tls_port": 0,
        "tls_certificate_file": str(files.certificate),
        "tls_key_file": str(files.key),
    }


def test_everything_is_off_at_first() -> None:
    security = make()
    assert not security.authenticator.is_enabled
    assert not security.authorizer.is_enabled
    assert security.tls is None
    assert not security.warnings


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"authorization": True}, "authentication is off"),
        ({"authentication": True}, "no way to prove a role is set up"),
        ({"token_secret_key": "data:;base64,c2hvcnQ="}, "secret key of 5 bytes"),
        ({"token_secret_key": "data:;base64,?"}, "token_secret_key"),
        ({"token_secret_key": "/no/such/file"}, "token_secret_key: /no/such/file: cannot be read"),
        ({"token_public_key": KEY}, "not a public key"),
        ({"basic_auth_file": KEY}, "line 1"),
        ({"token_secret_key": KEY, "token_audience_claim": "aud"}, "token_audience is not"),
        ({"token_secret_key": KEY, "authentication_providers": "basic"}, "names basic"),
        ({"token_secret_key": KEY, "authentication_providers": "org.x.Kerberos"}, "not supported"),
        (
            {
                "token_secret_key": KEY,
                "authorization": True,
                "anonymous_role": "root",
                "superuser_roles": "admin,root",
            },
            "anonymous_role root is a superuser",
        ),
        ({"tls_port": 0}, "TLS needs tls_certificate_file"),
        (
            {"tls_port": 0, "tls_certificate_file": "/no/such", "tls_key_file": "/no/such"},
            "tls_certificate_file: /no/such: cannot be read: there is no such file",
        ),
    ],
)
def test_weak_set_ups_do_not_start(settings: dict[str, Any], why: str) -> None:
    settings.setdefault("authentication", "authorization" not in settings or len(settings) > 1)
    with pytest.raises(InvalidSetting, match=why) as refused:
        make(**settings)
    assert base64.b64encode(SECRET).decode() not in str(refused.value)


def test_a_client_certificate_cannot_be_required_without_an_authority(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="needs tls_trust_certs_file"):
        make(**_tls(tmp_path), tls_require_client_certificate=True)


def test_the_methods_are_those_that_are_set_up(tmp_path: Path) -> None:
    tls = {**_tls(tmp_path), "tls_trust_certs_file": str(tmp_path / "ca.pem")}
    every = {"authentication": True, "token_secret_key": KEY, "basic_auth_file": USERS, **tls}
    assert make(**every).authenticator.methods == ["token", "basic", "tls"]
    names = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken, tls"
    chosen = make(**every, authentication_providers=names)
    assert chosen.authenticator.methods == ["token", "tls"]


def test_what_is_unwise_is_said_once(tmp_path: Path) -> None:
    key = tmp_path / "secret"
    key.write_bytes(SECRET)
    key.chmod(0o644)
    security = make(
        authentication=True,
        authorization=True,
        token_secret_key=str(key),
        basic_auth_file=USERS,
    )
    assert len(security.warnings) == 3
    text = "\n".join(security.warnings)
    for word in (f"{key}: others on this machine", "superuser_roles is empty", "SHA or MD5"):
        assert word in text
    key.chmod(0o600)
    calm = make(authentication=True, token_secret_key=str(key), superuser_roles="root")
    assert not calm.warnings


def _identify(security: Security, token_of: str, **more: Any) -> Identity:
    token = sign(secret_key(SECRET), {"sub": token_of}).encode()
    return asyncio.run(security.identify(Presented("token", token), **more))


def test_a_proxy_speaks_for_others_and_nobody_else_does() -> None:
    security = make(
        authentication=True,
        authorization=True,
        token_secret_key=KEY,
        superuser_roles="root",
        proxy_roles="proxy",
    )
    assert _identify(security, "a") == Identity("a", "token")
    assert _identify(security, "proxy", original_role="a").original_role == "a"
    assert _identify(security, "a", original_role="a", over_http=True).original_role == ""
    for role, original in (("a", "root"), ("proxy", ""), ("proxy", "proxy"), ("a", "a")):
        with pytest.raises(NotAuthorized):
            _identify(security, role, original_role=original)
    with pytest.raises(NotAuthenticated, match="role"):
        _identify(security, "proxy", original_role="a\nb")


def test_the_credentials_of_whoever_is_behind_a_proxy_may_count() -> None:
    security = make(
        authentication=True,
        authorization=True,
        token_secret_key=KEY,
        superuser_roles="root",
        proxy_roles="proxy",
        authenticate_original_credentials=True,
    )
    key = secret_key(SECRET)
    real = Presented("token", sign(key, {"sub": "real", "exp": 5}).encode())
    identity = _identify(security, "proxy", original_role="claimed", original=real)
    assert identity == Identity("proxy", "token", 5000, "real")
    assert security.can_refresh(identity)
    forged = Presented("token", b"forged")
    with pytest.raises(NotAuthenticated):
        _identify(security, "proxy", original_role="claimed", original=forged)
    with pytest.raises(NotAuthenticated):
        _identify(security, "proxy", original_role="claimed")


def test_a_check_starts_nothing_and_finds_the_same() -> None:
    assert not Security.check(Settings())
    with pytest.raises(InvalidSetting, match="authentication is off"):
        Security.check(Settings(authorization=True))


def test_a_key_file_is_read_again_when_it_changes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "secret.key"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    security = make(authentication=True, token_secret_key=str(path))

    def who(key: bytes) -> str:
        token = sign(secret_key(key), {"sub": "reporter"}).encode()
        try:
            return asyncio.run(security.identify(Presented("token", token))).role
        except NotAuthenticated as error:
            return error.reason

    other = 32 * b"o"
    assert (who(SECRET), who(other)) == ("reporter", "token_signature")
    assert security.reload() == set()
    path.write_bytes(b"short")  # no secret: it could be guessed
    assert security.reload() == set()
    assert who(SECRET) == "reporter"
    assert "the token key stays as it was" in caplog.text
    assert "short" not in caplog.text.replace("shorter", "")
    path.write_bytes(SECRET + b"")  # written again, and the same
    assert security.reload() == set()
    path.write_bytes(other)
    assert security.reload() == {"token"}
    assert (who(SECRET), who(other)) == ("token_signature", "reporter")
    path.unlink()
    assert security.reload() == set()
    assert who(other) == "reporter"


def test_a_key_that_stands_in_the_setting_is_not_looked_for() -> None:
    security = make(authentication=True, token_secret_key=KEY)
    assert security.authenticator.key_file is None
    assert security.reload() == set()
