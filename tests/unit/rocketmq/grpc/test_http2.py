"""HTTP/2 without a socket: calls come and are answered, and what a client may cost is bounded."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import hpack
import pytest

from milepost.rocketmq.grpc import frames, http2
from milepost.rocketmq.grpc.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    PREFACE,
    WINDOW_DEFAULT,
    ConnectionFault,
    ErrorCode,
    Setting,
    frame,
)
from milepost.rocketmq.grpc.headers import LIST_SIZE_MAX, written
from milepost.rocketmq.grpc.http2 import Asked, Came, Drained, Event, Http2, Reset

REQUEST = ((":method", "POST"), (":scheme", "http"), (":path", "/a/b"), ("x", "y"))
BLOCK = written(*REQUEST)
HELLO = PREFACE + frames.settings_frame({})
EVERYTHING = 10**6


def asked(stream: int, *, is_last: bool = False, block: bytes = BLOCK) -> bytes:
    flags = END_HEADERS | (END_STREAM if is_last else 0)
    return frame(frames.HEADERS, flags, stream, block)


def data(stream: int, payload: bytes = b"", *, is_last: bool = False) -> bytes:
    return frame(frames.DATA, END_STREAM if is_last else 0, stream, payload)


def sent(written: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame."""
    while written:
        size = int.from_bytes(written[:3], "big")
        stream = int.from_bytes(written[5:9], "big")
        yield written[3], written[4], stream, written[9 : 9 + size]
        written = written[9 + size :]


class Link:
    def __init__(self, streams_max: int = 100) -> None:
        self.http2 = Http2(streams_max)
        self.now = 1000.0
        self.say(HELLO)
        self.http2.take()

    def say(self, *frames: bytes) -> list[Event]:
        self.http2.receive(b"".join(frames))
        return self.http2.next(self.now, EVERYTHING)

    def sent(self) -> list[tuple[int, int, int, bytes]]:
        return list(sent(self.http2.take()))

    def fault(self, *frames: bytes) -> ErrorCode:
        """The code with which the connection ends, which the client is told too."""
        with pytest.raises(ConnectionFault) as caught:
            self.say(*frames)
        kind, _, stream, payload = self.sent()[-1]
        assert (kind, stream) == (frames_of("GOAWAY"), 0)
        assert int.from_bytes(payload[4:8], "big") == caught.value.code
        return caught.value.code

    def reset(self, *frames: bytes) -> ErrorCode:
        """The code with which the stream ends that these frames are of."""
        events = self.say(*frames)
        (event,) = [one for one in events if isinstance(one, Reset)]
        kind, _, stream, payload = self.sent()[-1]
        assert (kind, stream) == (frames_of("RST_STREAM"), event.stream)
        assert struct.unpack(">I", payload) == (event.code,)
        return ErrorCode(event.code)


def frames_of(name: str) -> int:
    return int(getattr(frames, name))


@pytest.fixture
def link() -> Link:
    return Link()


def test_a_call_and_its_answer(link: Link) -> None:
    events = link.say(asked(1), data(1, b"one"), data(1, b"two", is_last=True))
    assert events == [
        Asked(1, dict(REQUEST), False),
        Came(1, b"one", False),
        Came(1, b"two", True),
    ]
    assert link.http2.answer(1, b"head", b"body", b"tail")
    assert link.sent() == [
        (frames.HEADERS, END_HEADERS, 1, b"head"),
        (frames.DATA, 0, 1, b"body"),
        (frames.HEADERS, END_HEADERS | END_STREAM, 1, b"tail"),
    ]
    assert not link.http2.open_streams


def test_a_frame_may_come_in_any_pieces() -> None:
    whole = HELLO + asked(1) + data(1, b"x" * 100, is_last=True)
    link = Http2(1)
    events: list[Event] = []
    for at in range(len(whole)):
        link.receive(whole[at : at + 1])
        events += link.next(0.0, EVERYTHING)
    assert events == [Asked(1, dict(REQUEST), False), Came(1, b"x" * 100, True)]


def test_some_frames_at_a_time(link: Link) -> None:
    link.http2.receive(b"".join(asked(at, is_last=True) for at in (1, 3, 5)))
    assert [one.stream for one in link.http2.next(0.0, 2)] == [1, 3]
    assert link.http2.has_more
    assert [one.stream for one in link.http2.next(0.0, 2)] == [5]
    assert not link.http2.has_more


