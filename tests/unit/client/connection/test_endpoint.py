"""One endpoint for every tool: addresses, TLS and credentials mean the same wherever they come from."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from stage.certificates import Authority
from unit.admin.conftest import Played
from unit.cli.conftest import Face

from milepost.aio import Client
from milepost.client.connection.endpoint import Endpoint, first_of
from milepost.errors import InvalidInput, MissingFile


@pytest.mark.parametrize(
    ("admin_url", "told", "url"),
    [
        ("http://h:1", {"brokerUrl": "pulsar://h:2"}, "pulsar://h:2"),
        (
            "http://h:1",
            {"brokerUrl": "pulsar://h:2", "brokerUrlTls": "pulsar+ssl://h:3"},
            "pulsar://h:2",
        ),
        (
            "https://h:1",
            {"brokerUrl": "pulsar://h:2", "brokerUrlTls": "pulsar+ssl://h:3"},
            "pulsar+ssl://h:3",
        ),
        ("http://h:1", {"brokerUrl": "", "brokerUrlTls": "pulsar+ssl://h:3"}, "pulsar+ssl://h:3"),
    ],
)
def test_the_address_is_the_one_that_is_told(
    admin_url: str, told: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Endpoint, "admin", lambda self: Face(Played(told)))
    endpoint = Endpoint(admin_url=admin_url)
    assert endpoint.located("orders").url == url
    assert endpoint.client("orders")._options.url == url


def test_a_token_does_not_leave_tls_because_the_broker_tells_a_plain_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"brokerUrl": "pulsar://h:2", "brokerUrlTls": ""}
    monkeypatch.setattr(Endpoint, "admin", lambda self: Face(Played(told)))
    with pytest.raises(InvalidInput, match=r"no address with TLS .* only pulsar://h:2"):
        Endpoint(admin_url="https://h:1", token="t").located("orders")


@pytest.mark.parametrize(
    ("url", "http_url", "is_tls"),
    [
        (None, "http://localhost:8080", False),
        ("pulsar://h:6650", "http://h:8080", False),
        ("pulsar+ssl://h:6651,i", "https://h:8443,i:8443", True),
        ("pulsar://[::1]:6650", "http://[::1]:8080", False),
    ],
)
def test_the_http_port_is_looked_for_beside_the_binary_one(
    url: str | None, http_url: str, is_tls: bool
) -> None:
    """A command that was given only the binary address must not ask a broker on this machine."""
    endpoint = Endpoint(url=url)
    assert (endpoint.http_url, endpoint.is_tls) == (http_url, is_tls)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("url", "http://h:1"),
        ("url", "nonsense"),
        ("url", "pulsar://h:99999"),
        ("admin_url", "nonsense"),
        ("admin_url", "pulsar://h:1"),
        ("admin_url", "http://"),
        ("tls_key", "/k"),
    ],
)
def test_what_nothing_could_obey_is_refused_when_it_is_said(field: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=value.partition(":")[0]):
        Endpoint(**{field: value})


def _said(client: Client) -> bytes:
    """What it authenticates with."""
    authentication = client._options.authentication
    assert authentication is not None
    return authentication.data()


def test_who_asks_is_told_to_the_binary_port(tmp_path: Path) -> None:
    assert _said(Endpoint(url="pulsar://h:9", token="t").client("orders")) == b"t"
    by_name = Endpoint(url="pulsar://h:9", user="u", password="p")
    assert _said(by_name.client("orders")) == b"u:p"
    assert by_name.authentication().method == "basic"
    file = tmp_path / "token"
    file.write_text("one\n", "utf-8")
    renewed = Endpoint(url="pulsar://h:9", token_file=str(file)).authentication()
    assert renewed.data() == b"one"
    file.write_text("two\n", "utf-8")
    assert renewed.data() == b"two"
    with pytest.raises(MissingFile, match=r"token file .*missing: there is no such file"):
        Endpoint(token_file=str(tmp_path / "missing")).read_token()
    assert Endpoint(url="pulsar://h:9").client("orders")._options.authentication is None


def test_certificates_reach_a_socket_and_the_http_port(tmp_path: Path) -> None:
    files = tmp_path / "ca.pem"
    files.write_bytes(Authority("Test authority").pem)
    endpoint = Endpoint(url="pulsar+ssl://h:9", tls_trust_certs=str(files))
    context = endpoint.tls_options().context(endpoint.authentication())
    assert context.check_hostname
    assert [one["issuer"] for one in context.get_ca_certs()] == [
        one["subject"] for one in context.get_ca_certs()
    ]
    assert endpoint.tls().trust_certs == str(files)
    lacking = Endpoint(url="pulsar+ssl://h:9", tls_trust_certs="missing")
    with pytest.raises(InvalidInput, match="missing"):
        lacking.tls_options().context(lacking.authentication())


def test_it_goes_to_another_process_and_shows_no_secret() -> None:
    endpoint = Endpoint(url="pulsar://h:9", token="hidden", user="u", password="veiled")
    assert pickle.loads(pickle.dumps(endpoint)) == endpoint
    assert "hidden" not in repr(endpoint)
    assert "veiled" not in repr(endpoint)


def test_each_value_is_the_first_and_who_asks_is_of_one_source() -> None:
    found = first_of(
        [
            {"url": "pulsar://a:1", "token": "t", "admin_url": None},
            {"url": "pulsar://b:1", "admin_url": "http://b:1", "user": "u", "password": "p"},
        ]
    )
    assert found == {"url": "pulsar://a:1", "token": "t", "admin_url": "http://b:1"}
