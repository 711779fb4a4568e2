"""The listener: moves bytes, counts connections, and gives everything back when it ends.

Connections here have a transport that is a list; two tests open a real port, as they say.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from stage.stage import Stage

from milepost.broker.connection import server
from milepost.broker.connection.server import Connection, RunningBroker
from milepost.broker.run import run_broker
from milepost.broker.settings.settings import Settings
from milepost.errors import DataDirectoryLocked
from milepost.testing.clock import ManualClock
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.protocol import State

TOPIC = "persistent://public/default/t"

MakeStage = Callable[..., Stage]


class Wire(asyncio.Transport):
    """What asyncio gives a protocol, as far as it is used."""

    def __init__(self, host: str = "10.0.0.1", port: int = 5) -> None:
        super().__init__({"peername": (host, port)})
        self.sent = b""
        self.limits: tuple[int | None, int | None] = (None, None)
        self.calls: list[str] = []

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        assert not self.is_closing(), "written to after its end"
        self.sent += b"".join(list_of_data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return 77

    def is_closing(self) -> bool:
        return "close" in self.calls or "abort" in self.calls

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")


def connect(
    stage: Stage, running: RunningBroker, wire: Wire | None = None
) -> tuple[Connection, Wire]:
    connection, wire = Connection(running), wire or Wire()
    stage.loop.do(lambda: connection.connection_made(wire))
    return connection, wire


def hello() -> bytes:
    return replies.reply(pb.CommandConnect(client_version="test", protocol_version=21))


def test_bytes_go_in_and_out(make_stage: MakeStage) -> None:
    stage = make_stage(write_buffer_size=4096)
    running = RunningBroker(stage.broker)
    connection, wire = connect(stage, running)
    (session,) = stage.broker.sessions
    assert session.address == "10.0.0.1:5"
    assert wire.limits == (4096, 2048)
    assert stage.broker.counters.connections_opened == 1
    for byte in hello():  # however they are cut
        connection.data_received(bytes([byte]))
    stage.turn()
    assert session.protocol.state is State.READY
    assert b"Milepost" in wire.sent
    assert session.unsent_size() == 77
    connection.connection_lost(None)
    assert stage.broker.sessions == set()
    assert running.broker.connections.hosts == {}
    # What comes late finds nobody, and does no harm.
    connection.data_received(hello())
    connection.pause_writing()
    connection.resume_writing()
    connection.connection_lost(None)


def test_a_slow_reader_is_known_as_one(stage: Stage) -> None:
    connection, _ = connect(stage, RunningBroker(stage.broker))
    (session,) = stage.broker.sessions
    connection.pause_writing()
    assert not session.is_writable
    connection.resume_writing()
    assert session.is_writable


def test_what_a_session_asks_of_its_connection(stage: Stage) -> None:
    connection, wire = connect(stage, RunningBroker(stage.broker))
    connection.pause_reading()
    connection.resume_reading()
    connection.close()
    assert wire.calls == ["pause_reading", "resume_reading", "close"]
    # A transport that is closing is left alone.
    connection.pause_reading()
    connection.resume_reading()
    connection.send([b"late"])
    assert wire.calls == ["pause_reading", "resume_reading", "close"]
    assert wire.sent == b""
    connection.abort()
    assert wire.calls[-1] == "abort"


def test_a_connection_that_was_never_made_can_be_asked_too(stage: Stage) -> None:
    connection = Connection(RunningBroker(stage.broker))
    connection.close()
    connection.abort()
    connection.pause_reading()
    connection.resume_reading()
    connection.send([b"x"])
    assert connection.unsent_size() == 0


@pytest.mark.parametrize(
    ("settings", "hosts", "refused", "reason"),
    [
        ({"max_connections": 2}, "aab", [False, False, True], "max_connections"),
        ({"max_connections_per_ip": 1}, "aab", [False, True, False], "max_connections_per_ip"),
    ],
)
def test_there_may_be_so_many(
    make_stage: MakeStage,
    settings: dict[str, int],
    hosts: str,
    refused: list[bool],
    reason: str,
) -> None:
    stage = make_stage(**settings)
    running = RunningBroker(stage.broker)
    made = [connect(stage, running, Wire(host)) for host in hosts]
    assert [wire.calls == ["abort"] for _, wire in made] == refused
    assert stage.broker.counters.connections_refused == {reason: 1}
    assert stage.broker.counters.connections_opened == 2
    # One that was refused is not counted as one that leaves; then there is room again.
    made[refused.index(True)][0].connection_lost(None)
    made[0][0].connection_lost(None)
    _, wire = connect(stage, running, Wire("a"))
    assert wire.calls == []


def test_hosts_that_are_gone_are_forgotten(stage: Stage) -> None:
    running = RunningBroker(stage.broker)
    made = [connect(stage, running, Wire(host))[0] for host in "aab"]
    assert running.broker.connections.hosts == {"a": 2, "b": 1}
    for connection in made:
        connection.connection_lost(None)
    assert running.broker.connections.hosts == {}


def test_it_listens_and_ends(tmp_path: Path) -> None:
    """On a real port, with a real directory: what it took it gives back, also when it cannot begin."""
    settings = Settings(data=tmp_path, port=0)

    async def test() -> None:
        running = await run_broker(settings, clock=ManualClock())
        assert running.port != 0
        assert running.broker.lookup_url().endswith(f":{running.port}")
        with pytest.raises(DataDirectoryLocked):
            await run_broker(settings)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(hello())
        assert b"Milepost" in await reader.read(1000)
        await running.close()
        assert await reader.read() == b""
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", running.port)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="address already in use"):
                await run_broker(Settings(data=tmp_path, port=port))
        # Nothing is left of the one that could not listen: neither the lock nor its ticks.
        timers = [one for one in asyncio.get_running_loop()._scheduled if not one.cancelled()]  # type: ignore[attr-defined]
        assert timers == []
        again = await run_broker(settings)
        await again.close()

    asyncio.run(test())


def test_it_leaves_no_socket_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of one who connects as it ends, nor of one who takes nothing of what was written.

    On a real port."""
    monkeypatch.setattr(server, "LINGER_MS", 10)

    async def test() -> None:
        running = await run_broker(Settings(data=tmp_path, port=0))
        address = ("127.0.0.1", running.port)
        with socket.create_connection(address) as deaf:
            deaf.sendall(hello())
            while not running.open:
                await asyncio.sleep(0)
            (connection,) = running.open
            connection.send([bytes(50_000_000)])
            with socket.create_connection(address):  # in the listener's queue
                await asyncio.sleep(0)
                await asyncio.sleep(0)  # and now accepted, on its way to its connection
                await running.close()
        left = asyncio.get_running_loop()._transports.values()  # type: ignore[attr-defined]
        assert not running.open
        assert not [one for one in left if one._sock is not None]

    asyncio.run(test())