def test_padding_and_priorities_are_passed_over(link: Link) -> None:
    flags = END_HEADERS | frames.PADDED | frames.HAS_PRIORITY
    padded = bytes((3,)) + bytes(5) + BLOCK + bytes(3)
    body = frame(frames.DATA, frames.PADDED | END_STREAM, 1, bytes((2,)) + b"body" + bytes(2))
    priority = frame(frames.PRIORITY, 0, 1, bytes(5))
    events = link.say(frame(frames.HEADERS, flags, 1, padded), priority, body)
    assert events == [Asked(1, dict(REQUEST), False), Came(1, b"body", True)]


def test_a_header_block_in_several_frames(link: Link) -> None:
    parts = [BLOCK[:3], BLOCK[3:9], BLOCK[9:]]
    events = link.say(
        frame(frames.HEADERS, END_STREAM, 1, parts[0]),
        frame(frames.CONTINUATION, 0, 1, parts[1]),
        frame(frames.CONTINUATION, END_HEADERS, 1, parts[2]),
    )
    assert events == [Asked(1, dict(REQUEST), True)]


def test_a_client_is_answered_its_pings_and_settings(link: Link) -> None:
    link.say(frame(frames.PING, 0, 0, b"12345678"), frames.settings_frame({Setting.ENABLE_PUSH: 0}))
    assert link.sent() == [
        (frames.PING, ACK, 0, b"12345678"),
        (frames.SETTINGS, ACK, 0, b""),
    ]
    assert link.say(frame(frames.PING, ACK, 0, bytes(8)), frame(frames.SETTINGS, ACK, 0)) == []
    assert link.sent() == []


# -- windows -------------------------------------------------------------------------------------------


def test_an_answer_waits_for_room_and_then_goes_on(link: Link) -> None:
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 10}), asked(1, is_last=True))
    link.http2.take()
    assert not link.http2.answer(1, b"head", b"0123456789abcdef", b"tail")
    assert [one[3] for one in link.sent()] == [b"head", b"0123456789"]
    assert not link.http2.is_drained(1)
    assert link.say(frames.window_frame(1, 2)) == []
    assert link.say(frames.window_frame(1, 100)) == [Drained(1)]
    assert [one[3] for one in link.sent()] == [b"ab", b"cdef", b"tail"]
    assert link.http2.is_drained(1)
    assert not link.http2.open_streams


def test_the_windows_of_a_connection_hold_for_all_its_calls(link: Link) -> None:
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 2**20}))
    link.say(asked(1, is_last=True), asked(3, is_last=True))
    link.http2.take()
    for stream in (1, 3):
        link.http2.begin(stream, b"head")
    assert not link.http2.write(1, b"x" * 80_000)
    assert not link.http2.write(3, b"y" * 10)
    found = link.sent()
    assert sum(len(one[3]) for one in found if one[0] == frames.DATA) == frames.WINDOW_DEFAULT
    assert max(len(one[3]) for one in found) == frames.FRAME_SIZE_MAX
    assert link.say(frames.window_frame(0, 10)) == []  # the first takes it all
    assert link.say(frames.window_frame(0, 10)) == [Drained(3)]  # then it is the other one's turn
    assert link.say(frames.window_frame(0, 2**20)) == [Drained(1)]
    link.http2.end(1, b"tail")
    assert link.sent()[-1] == (frames.HEADERS, END_HEADERS | END_STREAM, 1, b"tail")


def test_a_window_that_becomes_smaller_may_be_below_nothing(link: Link) -> None:
    link.say(asked(1, is_last=True))
    link.http2.begin(1, b"head")
    assert link.http2.write(1, b"x" * 100)
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 50}))
    assert not link.http2.write(1, b"y")
    assert link.say(frames.window_frame(1, 50)) == []
    assert link.say(frames.window_frame(1, 1)) == [Drained(1)]


def test_a_client_may_send_more_when_what_it_sent_was_read(link: Link) -> None:
    part, count = b"x" * 16384, http2.STREAM_WINDOW // 16384
    link.say(asked(1), *(data(1, part) for _ in range(count)))
    assert link.sent() == []
    link.http2.give_room(1)
    ((kind, _, stream, payload),) = link.sent()
    assert (kind, stream) == (frames.WINDOW_UPDATE, 1)
    assert frames.number(payload) == http2.STREAM_WINDOW
    link.say(*(data(1, part) for _ in range(count)))
    # By now half of the connection's room was used, and is given back by itself.
    assert [one[2] for one in link.sent()] == [0]


