"""What RocketMQ clients write: frames of HTTP/2, header blocks, filters, receipt handles, and messages."""

from __future__ import annotations

from collections.abc import Hashable

import hpack
from google.protobuf.message import DecodeError

from fuzz.harness import Target
from milepost.rocketmq import message_check
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Refused
from milepost.rocketmq.filters import sql
from milepost.rocketmq.filters.expressions import TagFilter
from milepost.rocketmq.grpc import frames
from milepost.rocketmq.grpc.frames import ConnectionFault, ErrorCode, Setting, frame
from milepost.rocketmq.grpc.headers import HeaderReader, Malformed, written
from milepost.rocketmq.grpc.http2 import Asked, Came, Http2
from milepost.rocketmq.handles import Handle, Signer
from milepost.rocketmq.mapping import sends_of

SIGNER = Signer(b"k" * 32)
HANDLE = Handle(7, -1, 41, 2, b"process!", 1, 1_700_000_060_000)
PROPERTIES = {"a": "5", "b": "text", "TAGS": "paid", "flag": "true", "odd": "1e999"}


def _sql(data: bytes) -> Hashable:
    expression = sql.parse(data.decode("utf-8", "replace"))
    found = expression(PROPERTIES)
    assert expression(PROPERTIES) is found or expression(PROPERTIES) == found
    expression({})
    return type(found).__name__, sql.as_truth(found)


def _tags(data: bytes) -> Hashable:
    wanted = TagFilter.parse(data.decode("utf-8", "replace"))
    assert wanted.wants({"TAGS": next(iter(wanted.tags))} if wanted.tags else {})
    return min(len(wanted.tags), 3)


def _handle(data: bytes) -> Hashable:
    """Nothing but the handle itself is one."""
    text = data.decode("utf-8", "surrogateescape")
    found = SIGNER.read(text, "topic", "group")
    assert found is None or found == HANDLE
    return found is None, min(len(text) // 16, 8)


def _message(data: bytes) -> Hashable:
    """What passes the checks can be stored, and is about as large as it was."""
    message = pb.Message.FromString(data)
    kind, body = message_check.check(message, 1_700_000_000_000, 4096)
    (send,) = sends_of(message, body, 4096, producer="p", sequence_id=1, now_ms=1)
    assert len(send.entry) < len(body) + message_check.PROPERTIES_SIZE_MAX + 4096
    return kind


def _messages() -> list[bytes]:
    plain = pb.Message(
        system_properties=pb.SystemProperties(message_id="id", tag="t", keys=["a"]), body=b"x"
    )
    fifo = pb.Message(
        system_properties=pb.SystemProperties(message_id="id", message_group="g"),
        user_properties={"a": "b"},
        body=b"body",
    )
    half = pb.Message(
        system_properties=pb.SystemProperties(message_id="id", message_type=pb.TRANSACTION),
        body=b"x" * 100,
    )
    delayed = pb.Message(system_properties=pb.SystemProperties(message_id="id"), body=b"x")
    delayed.system_properties.delivery_timestamp.FromMilliseconds(1_700_000_001_000)
    return [one.SerializeToString() for one in (plain, fifo, half, delayed)]


def _http2(data: bytes) -> Hashable:
    """A connection: what is asked is answered, and what is cut into pieces means the same."""
    link, kinds = Http2(8), set[str]()
    link.receive(data)
    for _ in range(1000):
        for event in link.next(0.0, 50):
            kinds.add(type(event).__name__)
            if isinstance(event, Asked | Came) and event.is_last:
                link.answer(event.stream, b"head", bytes(100), b"tail")
        if not link.has_more:
            break
    link.take()
    return tuple(sorted(kinds)), link.open_streams


def _connections() -> list[bytes]:
    hello = frames.PREFACE + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 50})
    told = [(":method", "POST"), (":scheme", "http"), (":path", "/a/b"), ("x", "y")]
    encoder = hpack.Encoder()
    first, second = encoder.encode(told), encoder.encode(told)
    calls = frame(frames.HEADERS, 4, 1, first) + frame(frames.DATA, 1, 1, b"\x00" * 5)
    calls += frame(frames.HEADERS, 0, 3, second[:2]) + frame(frames.CONTINUATION, 4, 3, second[2:])
    idle = frame(frames.PING, 0, 0, bytes(8)) + frames.window_frame(1, 100)
    end = frames.reset_frame(3, ErrorCode.CANCEL) + frames.goaway_frame(3, ErrorCode.NO_ERROR)
    padded = frame(frames.DATA, 9, 3, b"\x02xy" + bytes(2))
    return [hello + calls + idle + end, hello + calls + padded, hello + idle, calls]


def _headers(data: bytes) -> Hashable:
    return len(HeaderReader().read(data))


TARGETS = (
    Target("rocketmq_http2", _http2, _connections, (ConnectionFault,)),
    Target(
        "rocketmq_headers",
        _headers,
        lambda: [
            hpack.Encoder().encode([(":method", "POST"), (":scheme", "http"), (":path", "/")]),
            written((":method", "POST"), (":scheme", "http"), (":path", "/a"), ("x", "y" * 200)),
        ],
        (ConnectionFault, Malformed),
    ),
    Target(
        "rocketmq_sql",
        _sql,
        lambda: [
            b"a = 5 AND b <> 'it''s' OR NOT flag",
            b"a BETWEEN -1 AND 1.5e3 AND (missing IS NULL OR TAGS IN ('paid', 'sent'))",
            b"b NOT CONTAINS 'x' AND b STARTSWITH 't' AND odd > .5",
            b"NOT NOT (((a >= 5)))",
        ],
        (sql.SqlError,),
    ),
    Target("rocketmq_tags", _tags, lambda: [b"*", b"a || b", b"paid"], (Refused,)),
    Target(
        "rocketmq_handles",
        _handle,
        lambda: [
            SIGNER.write(HANDLE, "topic", "group").encode(),
            SIGNER.write(HANDLE, "topic", "other").encode(),
            b"=" * 64,
        ],
    ),
    Target("rocketmq_messages", _message, _messages, (Refused, DecodeError)),
)