@pytest.mark.parametrize(
    "question",
    [
        pb.CommandLookupTopic(topic=TOPIC, request_id=9),
        pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=9),
        pb.CommandGetLastMessageId(consumer_id=1, request_id=9),
        pb.CommandConsumerStats(consumer_id=1, request_id=9),
        pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=9),
    ],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("may_serve", [True, False])
def test_an_open_connection_is_told_nothing_while_another_broker_may_serve(
    stage: Stage, question: Any, may_serve: bool
) -> None:
    """A process that goes on after a pause reads what clients have sent meanwhile before its timers run."""
    connection, wire = connect(stage, RunningBroker(stage.broker))
    connection.data_received(hello())
    stage.turn()
    connection.data_received(
        replies.reply(
            pb.CommandSubscribe(
                topic=TOPIC,
                subscription="s",
                subType=pb.CommandSubscribe.SubType.Shared,
                consumer_id=1,
                request_id=1,
            )
        )
    )
    stage.turn()
    wire.sent, wire.calls = b"", []
    stage.engine.may_serve = may_serve
    connection.data_received(replies.reply(question))
    stage.turn()
    assert bool(wire.sent) == may_serve
    assert ("abort" in wire.calls) != may_serve
    connection.connection_lost(None)


def test_a_message_goes_to_no_consumer_while_another_broker_may_serve(stage: Stage) -> None:
    connection, wire = connect(stage, RunningBroker(stage.broker))
    connection.send([b"one"])
    stage.engine.may_serve = False
    connection.send([b"two"])
    connection.send([b"three"])
    assert wire.sent == b"one"
    assert wire.calls == ["abort"]
