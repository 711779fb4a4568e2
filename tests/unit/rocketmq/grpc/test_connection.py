"""A connection of gRPC's: calls become answers or a status, and what is over its time ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import hpack
import pytest
from stage.stage import Stage

from milepost.rocketmq.grpc import call as call_module
from milepost.rocketmq.grpc import connection as module
from milepost.rocketmq.grpc import frames, server
from milepost.rocketmq.grpc.call import READ_S, GrpcCall
from milepost.rocketmq.grpc.connection import (
    ANSWER_SIZE,
    GONE_S,
    IDLE_S,
    LEAVE_S,
    SILENT_S,
    STALLED_S,
    Connection,
)
from milepost.rocketmq.grpc.frames import END_HEADERS, END_STREAM, PREFACE, Setting, frame
from milepost.rocketmq.grpc.headers import written
from milepost.rocketmq.grpc.server import GrpcServer, Method
from milepost.rocketmq.grpc.statuses import Ended, Status

HELLO = PREFACE + frames.settings_frame({})
MESSAGE_MAX, CALLS_MAX = 100_000, 8
ECHO = written(
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/echo"),
    ("content-type", "application/grpc"),
)


class Wire(asyncio.Transport):
    """The transport of a connection, whose peer reads when it is told to."""

    def __init__(self, host: str = "10.0.0.7") -> None:
        super().__init__({"peername": (host, 5000)})
        self.written = b""
        self.is_paused = False
        self.ended = ""
        self.on_end: Callable[[], object] = int

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        if not self.ended:
            self.ended = "closed"
            self.on_end()

    def abort(self) -> None:
        self.ended = "aborted"


class Answer:
    """What a client has got of a call."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.data = b""
        self.is_over = False
        self.reset: int | None = None

    @property
    def status(self) -> int:
        return int(self.headers["grpc-status"])

    @property
    def messages(self) -> list[bytes]:
        found, data = [], self.data
        while data:
            size = int.from_bytes(data[1:5], "big")
            found.append(data[5 : 5 + size])
            data = data[5 + size :]
        return found


class World:
    def __init__(self, stage: Stage, calls_max: int = CALLS_MAX) -> None:
        self.stage = stage
        self.running: list[GrpcCall] = []
        self.cut_off = 0
        self.read: list[bytes] = []
        self.hold = asyncio.Event()
        methods = {
            "/echo": Method(self._echo),
            "/wait": Method(self._wait),
            "/list": Method(self._list),
            "/refuse": Method(self._refuse),
            "/break": Method(self._break),
            "/talk": Method(self._talk, takes_stream=True),
            "/deaf": Method(self._wait, takes_stream=True),
        }
        self.server = stage.loop.do(
            lambda: GrpcServer(stage.broker, methods, calls_max, MESSAGE_MAX)
        )

    async def _echo(self, call: GrpcCall, request: bytes) -> None:
        call.answer(request)

    async def _wait(self, call: GrpcCall, request: bytes) -> None:
        self.running.append(call)
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cut_off += 1
            raise
        finally:
            self.running.remove(call)
        call.answer(b"waited")

    async def _list(self, call: GrpcCall, request: bytes) -> None:
        self.running.append(call)
        try:
            for _ in range(3):
                await call.write(request)
        finally:
            self.running.remove(call)
        call.finish(Status.OK)

    async def _refuse(self, call: GrpcCall, request: bytes) -> None:
        raise Ended(Status.INVALID_ARGUMENT, "100 % wrong: é")

    async def _break(self, call: GrpcCall, request: bytes) -> None:
        raise KeyError(request)

    async def _talk(self, call: GrpcCall, _: bytes) -> None:
        while (said := await call.read()) is not None:
            self.read.append(said)
            await call.write(said.upper())
        call.finish(Status.OK)

    def connect(self, host: str = "10.0.0.7") -> Client:
        return Client(self, host)

    def later(self, seconds: float, *clients: Client) -> None:
        self.stage.clock.advance(seconds)
        for one in clients:
            self.stage.loop.do(lambda one=one: one.connection.tick(self.stage.clock.monotonic()))
        self.stage.turn()

    @property
    def closed(self) -> dict[str, int]:
        return dict(self.stage.broker.counters.connections_closed)