def test_more_data_than_there_is_room_for(link: Link) -> None:
    part, count = b"x" * 16384, http2.STREAM_WINDOW // 16384
    link.say(asked(1), asked(3), *(data(1, part) for _ in range(count)))
    assert link.reset(data(1, b"x")) is ErrorCode.FLOW_CONTROL_ERROR
    assert link.say(data(3, b"y")) == [Came(3, b"y", False)]


# -- its end -------------------------------------------------------------------------------------------


def test_an_answer_before_the_end_of_the_request_ends_that_too(link: Link) -> None:
    link.say(asked(1))
    link.http2.end(1, b"no")
    assert link.sent() == [
        (frames.HEADERS, END_HEADERS | END_STREAM, 1, b"no"),
        (frames.RST_STREAM, 0, 1, struct.pack(">I", ErrorCode.NO_ERROR)),
    ]
    # What was on its way is passed over, and what is written for it goes nowhere.
    assert link.say(data(1, b"late"), data(1, b"later", is_last=True)) == []
    assert link.http2.answer(1, b"", b"", b"")
    assert link.http2.write(1, b"")
    link.http2.begin(1, b"")
    link.http2.end(1, b"")
    assert link.sent() == []


def test_a_client_ends_a_call(link: Link) -> None:
    link.say(asked(1))
    assert link.say(frame(frames.RST_STREAM, 0, 1, struct.pack(">I", 8))) == [Reset(1, 8)]
    assert link.say(frame(frames.RST_STREAM, 0, 1, struct.pack(">I", 8))) == []


def test_a_server_that_leaves_begins_no_more_calls(link: Link) -> None:
    link.say(asked(1))
    link.http2.leave()
    link.http2.leave()
    ((kind, _, _, payload),) = link.sent()
    assert (kind, payload) == (frames.GOAWAY, struct.pack(">II", 1, ErrorCode.NO_ERROR))
    assert link.say(asked(3), data(1, b"x", is_last=True)) == [Came(1, b"x", True)]
    assert link.http2.answer(1, b"head", b"body", b"tail")
    assert len(link.sent()) == 3


# -- what is not allowed -------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n", b"\x16\x03\x01", PREFACE[:-1] + b"x"])
def test_other_protocols_are_recognised(said: bytes) -> None:
    link = Http2(1)
    link.receive(said)
    with pytest.raises(ConnectionFault):
        link.next(0.0, EVERYTHING)


def test_settings_come_first() -> None:
    link = Http2(1)
    link.receive(PREFACE + asked(1))
    with pytest.raises(ConnectionFault):
        link.next(0.0, EVERYTHING)
    assert not link.is_greeted


