"""By which names the edge is called, and from which pages."""

from __future__ import annotations

import pytest

from milepost.broker.settings.settings import Settings
from milepost.rest.hosts import HostRules


def refuses(method: str = "GET", *, settings: dict[str, str] | None = None, **headers: str) -> bool:
    rules = HostRules(Settings(**(settings or {})))  # type: ignore[arg-type]
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return rules.fault(method, raw) is not None


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:8080", "[::1]:8080", "10.1.2.3", ""],
)
def test_its_own_names_and_addresses_pass(host: str) -> None:
    assert not refuses(host=host)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "x:y:z"]
)
def test_on_this_machine_only_other_names_do_not(host: str) -> None:
    assert refuses(host=host)
    assert not refuses(host=host, settings={"host": "0.0.0.0"})


def test_names_that_the_settings_have() -> None:
    settings = {"http_hosts": "mq.example, other"}
    assert not refuses(host="mq.example:80", settings=settings)
    assert not refuses(host="other", settings=settings)
    assert refuses(host="third", settings={**settings, "host": "0.0.0.0"})
    assert not refuses(host="third", settings={"http_hosts": "*"})
    assert not refuses(host="a.example", settings={"advertised_address": "a.example"})


def test_pages_of_other_hosts_change_nothing() -> None:
    assert refuses("PUT", host="localhost:8080", origin="http://evil.example")
    assert refuses("PUT", host="localhost:8080", origin="http://localhost:9090")
    assert refuses("PUT", host="localhost:8080", origin="null")
    assert not refuses("PUT", host="localhost:8080", origin="http://localhost:8080")
    assert not refuses("GET", host="localhost:8080", origin="http://evil.example")


def test_a_console_that_is_read_only_lets_no_page_change_anything() -> None:
    rules = HostRules(Settings(console_read_only=True))
    for header in ((b"origin", b"http://localhost"), (b"x-milepost-console", b"page")):
        told = rules.fault("POST", [(b"host", b"localhost"), header])
        assert told == "the console is read only here (console_read_only)"
        assert rules.fault("GET", [(b"host", b"localhost"), header]) is None
    assert rules.fault("POST", [(b"host", b"localhost")]) is None  # a command, or a client
    assert not refuses("POST", host="localhost", origin="http://localhost")


def test_two_hosts_are_none() -> None:
    rules = HostRules(Settings(host="0.0.0.0"))
    assert rules.fault("GET", [(b"host", b"a"), (b"host", b"b")]) is not None