class Client:
    def __init__(self, world: World, host: str) -> None:
        self._world = world
        self.wire = Wire(host)
        self.connection = world.stage.loop.do(lambda: Connection(world.server))
        self.connection.connection_made(self.wire)
        self._next = 1

    def say(self, *said: bytes) -> None:
        self._world.stage.loop.do(lambda: self.connection.data_received(b"".join(said)))
        self._world.stage.turn()

    def hang_up(self) -> None:
        self._world.stage.loop.do(lambda: self.connection.connection_lost(None))
        self._world.stage.turn()

    def open(self, path: str, **headers: str) -> int:
        stream, self._next = self._next, self._next + 2
        told = {":method": "POST", ":scheme": "http", ":path": path}
        told |= {"content-type": "application/grpc"}
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.say(frame(frames.HEADERS, END_HEADERS, stream, written(*told.items())))
        return stream

    def send(self, stream: int, data: bytes, *, is_last: bool = True) -> None:
        parts = [data[at : at + 16384] for at in range(0, len(data), 16384)] or [b""]
        flags = [0] * (len(parts) - 1) + [END_STREAM if is_last else 0]
        self.say(
            *(
                frame(frames.DATA, flag, stream, part)
                for flag, part in zip(flags, parts, strict=True)
            )
        )

    def call(self, path: str, message: bytes = b"hello", **headers: str) -> int:
        stream = self.open(path, **headers)
        self.send(stream, packed(message))
        return stream

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        found, written = [], self.wire.written
        while written:
            size = int.from_bytes(written[:3], "big")
            stream = int.from_bytes(written[5:9], "big")
            found.append((written[3], written[4], stream, written[9 : 9 + size]))
            written = written[9 + size :]
        return found

    def answer(self, stream: int) -> Answer:
        answer = Answer()
        for kind, flags, where, payload in self.frames():
            if where != stream:
                continue
            if kind == frames.HEADERS:
                answer.headers.update(hpack.Decoder().decode(payload))
            elif kind == frames.DATA:
                answer.data += payload
            elif kind == frames.RST_STREAM:
                answer.reset = int.from_bytes(payload, "big")
            if kind in (frames.HEADERS, frames.DATA) and flags & END_STREAM:
                answer.is_over = True
        return answer


def packed(message: bytes, is_compressed: int = 0) -> bytes:
    return bytes((is_compressed,)) + len(message).to_bytes(4, "big") + message


@pytest.fixture
def world(stage: Stage) -> World:
    return World(stage)


@pytest.fixture
def client(world: World) -> Client:
    made = world.connect()
    made.say(HELLO)
    return made


def test_a_call_is_answered(client: Client) -> None:
    answer = client.answer(client.call("/echo", b"a message"))
    assert answer.headers == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "0",
    }
    assert (answer.messages, answer.is_over, answer.reset) == ([b"a message"], True, None)


def test_a_message_in_any_pieces(client: Client) -> None:
    stream, message = client.open("/echo"), packed(b"a message")
    for at in range(len(message)):
        client.send(stream, message[at : at + 1], is_last=False)
    assert not client.answer(stream).is_over
    client.send(stream, b"")
    assert client.answer(stream).messages == [b"a message"]


def test_a_large_message_gets_room_to_come(client: Client) -> None:
    stream = client.call("/list", bytes(MESSAGE_MAX))
    client.say(frames.window_frame(0, 2**20), frames.window_frame(stream, 2**20))
    assert client.answer(stream).messages == [bytes(MESSAGE_MAX)] * 3
    stream = client.open("/echo")
    client.send(stream, packed(bytes(MESSAGE_MAX + 1)), is_last=False)
    assert client.answer(stream).status == Status.RESOURCE_EXHAUSTED


