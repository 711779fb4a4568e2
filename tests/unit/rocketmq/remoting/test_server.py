"""A connection of mqadmin's: what it keeps is bounded, and what is over its time is closed."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from stage.stage import Stage

from milepost.rocketmq.remoting.frames import Command, Decoder, encode
from milepost.rocketmq.remoting.server import (
    IDLE_S,
    KEPT_SIZE_MAX,
    STALLED_S,
    UNREAD_SIZE_MAX,
    Connection,
    RemotingServer,
)

CLUSTER = 106
# That come together.
REQUESTS = 500


class Wire(asyncio.Transport):
    """The transport of a connection, whose peer reads when it is told to."""

    def __init__(self, host: str = "10.0.0.7") -> None:
        super().__init__({"peername": (host, 5000), "sockname": ("10.0.0.1", 9876)})
        self.written = b""
        self.is_paused = False
        self.ended = False
        self.unread = 0

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.ended

    def close(self) -> None:
        self.ended = True

    abort = close

    def answers(self) -> list[Command]:
        decoder, found = Decoder(), []
        decoder.feed(self.written)
        while (answer := decoder.next()) is not None:
            found.append(answer)
        return found


class World:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.server = stage.loop.do(lambda: RemotingServer(stage.broker, None))

    def connect(self, host: str = "10.0.0.7") -> tuple[Connection, Wire]:
        connection, wire = self.stage.loop.do(lambda: Connection(self.server)), Wire(host)
        connection.connection_made(wire)
        return connection, wire

    def say(self, connection: Connection, data: bytes) -> None:
        self.stage.loop.do(lambda: connection.data_received(data))
        self.stage.turn()

    def later(self, seconds: float, *connections: Connection) -> None:
        self.stage.clock.advance(seconds)
        for connection in connections:
            connection.tick(self.stage.clock.monotonic())

    @property
    def closed(self) -> dict[str, int]:
        return dict(self.stage.broker.counters.connections_closed)


@pytest.fixture
def world(stage: Stage) -> World:
    return World(stage)


def ask(opaque: int = 1, flag: int = 0) -> bytes:
    return encode(Command(CLUSTER, opaque, flag))


def test_a_connection_that_says_nothing_at_first_is_closed(world: World) -> None:
    connection, wire = world.connect()
    world.later(world.stage.broker.settings.handshake_timeout_s - 0.1, connection)
    assert not wire.ended
    world.say(connection, ask()[:10])  # a part of a frame is nothing said
    world.later(0.2 + world.stage.broker.settings.handshake_timeout_s, connection)
    assert wire.ended
    assert world.closed == {"handshake_timeout": 1}


def test_a_frame_that_does_not_end_and_silence_end_a_connection(world: World) -> None:
    (slow, slow_wire), (silent, silent_wire) = world.connect(), world.connect()
    for connection in (slow, silent):
        world.say(connection, ask())
    frame = encode(Command(CLUSTER, fields={"topic": "t" * 100}))
    for at in range(int(STALLED_S)):  # a byte a second
        assert not slow_wire.ended
        world.say(slow, frame[at : at + 1])
        world.later(1, slow, silent)
    assert (slow_wire.ended, silent_wire.ended) == (True, False)
    world.later(IDLE_S, silent)
    assert silent_wire.ended
    assert world.closed == {"frame_timeout": 1, "idle": 1}


def test_a_client_that_does_not_read_is_asked_nothing_more_of_and_closed(world: World) -> None:
    connection, wire = world.connect()
    connection.pause_writing()
    world.say(connection, ask(1) + ask(2))
    assert [one.opaque for one in wire.answers()] == [1]
    assert wire.is_paused
    world.later(STALLED_S - 1, connection)
    assert not wire.ended
    connection.resume_writing()
    world.stage.turn()
    assert [one.opaque for one in wire.answers()] == [1, 2]
    assert not wire.is_paused
    connection.pause_writing()
    world.later(STALLED_S, connection)
    assert world.closed == {"unread_answer": 1}
    connection.connection_lost(None)
    world.stage.turn()


def test_too_many_unread_answers_refuse_the_next_request(world: World) -> None:
    (_, stuck), (connection, wire) = world.connect(), world.connect()
    stuck.unread = UNREAD_SIZE_MAX + 1
    world.say(connection, ask())
    (answer,) = wire.answers()
    assert (answer.code, answer.remark) == (
        2,
        "too many answers wait for clients that do not read them",
    )


def test_requests_in_part_take_so_much_memory_and_no_more(world: World) -> None:
    part = struct.pack(">iI", 120_000, 60_000) + bytes(60_000)
    opened = [world.connect() for _ in range(KEPT_SIZE_MAX // len(part) + 10)]
    for connection, _ in opened:
        connection.data_received(part)
    assert world.server.kept_size <= KEPT_SIZE_MAX + len(part) * 10
    ended = [connection for connection, wire in opened if wire.ended]
    assert 9 <= len(ended) <= 11
    assert world.closed == {"memory": len(ended)}
    for connection, _ in opened:
        connection.connection_lost(None)
    assert world.server.kept_size == 0
    assert world.stage.broker.connections.count == 0


def test_connections_count_for_the_limits_of_all(make_stage: Callable[..., Stage]) -> None:
    world = World(make_stage(max_connections=3, max_connections_per_ip=2))
    wires = [world.connect(host) for host in ("10.0.0.7", "10.0.0.7", "10.0.0.7", "10.0.0.8")]
    assert [wire.ended for _, wire in wires] == [False, False, True, False]
    assert world.connect("10.0.0.9")[1].ended
    refused = world.stage.broker.counters.connections_refused
    assert refused == {"max_connections_per_ip": 1, "max_connections": 1}
    wires[0][0].connection_lost(None)
    assert not world.connect("10.0.0.9")[1].ended


def test_what_was_asked_before_the_client_closed_its_side_is_answered(world: World) -> None:
    connection, wire = world.connect()

    def hear() -> bool:
        connection.data_received(ask(1) + ask(2))
        return connection.eof_received()

    assert world.stage.loop.do(hear)
    world.stage.turn()
    assert [one.opaque for one in wire.answers()] == [1, 2]
    assert wire.ended


def test_a_fault_behind_a_request_ends_the_connection_when_that_is_answered(world: World) -> None:
    connection, wire = world.connect()
    world.say(connection, ask(1) + struct.pack(">iI", -1, 0))
    assert [one.opaque for one in wire.answers()] == [1]
    assert wire.ended
    assert world.stage.broker.counters.frames_refused == {"remoting_length": 1}


class TickingClock:
    """Each look at it takes a tenth of a millisecond."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 0.0001
        return self._now


