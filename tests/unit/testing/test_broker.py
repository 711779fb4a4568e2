"""A broker for a test: the real one, by a socket, on a loop or on a thread."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

import milepost.testing
from milepost.admin import Admin
from milepost.errors import InvalidSetting
from milepost.positions.names import TopicName
from milepost.testing import ManualClock
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import Command
from milepost.wire.protocol import ClientProtocol


def hello() -> tuple[ClientProtocol, bytes]:
    protocol = ClientProtocol()
    protocol.connect(pb.CommandConnect(client_version="test", protocol_version=21))
    return protocol, b"".join(protocol.data_to_send())


def test_with_a_loop_it_runs_on_that() -> None:
    async def test() -> Path:
        async with milepost.testing.broker(max_message_size=1 << 20) as running:
            data = running.running.broker.settings.data
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            protocol, connect = hello()
            writer.write(connect)
            (event,) = protocol.receive(await reader.read(1 << 16))
            assert isinstance(event, Command)
            assert event.kind == Kind.CONNECTED
            assert protocol.max_message_size == 1 << 20
            writer.close()
            work = asyncio.sleep(0)
            with pytest.raises(AssertionError, match="await it"):
                running.run(work)
            work.close()
            assert data.exists()
        return data

    data = asyncio.run(test())
    assert not data.exists()


def test_without_a_loop_it_has_a_thread() -> None:
    with milepost.testing.broker() as running:
        assert running.url == f"pulsar://127.0.0.1:{running.port}"
        with socket.create_connection(("127.0.0.1", running.port), 5) as connection:
            protocol, connect = hello()
            connection.sendall(connect)
            assert protocol.receive(connection.recv(1 << 16))

        async def topics() -> list[str]:
            return running.running.broker.topics_of_namespace("public/default")

        assert running.run(topics()) == []
    with pytest.raises(AssertionError, match="does not run"):
        _ = running.port


def test_a_directory_that_is_given_is_kept(tmp_path: Path) -> None:
    name = TopicName.parse("persistent://public/default/a")
    clock = ManualClock()

    async def test() -> list[str]:
        async with milepost.testing.broker(tmp_path, clock=clock) as running:
            assert running.running.broker.clock is clock
            await running.running.broker.topic(name)
        async with milepost.testing.broker(tmp_path) as running:
            return running.running.broker.topics_of_namespace("public/default")

    assert asyncio.run(test()) == [str(name)]


def test_a_broker_that_cannot_begin_says_why() -> None:
    with pytest.raises(InvalidSetting, match="port"), milepost.testing.broker(port=-1):
        pass

    async def test() -> None:
        async with milepost.testing.broker(port=-1):
            pass

    with pytest.raises(InvalidSetting, match="port"):
        asyncio.run(test())


def test_with_http_it_has_rest_and_metrics() -> None:
    with milepost.testing.broker(http=True) as running, Admin(running.http_url) as admin:
        admin.create_topic("persistent://public/default/orders")
        assert admin.list_topics("public/default") == ["persistent://public/default/orders"]
    with (
        milepost.testing.broker() as running,
        pytest.raises(AssertionError, match="say broker\\(http=True\\)"),
    ):
        _ = running.http_url


def test_a_directory_may_be_text(tmp_path: Path) -> None:
    with milepost.testing.broker(str(tmp_path / "data")):
        assert (tmp_path / "data").is_dir()


def test_a_setting_that_is_not_one_is_named() -> None:
    with pytest.raises(InvalidSetting, match=r"^dedup: there is no such setting"):
        milepost.testing.broker(dedup=True)
    with pytest.raises(InvalidSetting, match=r"did you mean max_message_size\?"):
        milepost.testing.broker(max_mesage_size=1)