def test_answers_of_many_messages_and_talks(world: World, client: Client) -> None:
    answer = client.answer(client.call("/list", b"x"))
    assert (answer.messages, answer.status) == ([b"x"] * 3, 0)
    talk = client.open("/talk")
    client.send(talk, packed(b"one") + packed(b"two")[:3], is_last=False)
    assert client.answer(talk).messages == [b"ONE"]
    client.send(talk, packed(b"two")[3:], is_last=True)
    answer = client.answer(talk)
    assert (answer.messages, answer.status, answer.is_over) == ([b"ONE", b"TWO"], 0, True)
    assert not world.server.calls


def test_a_status_in_place_of_an_answer(world: World, client: Client) -> None:
    answer = client.answer(client.call("/refuse"))
    assert answer.status == Status.INVALID_ARGUMENT
    assert answer.headers["grpc-message"] == "100 %25 wrong: %C3%A9"
    assert answer.headers[":status"] == "200"
    assert client.answer(client.call("/unknown")).status == Status.UNIMPLEMENTED
    assert client.answer(client.call("/echo", content_type="text/html")).headers == {
        ":status": "415"
    }
    get = written((":method", "GET"), (":scheme", "http"), (":path", "/echo"))
    get += written(("content-type", "application/grpc"))
    client.say(frame(frames.HEADERS, END_HEADERS | END_STREAM, 101, get))
    assert client.answer(101).headers == {":status": "405"}
    assert not world.server.calls


def test_an_error_that_is_not_foreseen_is_told_and_logged(world: World, client: Client) -> None:
    answer = client.answer(client.call("/break"))
    assert answer.status == Status.INTERNAL
    assert world.stage.broker.counters.unexpected_errors["rocketmq"] == 1
    assert client.answer(client.call("/echo")).status == 0


@pytest.mark.parametrize(
    ("status", "data", "is_last"),
    [
        (Status.UNIMPLEMENTED, packed(b"x", 1), True),
        (Status.INTERNAL, packed(b"x")[:-1], True),
        (Status.INTERNAL, b"", True),
        (Status.INTERNAL, packed(b"x") * 2, True),
        (Status.INTERNAL, packed(b"x") * 2, False),
        (Status.RESOURCE_EXHAUSTED, b"\x00\xff\xff\xff\xff", False),
    ],
)
def test_what_is_no_message(
    world: World, client: Client, status: Status, data: bytes, is_last: bool
) -> None:
    stream = client.open("/echo")
    client.send(stream, data, is_last=is_last)
    answer = client.answer(stream)
    assert (answer.status, answer.messages, answer.is_over) == (status, [], True)
    assert client.answer(client.call("/echo")).status == 0
    assert not world.server.calls


def test_a_call_without_data(client: Client) -> None:
    client.say(frame(frames.HEADERS, END_HEADERS | END_STREAM, 1, ECHO))
    assert client.answer(1).status == Status.INTERNAL


def test_so_many_calls_at_once(world: World, client: Client) -> None:
    other = world.connect()
    other.say(HELLO)
    waiting = [client.call("/wait") for _ in range(CALLS_MAX)]
    assert other.answer(other.call("/echo")).status == Status.RESOURCE_EXHAUSTED
    client.say(frame(frames.RST_STREAM, 0, waiting[0], bytes(4)))
    assert world.cut_off == 1
    assert other.answer(other.call("/echo")).status == 0
    client.hang_up()
    assert (world.cut_off, world.server.calls, world.running) == (CALLS_MAX, 0, [])


def test_thousands_of_calls_that_come_together_are_worked_off_in_turns(
    stage: Stage,
) -> None:
    world = World(stage, calls_max=1000)
    client = world.connect()
    calls = [
        frame(frames.HEADERS, END_HEADERS, stream, ECHO)
        + frame(frames.DATA, END_STREAM, stream, packed(b"x"))
        for stream in range(1, 2001, 2)
    ]
    world.stage.loop.do(lambda: client.connection.data_received(HELLO + b"".join(calls)))
    assert client.wire.is_paused  # nothing more is read until these are
    world.stage.turn()
    assert not client.wire.is_paused
    assert [client.answer(stream).status for stream in (1, 999, 1999)] == [0, 0, 0]