PROTOCOL, SIZE = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR
FLOW, CALM = ErrorCode.FLOW_CONTROL_ERROR, ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (SIZE, frames.head(16385, frames.DATA, 0, 1)),
        (PROTOCOL, asked(2)),
        (PROTOCOL, frame(frames.HEADERS, END_HEADERS, 0, BLOCK)),
        (PROTOCOL, data(0)),
        (PROTOCOL, data(1)),  # never opened
        (PROTOCOL, frame(frames.RST_STREAM, 0, 1, bytes(4))),
        (SIZE, asked(1) + frame(frames.RST_STREAM, 0, 1, bytes(3))),
        (PROTOCOL, frames.window_frame(1, 1)),
        (PROTOCOL, frames.window_frame(0, 0)),
        (FLOW, frames.window_frame(0, 2**31 - 1)),
        (SIZE, frame(frames.WINDOW_UPDATE, 0, 0, bytes(3))),
        (PROTOCOL, frame(frames.PING, 0, 1, bytes(8))),
        (SIZE, frame(frames.PING, 0, 0, bytes(7))),
        (PROTOCOL, frame(frames.SETTINGS, 0, 1)),
        (SIZE, frame(frames.SETTINGS, 0, 0, bytes(5))),
        (SIZE, frame(frames.SETTINGS, ACK, 0, bytes(6))),
        (PROTOCOL, frames.settings_frame({Setting.ENABLE_PUSH: 2})),
        (PROTOCOL, frames.settings_frame({Setting.MAX_FRAME_SIZE: 16383})),
        (FLOW, frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 2**31})),
        (
            FLOW,
            asked(1)
            + frames.window_frame(1, 2**31 - 1 - 65535)
            + frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 65536}),
        ),
        (PROTOCOL, frame(frames.PUSH_PROMISE, 0, 1)),
        (SIZE, frame(frames.GOAWAY, 0, 0, bytes(7))),
        (PROTOCOL, frame(frames.CONTINUATION, END_HEADERS, 1)),
        (PROTOCOL, frame(frames.HEADERS, 0, 1, BLOCK) + data(1)),
        (
            PROTOCOL,
            frame(frames.HEADERS, 0, 1, BLOCK) + frame(frames.CONTINUATION, END_HEADERS, 3),
        ),
        (PROTOCOL, frame(frames.HEADERS, 0, 1, BLOCK) + frame(0xEE, 0, 1)),
        (SIZE, frame(frames.HEADERS, END_HEADERS | frames.HAS_PRIORITY, 1, bytes(4))),
        (PROTOCOL, frame(frames.HEADERS, END_HEADERS | frames.PADDED, 1, b"\x05abc")),
        (PROTOCOL, frame(frames.HEADERS, END_HEADERS | frames.PADDED, 1)),
        (ErrorCode.COMPRESSION_ERROR, asked(1, block=b"\xff\xff\xff\xff")),
        (ErrorCode.COMPRESSION_ERROR, asked(1, block=b"\x00\x7fshort")),
        (ErrorCode.STREAM_CLOSED, asked(3) + asked(1)),
    ],
)
def test_what_ends_a_connection(link: Link, code: ErrorCode, said: bytes) -> None:
    assert link.fault(said) is code


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (PROTOCOL, asked(1, block=written((":method", "POST"), (":scheme", "http")))),
        (PROTOCOL, asked(1, block=written(*REQUEST[1:], REQUEST[0]))),
        (PROTOCOL, asked(1, block=written(*REQUEST, ("Upper", "x")))),
        (PROTOCOL, asked(1, block=written(*REQUEST, ("connection", "close")))),
        (PROTOCOL, asked(1, block=written(*REQUEST, ("te", "gzip")))),
        (PROTOCOL, asked(1, block=written((":status", "200"), *REQUEST))),
        (PROTOCOL, asked(1, block=written(REQUEST[0], *REQUEST))),
        (PROTOCOL, asked(1) + frames.window_frame(1, 0)),
        (FLOW, asked(1) + frames.window_frame(1, 2**31 - 1)),
        (PROTOCOL, asked(1) + asked(1)),  # headers in the middle of a call
        (ErrorCode.STREAM_CLOSED, asked(1, is_last=True) + data(1, b"x")),
        (ErrorCode.STREAM_CLOSED, asked(1, is_last=True) + asked(1, is_last=True)),
        (SIZE, asked(1) + frame(frames.PRIORITY, 0, 1, bytes(4))),
        (PROTOCOL, asked(1) + frame(frames.PRIORITY, 0, 1, b"\x00\x00\x00\x01\x00")),
        (PROTOCOL, asked(1, block=written(*REQUEST, ("content-length", "1")), is_last=True)),
        (PROTOCOL, asked(1, block=written(*REQUEST, ("content-length", "1"))) + data(1, b"xy")),
    ],
)
def test_what_ends_a_call_alone(link: Link, code: ErrorCode, said: bytes) -> None:
    assert link.reset(said) is code
    assert link.say(asked(101, is_last=True)) == [Asked(101, dict(REQUEST), True)]


def test_more_calls_than_are_allowed_are_refused_and_can_be_tried_again() -> None:
    link = Link(streams_max=2)
    link.say(asked(1), asked(3))
    assert link.reset(asked(5)) is ErrorCode.REFUSED_STREAM
    link.http2.end(1, b"")
    assert link.say(asked(7)) == [Asked(7, dict(REQUEST), False)]


# -- floods --------------------------------------------------------------------------------------------


