"""What needs no socket: addresses, credentials, certificates. Exchanges are tried end to end."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from milepost.admin.transport import Credentials, Tls, parse_origins
from milepost.errors import InvalidInput


@pytest.mark.parametrize(
    ("url", "origins"),
    [
        ("http://localhost:8080", ["http://localhost:8080"]),
        ("http://localhost:8080/", ["http://localhost:8080"]),
        ("https://h", ["https://h:443"]),
        ("http://[::1]:8080", ["http://[::1]:8080"]),
        ("http://a:1,b:2,c", ["http://a:1", "http://b:2", "http://c:80"]),
        ("http://a:1/pulsar/", ["http://a:1/pulsar"]),
    ],
)
def test_addresses_of_a_service(url: str, origins: list[str]) -> None:
    assert [str(origin) for origin in parse_origins(url)] == origins


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "pulsar://h:6650",
        "",
        "http://",
        "http://a:x",
        "http://a:99999",
        "http://[::1",
        "http://u:p@h",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(InvalidInput, match="admin URL"):
        parse_origins(url)


def test_credentials() -> None:
    assert Credentials().header() == {}
    assert Credentials(token="abc\n").header() == {"Authorization": "Bearer abc"}
    tokens = iter(["one", "two"])
    turning = Credentials(token=lambda: next(tokens))
    assert [turning.header()["Authorization"] for _ in range(2)] == ["Bearer one", "Bearer two"]
    basic = Credentials(user="u", password="p")
    assert basic.header() == {"Authorization": "Basic dTpw"}


def test_secrets_are_not_shown() -> None:
    assert "abc" not in repr(Credentials(token="abc", user="u", password="abc"))


@pytest.mark.parametrize("token", ["a\r\nX-Role: admin", "ä"])
def test_a_token_that_no_header_may_hold(token: str) -> None:
    with pytest.raises(InvalidInput, match="the token has characters"):
        Credentials(token=token).header()


def test_certificates_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="trusted certificates missing"):
        Tls(trust_certs="missing").context()
    empty = tmp_path / "empty.pem"
    empty.write_text("", "utf-8")
    with pytest.raises(InvalidInput, match=r"certificate .*empty.pem"):
        Tls(certificate=str(empty)).context()


def test_trust() -> None:
    assert Tls().context().verify_mode is ssl.CERT_REQUIRED
    assert not Tls(verify_hostname=False).context().check_hostname
    assert Tls(allow_insecure=True).context().verify_mode is ssl.CERT_NONE