# -- clients that do not read --------------------------------------------------------------------------


def test_an_answer_waits_for_the_client(world: World, client: Client) -> None:
    client.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}))
    stream = client.call("/echo", b"x" * 20)
    other = client.call("/list", b"y" * 20)
    assert not client.answer(stream).is_over
    assert world.server.calls == 1  # nothing is left to be done for the first
    client.say(frames.window_frame(stream, 1000), frames.window_frame(other, 1000))
    assert client.answer(stream).messages == [b"x" * 20]
    assert client.answer(other).messages == [b"y" * 20] * 3
    assert not world.server.calls


def test_a_client_that_does_not_read_loses_the_call(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_module, "READ_S", 0.001)
    client.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}))
    streams = client.call("/echo", b"x" * 20), client.call("/list", b"y" * 20)

    async def given_up() -> None:
        while world.server.calls:
            await asyncio.sleep(0.001)  # sleep: asyncio's own timer ends the calls

    world.stage.loop.run_until_complete(given_up())
    assert client.connection.is_busy
    world.later(READ_S - 1, client)
    assert client.answer(streams[0]).reset is None
    world.later(1, client)
    assert not client.connection.is_busy
    for stream in streams:
        assert client.answer(stream).reset == frames.ErrorCode.CANCEL
    assert world.stage.broker.counters.rocketmq_refused["unread"] == 2
    assert not world.server.calls


def test_answers_that_are_not_read_take_little_memory(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "UNREAD_SIZE_MAX", 50 + ANSWER_SIZE)
    client.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}))
    first, second = client.call("/echo", b"x" * 30), client.call("/echo", b"y" * 30)
    assert (client.answer(first).reset, client.answer(second).reset) == (None, 8)
    client.say(frames.window_frame(first, 1000))
    third = client.call("/echo", b"z" * 30)
    client.say(frames.window_frame(third, 1000))
    assert client.answer(third).messages == [b"z" * 30]


def test_answers_that_are_not_taken_are_no_calls(world: World, client: Client) -> None:
    """A client gives no room for them, and other clients are served."""
    client.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}))
    streams = [client.call("/echo", b"x") for _ in range(CALLS_MAX)]
    other = world.connect()
    other.say(HELLO)
    assert other.answer(other.call("/echo")).status == 0
    client.say(*(frames.window_frame(one, 100) for one in streams))
    assert [client.answer(one).messages for one in streams] == [[b"x"]] * CALLS_MAX
    assert not client.connection.is_busy


def test_requests_that_do_not_come_are_no_calls(world: World, client: Client) -> None:
    """Clients begin calls and say no more: others are served, and those that wait the longest end."""
    world.server.coming_max = CALLS_MAX
    streams = [client.open("/echo") for _ in range(CALLS_MAX)]
    other = world.connect()
    other.say(HELLO)
    assert other.answer(other.call("/echo")).status == 0
    assert client.answer(streams[0]).status == Status.RESOURCE_EXHAUSTED
    for stream in streams[1:]:
        client.send(stream, packed(b"late"))
        assert client.answer(stream).messages == [b"late"]
    assert (world.server.calls, world.server._coming) == (0, {})


