"""Strangers on the binary port: whatever they send, a clear no or the end of their connection, within a
second and counted; and everyone else is served as before.

Each row is what is sent and what must come of it. After each, a well-behaved official client on another
connection publishes, receives and acks within a second, and the broker has at no moment needed more than
half a gigabyte. Where a row says *decided*, the behaviour was a choice.

Here: frames, commands and handshakes that are none.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from compat.hostile import (
    HANDSHAKE_TIMEOUT_S,
    MESSAGE_SIZE_MAX,
    MIB,
    PADDING,
    SETTINGS,
    Neighbour,
    counted,
    everyone_else_is_served,
    is_counted_and_hung_up,
    metric,
    neighbour,
    peak_size,
    u32,
)
from compat.line import ANSWER_S, CONNECT, Line, framed

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import command_frame
from milepost.wire.scanners.varint import encode_varint

__all__ = ["SETTINGS", "everyone_else_is_served", "neighbour"]

# -- frames and commands that are none ---------------------------------------------------------------


def with_sizes(total: int, size: int, data: bytes = b"\x08\x12") -> bytes:
    return u32(total, size) + data


PING = bytes.fromhex("0812 9201 00".replace(" ", ""))

FRAMES: dict[str, tuple[bytes, str]] = {
    "a frame of 0 bytes": (u32(0), "frame_short"),
    "a frame of 1 byte": (u32(1), "frame_short"),
    "a frame of 3 bytes": (u32(3) + b"\0\0\0", "frame_short"),
    "a frame of -1 bytes": (u32(2**32 - 1), "frame_too_large"),
    "a frame of 2^31 - 1 bytes": (u32(2**31 - 1), "frame_too_large"),
    "a frame one byte too large": (u32(MESSAGE_SIZE_MAX + PADDING + 1), "frame_too_large"),
    "a frame without a command": (u32(4, 0), "bad_command_size"),
    "a command of 0 bytes": (with_sizes(6, 0), "bad_command_size"),
    "a command larger than its frame": (with_sizes(6, 3), "bad_command_size"),
    "a command of 2^32 - 1 bytes": (with_sizes(6, 2**32 - 1), "bad_command_size"),
    "bytes behind the command": (
        u32(4 + len(PING) + 3, len(PING)) + PING + b"abc",
        "bad_command_size",
    ),
    "no protobuf": (command_frame(b"\xff" * 20), "bad_command"),
    "a varint without an end": (command_frame(b"\x08" + b"\x80" * 30), "bad_command"),
    "no type": (command_frame(b"\x12\x00"), "bad_command"),
    "a type and nothing of it": (command_frame(b"\x08\x04"), "bad_command"),
    "a type with another's fields": (
        command_frame(b"\x08\x04" + encode_varint(11 << 3 | 2) + b"\x00"),
        "bad_command",
    ),
}

# A CONNECT must come first; so these can be told only behind one.
COMMANDS: dict[str, tuple[bytes, str]] = {
    "a required field missing": (
        command_frame(b"\x08\x04" + b"\x22\x03\x0a\x01t"),
        "bad_command",
    ),
    "a text that is not UTF-8": (
        command_frame(
            b"\x08\x17" + encode_varint(23 << 3 | 2) + b"\x06\x0a\x02\xff\xfe\x10\x01",
        ),
        "bad_command",
    ),
    "half of a surrogate pair": (
        command_frame(
            b"\x08\x17" + encode_varint(23 << 3 | 2) + b"\x07\x0a\x03\xed\xa0\x80\x10\x01"
        ),
        "bad_command",
    ),
    "a command of more than a megabyte": (
        framed(pb.CommandProducer(topic="t" * MIB, producer_id=1, request_id=1)),
        "bad_command_size",
    ),
    "a command of the broker": (framed(pb.CommandSuccess(request_id=1)), "unexpected_command"),
    "a command of type 0": (command_frame(b"\x08\x00"), "unknown_command"),
    "a command of type 99": (command_frame(b"\x08\x63"), "unknown_command"),
    "an answer to a transaction": (
        command_frame(b"\x08\x33\x9a\x03\x02\x08\x01"),
        "unexpected_command",
    ),
    "a second CONNECT": (framed(CONNECT), "second_connect"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_is_none(broker: BrokerProcess, name: str) -> None:
    with Line(broker.port) as line:
        is_counted_and_hung_up(broker, line, *FRAMES[name])
        assert not line.heard


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_that_is_none_instead_of_a_handshake(broker: BrokerProcess, name: str) -> None:
    with Line(broker.port, handshake=False) as line:
        is_counted_and_hung_up(broker, line, *FRAMES[name])
        assert not line.heard


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_none(broker: BrokerProcess, name: str) -> None:
    data, reason = COMMANDS[name]
    with Line(broker.port) as line:
        is_counted_and_hung_up(broker, line, data, reason)
        # The one case where the stranger may be right and the broker too old: it is told so.
        told = [event.error for event in line.heard if isinstance(event, pb.CommandError)]
        assert told == ([pb.UnsupportedVersionError] if reason == "unknown_command" else [])


def test_a_large_frame_is_refused_by_its_first_bytes(broker: BrokerProcess) -> None:
    """Nothing is gathered for it: it is refused when its size is known, not when it is there."""
    with Line(broker.port, handshake=False) as line:
        is_counted_and_hung_up(broker, line, u32(64 * 1024 + 1), "frame_too_large")


def test_an_unknown_enum_value_is_refused_and_the_connection_lives(
    broker: BrokerProcess, topic: str
) -> None:
    """A subscription type of the future: taken for the default it would be an Exclusive one."""
    body = pb.CommandSubscribe(
        topic=topic,
        subscription="s",
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=7,
    ).SerializeToString()
    assert body.count(b"\x18\x01") == 1
    body = body.replace(b"\x18\x01", b"\x18\x09")
    with Line(broker.port_of(topic)) as line:
        line.say(command_frame(b"\x08\x04\x22" + encode_varint(len(body)) + body))
        answer = line.hear(pb.CommandError)
        assert (answer.request_id, answer.error) == (7, pb.UnsupportedVersionError)
        assert line.is_alive()


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        pytest.param(
            pb.CommandProducer(
                topic="t",
                producer_id=1,
                request_id=7,
                metadata=[pb.KeyValue(key="k", value="v")] * 10_001,
            ),
            pb.CommandError,
            id="properties",
        ),
        pytest.param(
            pb.CommandAddPartitionToTxn(request_id=7, partitions=["t"] * 20_000),
            pb.CommandAddPartitionToTxnResponse,
            id="topics of a transaction",
        ),
        pytest.param(
            pb.CommandAddPartitionToTxn(
                request_id=7, txnid_least_bits=0, txnid_most_bits=0, partitions=["t" * 100] * 20_000
            ),
            pb.CommandAddPartitionToTxnResponse,
            id="megabytes of topics of a transaction",
        ),
    ],
)
def test_a_request_that_names_too_much_is_refused_and_the_connection_lives(
    broker: BrokerProcess, request_: Any, answer: Any
) -> None:
    with Line(broker.port) as line:
        line.say(framed(request_))
        heard = line.hear(answer)
        assert (heard.request_id, heard.error) == (7, pb.TooManyRequests)
        assert line.is_alive()


def test_unknown_fields_are_skipped(broker: BrokerProcess) -> None:
    """Forward compatible: a newer client's additions do no harm."""
    body = pb.CommandLookupTopic(topic="t", request_id=5).SerializeToString()
    body += b"\xf8\x06\x01" + b"\xfa\x06\x03abc"
    with Line(broker.port) as line:
        line.say(
            command_frame(b"\x08\x17\xba\x01" + encode_varint(len(body)) + body + b"\xf8\x06\x01")
        )
        assert line.hear(pb.CommandLookupTopicResponse).request_id == 5


