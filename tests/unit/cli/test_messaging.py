"""Where the messaging client connects, and errors of several tasks."""

from __future__ import annotations

import asyncio

import pytest
from unit.admin.conftest import Played
from unit.cli.conftest import Face

from milepost.aio import Client
from milepost.cli.connection import Connection
from milepost.cli.messaging import make_client, run, together


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
        ("https://h:1", {"brokerUrl": "pulsar://h:2", "brokerUrlTls": ""}, "pulsar://h:2"),
    ],
)
def test_the_address_is_the_one_that_is_told(
    admin_url: str, told: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "admin", lambda self: Face(Played(told)))
    assert make_client(Connection(admin_url=admin_url), "orders")._options.url == url


def _said(client: Client) -> bytes:
    """What it authenticates with."""
    authentication = client._options.authentication
    assert authentication is not None
    return authentication.data()


def test_an_address_that_is_given_is_asked_for_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "admin", lambda self: Face(Played(500)))
    made = make_client(Connection(url="pulsar://h:9", token="t"), "orders")
    assert made._options.url == "pulsar://h:9"
    assert _said(made) == b"t"
    by_name = make_client(Connection(url="pulsar://h:9", user="u", password="p"), "orders")
    assert _said(by_name) == b"u:p"


def test_the_first_error_ends_the_others_and_is_raised_as_it_is() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")

    async def fails() -> None:
        raise BrokenPipeError

    async def both() -> None:
        await together(waits(), together(fails()))

    with pytest.raises(BrokenPipeError):
        run(both())
    assert ended == ["waits"]
