"""The loop over MESSAGE frames against the protocol: both hear the same, however bytes are cut or damaged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples
from stage.runs import Heard

from milepost.spark.reading import deliveries
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.replies import reply
from milepost.wire.scanners.encode import MessageEncoder

U64 = st.integers(0, 2**64 - 1)
entries = st.binary(max_size=40)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    entry = draw(entries)
    words = draw(st.just(()) | st.lists(st.integers(0, 2**63 - 1), max_size=2).map(tuple))
    encoder = MessageEncoder(draw(U64), draw(st.integers(-1, 2**31 - 1)))
    head = encoder.head(
        draw(U64),
        draw(U64),
        len(entry),
        draw(st.integers(0, 2**32 - 1)),
        words,
        draw(st.just(-1) | st.integers(0, 2**63 - 1)),
    )
    return head + entry


others = st.sampled_from(
    [
        reply(pb.CommandSuccess(request_id=4)),
        reply(pb.CommandPing()),
        reply(pb.CommandCloseConsumer(consumer_id=1, request_id=9)),
    ]
)
streams = st.lists(messages() | messages() | others, max_size=8).map(b"".join)


def events(data: bytes, cut: int, *, compiled: bool) -> list[str]:
    with Heard(compiled=compiled) as heard:
        heard.receive(data[:cut])
        heard.receive(data[cut:])
        # As text: errors are not equal to each other.
        return [
            *map(repr, heard.found),
            repr(heard.protocol.data_to_send()),
            str(heard.protocol.state),
            str(heard.protocol.heard),
        ]


@settings(max_examples=examples(300))
@given(
    streams,
    st.integers(0, 400),
    st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
)
def test_both_hear_the_same(data: bytes, cut: int, damage: tuple[int, int] | None) -> None:
    if damage is not None and data:
        changed = bytearray(data)
        changed[damage[0] % len(data)] = damage[1]
        data = bytes(changed)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deliveries, "RECEIVED_MIN", 0)
        assert events(data, cut, compiled=True) == events(data, cut, compiled=False)
