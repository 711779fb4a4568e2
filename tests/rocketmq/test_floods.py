"""Floods of HTTP/2's frames: the connection that sends them ends, memory stays, others are served."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from compat.administer import until
from compat.broker_process import BrokerProcess
from compat.hostile import peak_size

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.grpc import frames
from milepost.rocketmq.grpc.frames import END_HEADERS, END_STREAM, PREFACE, ErrorCode, frame
from milepost.rocketmq.grpc.headers import written
from milepost.rocketmq.server import SERVICE
from milepost.wire.scanners.varint import encode_varint

HELLO = PREFACE + frames.settings_frame({})
GROWTH_MAX = 32 * 2**20


def block(name: str, **more: str) -> bytes:
    return written(
        (":method", "POST"),
        (":scheme", "http"),
        (":path", f"/{SERVICE}/{name}"),
        ("content-type", "application/grpc"),
        ("x-mq-client-id", "flood"),
        *more.items(),
    )


def cut_off() -> Iterator[bytes]:
    """Calls that are begun and cut off, as fast as they can be said."""
    asked, cancel = block("Heartbeat"), struct.pack(">I", ErrorCode.CANCEL)
    for stream in range(1, 400_000, 2):
        yield frame(frames.HEADERS, END_HEADERS, stream, asked)
        yield frame(frames.RST_STREAM, 0, stream, cancel)


def pings() -> Iterator[bytes]:
    for _ in range(2_000_000):
        yield frame(frames.PING, 0, 0, bytes(8))


def settings() -> Iterator[bytes]:
    for _ in range(2_000_000):
        yield frames.settings_frame({})


def continuations() -> Iterator[bytes]:
    yield frame(frames.HEADERS, 0, 1, block("Heartbeat"))
    for _ in range(2_000_000):
        yield frame(frames.CONTINUATION, 0, 1)


def long_headers() -> Iterator[bytes]:
    for stream in range(1, 20_001, 2):
        yield frame(frames.HEADERS, 0, stream, block("Heartbeat", long="x" * 12_000))
        yield frame(frames.CONTINUATION, END_HEADERS, stream, written(("more", "x" * 12_000)))


def empty_data() -> Iterator[bytes]:
    yield frame(frames.HEADERS, END_HEADERS, 1, block("SendMessage"))
    for _ in range(2_000_000):
        yield frame(frames.DATA, 0, 1)


def small_windows() -> Iterator[bytes]:
    for _ in range(2_000_000):
        yield frames.window_frame(0, 1)


def told_too_much(link: socket.socket, said: Iterator[bytes]) -> int:
    """Say it until the other side hangs up; the code that it gives, -1 if that was lost with the rest."""
    part, is_over = b"", False
    while not is_over:
        part = b"".join(one for _, one in zip(range(2000), said, strict=False))
        assert part, "all of it was taken"
        try:
            link.sendall(part)
        except OSError:
            is_over = True
        with suppress(BlockingIOError):
            is_over = is_over or link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    heard = b""
    with suppress(OSError):
        while more := link.recv(65536):
            heard += more
    while heard:
        size = int.from_bytes(heard[:3], "big")
        if heard[3] == frames.GOAWAY:
            return int.from_bytes(heard[13:17], "big")
        heard = heard[9 + size :]
    return -1


@pytest.mark.parametrize(
    "flood",
    [cut_off, pings, settings, continuations, long_headers, empty_data, small_windows],
)
def test_a_flood_ends_its_connection_alone(
    broker: BrokerProcess, raw: Any, flood: Callable[[], Iterator[bytes]]
) -> None:
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
    before = peak_size(broker)
    with socket.create_connection(("127.0.0.1", broker.rocketmq_port), timeout=30) as link:
        link.sendall(HELLO)
        assert told_too_much(link, flood()) in (ErrorCode.ENHANCE_YOUR_CALM, -1)
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
    assert peak_size(broker) - before < GROWTH_MAX


def test_a_client_that_takes_nothing_makes_the_broker_read_nothing(
    broker: BrokerProcess, raw: Any
) -> None:
    """It asks and asks, with all the room in the world, and never reads: what is on its way stays small."""
    asked = block("QueryRoute")
    body = pb.QueryRouteRequest(topic=pb.Resource(name="x" * 100)).SerializeToString()
    message = b"\x00" + len(body).to_bytes(4, "big") + body
    before, stream = peak_size(broker), 1
    with socket.create_connection(("127.0.0.1", broker.rocketmq_port)) as link:
        link.sendall(HELLO + frames.window_frame(0, 2**31 - 1 - 65535))
        link.settimeout(2)
        with suppress(TimeoutError):
            while stream < 2_000_000:
                calls = b"".join(
                    frame(frames.HEADERS, END_HEADERS, one, asked)
                    + frame(frames.DATA, END_STREAM, one, message)
                    for one in range(stream, stream + 400, 2)
                )
                link.sendall(calls)
                stream += 400
        assert stream < 2_000_000, "all of it was taken"
        assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
        assert peak_size(broker) - before < GROWTH_MAX


def message(request: Any, size: int = 0) -> bytes:
    """A request, made larger by a field that no one knows."""
    said = request.SerializeToString()
    if size:  # field 1000, of bytes
        said += b"\xc2\x3e" + encode_varint(size) + bytes(size)
    return b"\x00" + len(said).to_bytes(4, "big") + said


def ask(link: socket.socket, name: str, stream: int, said: bytes, *, is_last: bool) -> None:
    """A call of any size, in as much room as the other side gives."""
    link.sendall(frame(frames.HEADERS, END_HEADERS, stream, block(name)))
    parts = [said[at : at + 16384] for at in range(0, len(said), 16384)]
    room = 256 * 1024
    for number, part in enumerate(parts):
        while room < len(part):
            head = link.recv(9, socket.MSG_WAITALL)
            payload = link.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
            if head[3] == frames.WINDOW_UPDATE and int.from_bytes(head[5:9], "big") == stream:
                room += int.from_bytes(payload, "big")
        room -= len(part)
        flags = END_STREAM if is_last and number == len(parts) - 1 else 0
        link.sendall(frame(frames.DATA, flags, stream, part))


NO_ROOM = PREFACE + frames.settings_frame({frames.Setting.INITIAL_WINDOW_SIZE: 0})


@pytest.mark.parametrize("name", ["SendMessage", "ReceiveMessage", "Telemetry"])
def test_large_requests_are_not_kept_while_their_answers_are_not_read(
    broker: BrokerProcess, raw: Any, name: str
) -> None:
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
    said = message(pb.HeartbeatRequest(), 4 * 2**20)
    before = peak_size(broker)
    with socket.create_connection(("127.0.0.1", broker.rocketmq_port), timeout=30) as link:
        link.sendall(NO_ROOM)
        for stream in range(1, 65, 2):
            ask(link, name, stream, said, is_last=name != "Telemetry")
        assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
        assert peak_size(broker) - before < 2 * GROWTH_MAX


@pytest.mark.parametrize("is_whole", [True, False], ids=["not read", "not sent"])
def test_calls_that_do_nothing_leave_room_for_others(
    broker: BrokerProcess, raw: Any, is_whole: bool
) -> None:
    """They are as many as all clients together may have."""
    asked, said = block("Heartbeat"), message(pb.HeartbeatRequest())
    calls = [
        frame(frames.HEADERS, END_HEADERS, stream, asked)
        + (frame(frames.DATA, END_STREAM, stream, said) if is_whole else b"")
        for stream in range(1, 2 * 8192, 2)
    ]
    with socket.create_connection(("127.0.0.1", broker.rocketmq_port), timeout=30) as link:
        link.sendall(NO_ROOM + b"".join(calls) + frame(frames.PING, 0, 0, b"all read"))
        heard = b""
        while b"all read" not in heard:
            heard = heard[-100:] + link.recv(65536)
        assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000


def test_thousands_of_small_messages_on_a_stream_do_not_keep_others_waiting(
    broker: BrokerProcess, raw: Any
) -> None:
    with socket.create_connection(("127.0.0.1", broker.rocketmq_port), timeout=30) as link:
        link.sendall(HELLO + frame(frames.HEADERS, END_HEADERS, 1, block("Telemetry")))
        link.sendall(frame(frames.DATA, 0, 1, bytes(5) * 3276) * 15)
        for _ in range(10):
            raw.call("Heartbeat", pb.HeartbeatRequest(), timeout=10)


def test_what_speaks_something_else_is_hung_up_on_and_counted(broker: BrokerProcess) -> None:
    for said in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", bytes(24)):
        with socket.create_connection(("127.0.0.1", broker.rocketmq_port), timeout=30) as link:
            link.sendall(said)
            with suppress(ConnectionResetError):
                while link.recv(65536):
                    pass

    def is_counted() -> bool:
        text = broker.rest("GET", "/metrics")[1].decode()
        return 'milepost_frames_refused_total{reason="http2_protocol_error"}' in text

    until(is_counted, "the metrics count it")