def test_requests_that_come_together_let_others_have_their_turns() -> None:
    answered: list[int] = []

    async def answer(peer: object, command: Command) -> bytes | None:
        answered.append(command.opaque)
        return None  # at once: it waits for nothing

    async def turns_of_others() -> int:
        broker = SimpleNamespace(
            clock=TickingClock(),
            counters=SimpleNamespace(
                connections_opened=0, connections_closed=Counter(), connections_refused=Counter()
            ),
            spawn=lambda work: tasks.append(asyncio.ensure_future(work)),
        )
        tasks: list[asyncio.Task[None]] = []
        server: Any = SimpleNamespace(
            broker=broker, answer=answer, open=set(), kept_size=0, refusal=lambda host: None
        )
        transport: Any = SimpleNamespace(
            get_extra_info=lambda name: None,
            pause_reading=lambda: None,
            resume_reading=lambda: None,
            is_closing=lambda: False,
        )
        connection = Connection(server)
        connection.connection_made(transport)
        connection.data_received(b"".join(encode(Command(106, n)) for n in range(REQUESTS)))
        turns = 0
        while not all(task.done() for task in tasks):
            turns += 1
            await asyncio.sleep(0)
        return turns

    turns = asyncio.run(turns_of_others())
    assert answered == list(range(REQUESTS))
    assert turns > REQUESTS / 10