def test_answers_behind_a_client_that_takes_nothing_take_little_memory(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for them by HTTP/2, and none in the socket."""
    monkeypatch.setattr(server, "UNREAD_SIZE_MAX", 2 * ANSWER_SIZE + 50)
    client.say(*(frame(frames.HEADERS, END_HEADERS, one, ECHO) for one in (1, 3, 5)))
    client.connection.pause_writing()
    client.say(frame(frames.DATA, END_STREAM, 1, packed(b"x")))
    world.stage.loop.do(client.connection.resume_writing)
    client.connection.pause_writing()
    client.say(frame(frames.DATA, END_STREAM, 3, packed(b"x")))
    assert not client.wire.ended
    client.say(frame(frames.DATA, END_STREAM, 5, packed(b"x" * 50)))
    assert (world.closed, client.wire.ended) == ({"unread_answer": 1}, "aborted")
    client.hang_up()
    assert world.server.count_unread(2 * ANSWER_SIZE + 50)  # all of it is given back


def test_small_messages_are_read_in_turns(world: World, client: Client) -> None:
    """Thousands that come at once do not keep others waiting while a method reads them."""
    stream, seen = client.open("/talk"), []

    def look() -> None:
        seen.append(len(world.read))
        if len(world.read) < 3000:
            world.stage.loop.call_soon(look)

    world.stage.loop.call_soon(look)
    client.send(stream, packed(b"") * 3000, is_last=False)
    assert len(world.read) == 3000
    assert max(after - before for before, after in pairwise(seen)) <= call_module.MESSAGES_A_TURN


def test_what_small_messages_take_is_counted(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEPT_SIZE_MAX", 10_000)
    stream = client.open("/deaf")
    client.send(stream, packed(b"") * 1000, is_last=False)
    assert client.answer(stream).status == Status.RESOURCE_EXHAUSTED


def test_nothing_is_read_from_a_client_that_takes_nothing(world: World, client: Client) -> None:
    client.connection.pause_writing()
    assert client.wire.is_paused
    stream = client.call("/list", b"x")  # what was read before
    assert client.answer(stream).messages == [b"x"]  # the next waits
    world.stage.loop.do(client.connection.resume_writing)
    world.stage.turn()
    assert client.answer(stream).messages == [b"x"] * 3
    assert not client.wire.is_paused
    client.connection.pause_writing()
    world.later(READ_S, client)
    assert (world.closed, client.wire.ended) == ({"unread_answer": 1}, "aborted")


def test_what_is_not_read_of_requests_takes_little_memory(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "KEPT_SIZE_MAX", 1000)
    partial = client.open("/echo")
    client.send(partial, packed(b"x" * 900)[:800], is_last=False)
    unread = client.open("/deaf")
    client.send(unread, packed(b"y" * 300), is_last=False)
    assert client.answer(unread).status == Status.RESOURCE_EXHAUSTED
    assert world.cut_off == 1
    client.send(partial, packed(b"x" * 900)[800:])
    assert client.answer(partial).messages == [b"x" * 900]
    assert client.answer(client.call("/echo", b"z" * 999)).status == 0  # it is all given back


def test_a_stream_that_is_not_read_gets_no_more_room(world: World, client: Client) -> None:
    deaf, talk = client.open("/deaf"), client.open("/talk")
    for stream in (deaf, talk):
        client.send(stream, packed(bytes(90_000)), is_last=False)
        client.send(stream, packed(bytes(90_000)), is_last=False)
    grown = {one[2] for one in client.frames() if one[0] == frames.WINDOW_UPDATE and one[2]}
    assert grown == {talk}


# -- times ---------------------------------------------------------------------------------------------


def test_a_call_knows_its_time_and_ends_with_it(world: World, client: Client) -> None:
    stream = client.call("/wait", grpc_timeout="5S")
    forever = client.call("/wait", grpc_timeout="525600H")
    assert [one.remaining_s for one in world.running] == [5.0, None]
    world.later(4, client)
    assert world.running[0].remaining_s == 1.0
    world.later(1, client)
    assert client.answer(stream).status == Status.DEADLINE_EXCEEDED
    assert (world.cut_off, client.answer(forever).is_over) == (1, False)


def test_what_is_not_taken_when_the_time_is_over_is_dropped(world: World, client: Client) -> None:
    client.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}))
    streams = client.call("/list", b"x" * 20, grpc_timeout="1S"), client.call("/wait")
    world.later(1, client)
    answers = [client.answer(one) for one in streams]
    assert [one.reset for one in answers] == [frames.ErrorCode.CANCEL, None]
    assert (world.server.calls, len(world.running)) == (1, 1)


def test_a_request_that_does_not_come_to_its_end(world: World, client: Client) -> None:
    stream, talk = client.open("/echo"), client.open("/talk")
    client.send(stream, b"\x00", is_last=False)
    world.later(STALLED_S, client)
    assert client.answer(stream).status == Status.DEADLINE_EXCEEDED
    assert not client.answer(talk).is_over


def test_a_connection_that_says_nothing_at_first(world: World) -> None:
    client = world.connect()
    client.say(PREFACE[:10])
    world.later(world.stage.broker.settings.handshake_timeout_s, client)
    assert (world.closed, client.wire.ended) == ({"handshake_timeout": 1}, "aborted")


def test_a_connection_without_calls(world: World, client: Client) -> None:
    client.call("/echo")
    for _ in range(int(IDLE_S) // 10 - 1):
        world.later(10, client)
        client.say(frame(frames.PING, frames.ACK, 0, bytes(8)))
    assert not client.wire.ended
    world.later(10, client)
    assert client.frames()[-1][0] == frames.GOAWAY
    assert not client.wire.ended  # a call that is on its way is passed over, and not torn
    late = client.call("/echo")
    assert not client.answer(late).is_over
    world.later(LEAVE_S, client)
    assert (world.closed, client.wire.ended) == ({"idle": 1}, "closed")
    world.later(READ_S, client)
    assert client.wire.ended == "aborted"  # it does not take even that


def test_a_client_that_is_silent_is_asked_whether_it_is_there(world: World, client: Client) -> None:
    client.call("/wait")
    world.later(SILENT_S, client)
    assert [one[0] for one in client.frames()][-1] == frames.PING
    client.say(frame(frames.PING, frames.ACK, 0, bytes(8)))
    world.later(SILENT_S, client)
    assert not client.wire.ended
    world.later(GONE_S - SILENT_S, client)
    assert (world.closed, client.wire.ended) == ({"silent": 1}, "aborted")


def test_the_end_of_a_server(world: World, client: Client) -> None:
    stream = client.call("/wait")
    client.wire.on_end = lambda: client.connection.connection_lost(
        None
    )  # it takes what was written

    async def close() -> None:
        closing = asyncio.ensure_future(world.server.close(1))
        await asyncio.sleep(0.05)  # sleep: the server waits for the call, which ends only then
        world.hold.set()
        await closing

    world.stage.loop.run_until_complete(close())
    assert client.answer(stream).messages == [b"waited"]
    assert (client.wire.ended, world.closed) == ("closed", {"closing": 1})
    assert not world.server.open
    assert frames.GOAWAY in [one[0] for one in client.frames()]


def test_the_end_of_a_server_does_not_wait_for_ever(world: World, client: Client) -> None:
    client.call("/wait")
    world.stage.loop.run_until_complete(world.server.close(0.05))
    assert (client.wire.ended, world.closed) == ("aborted", {"closing": 1})


def test_the_end_of_a_server_does_not_wait_for_streams(world: World, client: Client) -> None:
    """Every client keeps one open."""
    client.open("/talk")
    closing = asyncio.wait_for(world.server.close(60), 5)
    world.stage.loop.run_until_complete(closing)
    assert world.closed == {"closing": 1}


# -- connections ---------------------------------------------------------------------------------------


def test_an_address_has_so_many_connections(make_stage: Callable[..., Stage]) -> None:
    with make_stage(max_connections_per_ip=1) as stage:
        world = World(stage)
        first, second = world.connect("10.0.0.1"), world.connect("10.0.0.1")
        assert (first.wire.ended, second.wire.ended) == ("", "aborted")
        second.hang_up()
        first.hang_up()
        assert not world.connect("10.0.0.1").wire.ended
        refused = stage.broker.counters.connections_refused
        assert refused == {"max_connections_per_ip": 1}


def test_what_is_not_the_protocol_is_counted(world: World) -> None:
    client = world.connect()
    client.say(b"GET / HTTP/1.1\r\n\r\n")
    assert client.wire.ended == "closed"
    assert world.stage.broker.counters.frames_refused == {"http2_protocol_error": 1}
    client.say(b"more")  # nothing of it is read


def test_an_error_while_reading_ends_the_connection(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise KeyError("x")

    monkeypatch.setattr(module.Connection, "_asked", broken)
    client.open("/echo")
    assert (client.wire.ended, world.closed) == ("aborted", {"error": 1})