def test_few_bytes_that_unpack_to_many_headers(link: Link) -> None:
    """A long header is put into the table, and named again and again."""
    encoder, long = hpack.Encoder(), ("long", "x" * 3000)
    link.say(asked(1, block=encoder.encode([*REQUEST, long], huffman=False)))
    again = encoder.encode([*REQUEST, *[long] * (LIST_SIZE_MAX // 3000 + 1)], huffman=False)
    assert len(again) < 100
    assert link.fault(asked(3, block=again)) is CALM


def test_a_header_block_that_does_not_end(link: Link) -> None:
    empty = frame(frames.CONTINUATION, 0, 1)
    assert link.fault(frame(frames.HEADERS, 0, 1), *[empty] * http2.BLOCK_FRAMES_MAX) is CALM
    link = Link()
    large = frame(frames.CONTINUATION, 0, 1, bytes(16384))
    assert link.fault(frame(frames.HEADERS, 0, 1), *[large] * 3) is CALM


@pytest.mark.parametrize(
    "idle",
    [
        frame(frames.PING, 0, 0, bytes(8)),
        frames.settings_frame({}),
        frame(frames.PRIORITY, 0, 1, bytes(5)),
        frames.window_frame(0, 1),
        data(1),
        frame(0xEE, 0, 0),
    ],
)
def test_a_flood_of_frames_that_bring_nothing(link: Link, idle: bytes) -> None:
    link.say(asked(1))
    link.say(*[idle] * (http2.IDLE_FRAMES_MAX - 100))
    link.now += 10  # some are allowed every second
    link.say(*[idle] * 1000)
    assert link.fault(*[idle] * http2.IDLE_FRAMES_MAX) is CALM


@pytest.mark.parametrize("where", [0, 1, 3])
def test_a_flood_of_room_that_nothing_waits_for(link: Link, where: int) -> None:
    """An answer waits for room in its own window, and gets it elsewhere, or never enough."""
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 70_000}), asked(1), asked(3))
    assert not link.http2.write(1, bytes(70_000))  # the window of the connection is smaller
    link.say(frames.window_frame(0, 70_000 - WINDOW_DEFAULT + 100))
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}))
    assert not link.http2.write(1, b"waits")
    assert link.fault(*[frames.window_frame(where, 1)] * (http2.IDLE_FRAMES_MAX + 100)) is CALM


def test_a_frame_of_settings_costs_one_look_at_the_streams(link: Link) -> None:
    """However often it names their window: thousands of them may be open."""

    class Streams(dict[int, Any]):
        looks = 0

        def values(self) -> Any:
            self.looks += 1
            return super().values()

        def items(self) -> Any:
            self.looks += 1
            return super().items()

    link.say(asked(1))
    streams = link.http2._streams = Streams(link.http2._streams)
    often = b"".join(
        struct.pack(">HI", Setting.INITIAL_WINDOW_SIZE, one % 7) for one in range(2000)
    )
    link.say(frame(frames.SETTINGS, 0, 0, often))
    assert streams.looks <= 1
    assert not link.http2.write(1, b"x" * 6)  # the last one counts: four bytes
    assert link.sent()[-1] == (frames.DATA, 0, 1, b"x" * 4)


def test_room_for_a_call_is_given_to_no_other(link: Link) -> None:
    link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 0}), asked(1), asked(3))
    for stream in (1, 3):
        assert not link.http2.write(stream, b"abcd")
    link.sent()
    assert link.say(frames.window_frame(3, 4)) == [Drained(3)]
    assert link.sent() == [(frames.DATA, 0, 3, b"abcd")]
    assert not link.http2.is_drained(1)
    assert link.say(frames.settings_frame({Setting.INITIAL_WINDOW_SIZE: 4})) == [Drained(1)]
    assert (frames.DATA, 0, 1, b"abcd") in link.sent()


def test_pings_beside_answers_are_no_flood(link: Link) -> None:
    for stream in range(1, 4 * http2.IDLE_FRAMES_MAX, 2):
        link.say(asked(stream, is_last=True), frame(frames.PING, 0, 0, bytes(8)))
        link.http2.answer(stream, b"", b"", b"")


def test_a_flood_of_calls_that_are_cut_off(link: Link) -> None:
    def cut_off(count: int, first: int) -> list[bytes]:
        cut = struct.pack(">I", ErrorCode.CANCEL)
        return [
            one
            for stream in range(first, first + 2 * count, 2)
            for one in (asked(stream), frame(frames.RST_STREAM, 0, stream, cut))
        ]

    link.say(*cut_off(1000, 1))  # a consumer that ends
    assert link.fault(*cut_off(http2.RESETS_MAX, 2001)) is CALM


def test_streams_that_are_cut_off_are_forgotten_at_last(link: Link) -> None:
    for stream in range(1, 1001, 2):
        link.say(asked(stream))
        link.http2.reset(stream, ErrorCode.CANCEL)
    assert link.say(data(999, b"late")) == []
    assert link.reset(data(1, b"much too late")) is ErrorCode.STREAM_CLOSED
