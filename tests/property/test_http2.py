"""Whatever bytes come, HTTP/2 answers with events or ends the connection, and keeps little."""

from __future__ import annotations

from itertools import pairwise

import hpack
from hypothesis import given
from hypothesis import strategies as st

from milepost.rocketmq.grpc import frames
from milepost.rocketmq.grpc.frames import PREFACE, ConnectionFault, frame
from milepost.rocketmq.grpc.headers import HeaderReader, written
from milepost.rocketmq.grpc.http2 import Asked, Came, Event, Http2

HELLO = PREFACE + frames.settings_frame({})
REQUEST = ((":method", "POST"), (":scheme", "http"), (":path", "/a/b"))
BLOCK = written(*REQUEST)

streams = st.integers(0, 9)
kinds = st.integers(0, 11)
any_frame = st.builds(
    frame, kinds, st.integers(0, 255), streams, st.binary(max_size=40) | st.just(BLOCK)
)
good_frame = st.one_of(
    st.builds(lambda stream: frame(frames.HEADERS, 4, 2 * stream + 1, BLOCK), streams),
    st.builds(lambda stream, data: frame(frames.DATA, 0, stream, data), streams, st.binary()),
    st.builds(frames.window_frame, streams, st.integers(0, 2**31 - 1)),
    st.builds(lambda size: frames.settings_frame({frames.Setting(4): size}), st.integers(0, 2**31)),
)


def events_of(parts: list[bytes]) -> tuple[list[Event], bytes, bool]:
    """What was said, what was answered, and whether the connection was ended."""
    link, events = Http2(4), []
    try:
        for part in parts:
            link.receive(part)
            for event in link.next(0.0, 10**6):
                events.append(event)
                if isinstance(event, Came) and event.is_last:
                    link.answer(event.stream, b"head", b"x" * 100, b"tail")
                elif isinstance(event, Asked) and event.is_last:
                    link.write(event.stream, b"y" * 100)
    except ConnectionFault:
        return events, link.take(), True
    assert link.open_streams <= 4
    return events, link.take(), False


@given(st.lists(any_frame | good_frame | st.binary(max_size=30), max_size=30))
def test_any_bytes(said: list[bytes]) -> None:
    events_of([HELLO, *said])
    events_of(said)


@given(st.lists(any_frame | good_frame, max_size=20), st.data())
def test_pieces_make_no_difference(said: list[bytes], data: st.DataObject) -> None:
    whole = HELLO + b"".join(said)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    places = [0, *cuts, len(whole)]
    parts = [whole[first:end] for first, end in pairwise(places)]
    events, _, is_ended = events_of(parts)
    one_by_one, _, ended_too = events_of([HELLO, *said])
    assert is_ended == ended_too
    # Before it ends, a connection tells what came before; how much of that depends on the pieces.
    if not is_ended:
        assert events == one_by_one


names = st.sampled_from(["x", "y", "x-mq-request-id", "authorization"])
values = st.text("abc019 -", max_size=12)


@given(
    st.lists(st.tuples(st.lists(st.tuples(names, values), max_size=4), st.booleans()), max_size=20),
    st.sampled_from([0, 64, 200, 4096]),
)
def test_headers_are_read_as_they_were_written(
    calls: list[tuple[list[tuple[str, str]], bool]], size: int
) -> None:
    """Any client's table, and blocks that are the same again and again."""
    reader, encoder = HeaderReader(), hpack.Encoder()
    encoder.header_table_size = size
    for headers, is_packed in [*calls, *calls]:
        told = [*REQUEST, *headers]
        assert reader.read(encoder.encode(told, huffman=is_packed)) == dict(told)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_any_header_block(first: bytes, second: bytes) -> None:
    link = Http2(4)
    link.receive(HELLO + frame(frames.HEADERS, 4, 1, first) + frame(frames.HEADERS, 4, 3, second))
    try:
        link.next(0.0, 100)
    except ConnectionFault:
        assert link.take()