# -- handshakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandLookupTopic(topic="t", request_id=1),
        pb.CommandPing(),
        pb.CommandFlow(consumer_id=1, messagePermits=1),
        pb.CommandAuthResponse(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_before_connect(broker: BrokerProcess, command: Any) -> None:
    with Line(broker.port, handshake=False) as line:
        is_counted_and_hung_up(broker, line, framed(command), "before_connect")


@pytest.mark.parametrize(("theirs", "agreed"), [(0, 0), (6, 6), (21, 21), (10_000, 21)])
def test_the_lower_version_is_agreed_on(broker: BrokerProcess, theirs: int, agreed: int) -> None:
    with Line(broker.port, handshake=False) as line:
        line.say(pb.CommandConnect(client_version="Stranger-1", protocol_version=theirs))
        assert line.hear(pb.CommandConnected).protocol_version == agreed


FOREIGN = {
    "HTTP": b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "Kafka": struct.pack(">IHHI", 30, 18, 4, 1) + b"\x00\x07console" + bytes(20),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_another_protocol(broker: BrokerProcess, name: str) -> None:
    log_size = broker.log.stat().st_size
    with Line(broker.port, handshake=False) as line:
        line.say(FOREIGN[name])
        assert line.is_hung_up()
        assert not line.heard
    lines = broker.log.read_bytes()[log_size:].splitlines()
    assert len(lines) <= 1, lines


def test_a_handshake_has_its_time(broker: BrokerProcess) -> None:
    """Slowloris: a byte now and then keeps nothing open. Half-open: neither does silence."""
    data = framed(CONNECT)
    with Line(broker.port, handshake=False) as slow, Line(broker.port, handshake=False) as silent:
        before = metric(broker, "milepost_connections_closed_total", reason="handshake_timeout")
        began = time.monotonic()
        for at in range(len(data) - 1):
            slow.say(data[at : at + 1])
            if slow.is_hung_up(within_s=0.2):
                break
        assert slow.is_hung_up()
        assert silent.is_hung_up()
        # The broker looks once a second; without the setting it would give them ten.
        assert time.monotonic() - began < HANDSHAKE_TIMEOUT_S + 8
        after = metric(broker, "milepost_connections_closed_total", reason="handshake_timeout")
        assert after == before + 2


def test_who_answers_no_ping_is_gone(own_broker: Any) -> None:
    broker: BrokerProcess = own_broker(keep_alive_interval_s=0.5)
    with Line(broker.port) as line:
        line._protocol.data_to_send = list  # type: ignore[method-assign]  # it never answers
        with counted(broker, "connections_closed", "keep_alive_timeout"):
            assert line.is_hung_up()


# -- and all of it at once ---------------------------------------------------------------------------


def test_a_crowd_of_strangers(broker: BrokerProcess, neighbour: Neighbour) -> None:
    """Connections that come, say something wrong and go, while somebody works."""
    lines = []
    for number in range(300):
        rows = list((COMMANDS if number % 2 else FRAMES).values())
        line = Line(broker.port, handshake=bool(number % 2))
        line.say(rows[number // 2 % len(rows)][0])
        lines.append(line)
        if number % 50 == 0:
            neighbour.works()
    for line in lines:
        assert line.is_hung_up(ANSWER_S)
        line.hang_up()
    # The neighbour's, which has one more if the topic is at a worker's own port.
    kept = 2 if broker.worker_ports else 1
    deadline = time.monotonic() + ANSWER_S
    while metric(broker, "pulsar_active_connections") > kept:
        assert time.monotonic() < deadline, "connections of strangers are still counted"


def test_strangers_who_keep_coming_leave_nothing_behind(own_broker: Any) -> None:
    """The first ones make the broker larger, for good; those after them do not."""
    broker: BrokerProcess = own_broker(**SETTINGS)

    def crowd() -> None:
        lines = []
        for number in range(200):
            rows = list((COMMANDS if number % 2 else FRAMES).values())
            lines.append(Line(broker.port, handshake=bool(number % 2)))
            lines[-1].say(rows[number // 2 % len(rows)][0])
        for line in lines:
            assert line.is_hung_up(ANSWER_S)
            line.hang_up()

    for _ in range(10):
        crowd()
    size = peak_size(broker)
    for _ in range(20):
        crowd()
    assert peak_size(broker) - size < 32 * MIB


# -- HTTP --------------------------------------------------------------------------------------------------


def test_a_client_that_leaves_in_the_middle_of_many_requests_is_no_error(
    broker: BrokerProcess,
) -> None:
    """What was asked behind the request that was being answered wrote into a closed connection, and a
    traceback into the log."""
    path = "/admin/v2/brokers/health"  # which waits for the disk
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{broker.http_port}\r\n\r\n".encode()
    for _ in range(5):
        line = socket.create_connection(("127.0.0.1", broker.http_port), ANSWER_S)
        line.sendall(head * 300)
        assert line.recv(1)
        line.close()
    assert broker.rest("GET", path)[0] == 200
    assert broker.complaints() == ""


def test_a_client_that_closes_its_side_gets_the_answers_to_what_it_asked(
    broker: BrokerProcess,
) -> None:
    """Then the connection ends. Half a request has no answer."""
    path = "/admin/v2/brokers/health"  # which waits for the disk
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{broker.http_port}\r\n\r\n".encode()
    for asked, answers in ((head * 3, 3), (head[:-2], 0), (b"", 0)):
        with socket.create_connection(("127.0.0.1", broker.http_port), ANSWER_S) as line:
            line.sendall(asked)
            line.shutdown(socket.SHUT_WR)
            heard = b"".join(iter(lambda: line.recv(65536), b""))
        assert heard.count(b"HTTP/1.1 200 OK") == answers
    assert broker.complaints() == ""
