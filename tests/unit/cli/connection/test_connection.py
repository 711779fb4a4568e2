"""Whom a command talks to: each value from the first source that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from milepost.cli.connection.connection import resolve
from milepost.cli.connection.contexts import Contexts, save_contexts
from milepost.client.connection.endpoint import Endpoint
from milepost.errors import InvalidInput

TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def test_the_default() -> None:
    assert resolve({}, {}) == Endpoint()


def test_the_order(at_home: Path) -> None:
    conf = at_home / "client.conf"
    conf.write_text("webServiceUrl=http://conf:1\nbrokerServiceUrl=pulsar://conf:2\n", "utf-8")
    save_contexts(
        Contexts(
            "now", {"now": {"admin_url": "http://now:1"}, "asked": {"admin_url": "http://asked:1"}}
        )
    )
    environ = {"MILEPOST_CLIENT_CONF": str(conf), "MILEPOST_ADMIN_URL": "http://env:1"}
    assert resolve({}, {}).admin_url == "http://now:1"
    assert resolve({}, {"PULSAR_CLIENT_CONF": str(conf)}).admin_url == "http://conf:1"
    assert resolve({}, environ).admin_url == "http://env:1"
    assert resolve({}, environ).url == "pulsar://conf:2"
    assert resolve({"context": "asked"}, environ).admin_url == "http://asked:1"
    assert resolve({"admin_url": "http://flag:1", "context": "asked"}, environ).admin_url == (
        "http://flag:1"
    )
    assert resolve({}, {"MILEPOST_CONTEXT": "asked"}).admin_url == "http://asked:1"


def test_a_context_is_one_broker(at_home: Path) -> None:
    """A flag or a variable names another broker: the context's other address is not that one's."""
    save_contexts(
        Contexts(
            "now", {"now": {"admin_url": "http://now:1", "url": "pulsar://now:2", "token": "t"}}
        )
    )
    assert resolve({}, {}) == Endpoint("http://now:1", "pulsar://now:2", token="t")
    by_http = resolve({}, {"MILEPOST_ADMIN_URL": "http://env:1"})
    assert (by_http.http_url, by_http.url, by_http.token) == ("http://env:1", None, "t")
    by_url = resolve({"url": "pulsar://flag:2"}, {})
    assert (by_url.http_url, by_url.url) == ("http://flag:8080", "pulsar://flag:2")


def test_who_one_is_comes_from_one_source() -> None:
    save_contexts(Contexts("now", {"now": {"user": "u", "password": "p"}}))
    found = resolve({"token": "t"}, {})
    assert (found.token, found.user, found.password) == ("t", None, None)


@pytest.mark.parametrize(
    ("plugin", "params", "expected"),
    [
        (TOKEN_PLUGIN, "token:abc", {"token": "abc"}),
        ("token", "abc", {"token": "abc"}),
        ("", "token:abc", {"token": "abc"}),
        ("", '{"token": "abc"}', {"token": "abc"}),
        (TOKEN_PLUGIN, "file:///run/token", {"token_file": "/run/token"}),
        ("", '{"userId": "u", "password": "p"}', {"user": "u", "password": "p"}),
        ("a.b.AuthenticationBasic", "u:p:q", {"user": "u", "password": "p:q"}),
        ("", "tlsCertFile:/c,tlsKeyFile:/k", {"tls_certificate": "/c", "tls_key": "/k"}),
    ],
)
def test_pulsars_own_words(plugin: str, params: str, expected: dict[str, Any]) -> None:
    found = resolve({"auth_plugin": plugin, "auth_params": params}, {})
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("plugin", "params"),
    [("kerberos", "x"), ("tls", "x"), ("basic", "{"), ("token", '{"x": 1}'), ("", "{")],
)
def test_words_that_mean_nothing(plugin: str, params: str) -> None:
    with pytest.raises(InvalidInput, match="--auth-params"):
        resolve({"auth_plugin": plugin, "auth_params": params}, {})


def test_a_client_conf_of_pulsar(at_home: Path) -> None:
    conf = at_home / "client.conf"
    conf.write_text(
        "# comment\nwebServiceUrl=https://h:8443\n"
        f"authPlugin={TOKEN_PLUGIN}\nauthParams=token:abc\n"
        "tlsAllowInsecureConnection=true\ntlsTrustCertsFilePath=/ca.pem\nuseKeyStoreTls=false\n",
        "utf-8",
    )
    found = resolve({}, {"PULSAR_CLIENT_CONF": str(conf)})
    assert (found.admin_url, found.token, found.tls_trust_certs, found.tls_allow_insecure) == (
        "https://h:8443",
        "abc",
        "/ca.pem",
        True,
    )
    with pytest.raises(InvalidInput, match="there is no such file"):
        resolve({}, {"PULSAR_CLIENT_CONF": str(at_home / "missing")})


def test_a_token_from_a_file(at_home: Path) -> None:
    file = at_home / "token"
    file.write_text("abc\n", "utf-8")
    assert Endpoint(token_file=str(file)).read_token() == "abc"
    with pytest.raises(InvalidInput, match=r"token file .*missing: there is no such file"):
        Endpoint(token_file=str(at_home / "missing")).read_token()


def test_time_outs_and_certificates_reach_the_client() -> None:
    made = resolve({"request_timeout": 2.5, "tls_trust_certs": "/ca"}, {})
    assert made.timeout_s == 2.5
    assert made.tls().trust_certs == "/ca"


def test_an_address_that_is_none_is_refused_whoever_says_it() -> None:
    save_contexts(Contexts("now", {"now": {"url": "nonsense"}}))
    with pytest.raises(InvalidInput, match="'nonsense'"):
        resolve({}, {})
    with pytest.raises(InvalidInput, match="admin URL 'rubbish'"):
        resolve({}, {"MILEPOST_ADMIN_URL": "rubbish"})
