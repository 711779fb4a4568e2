"""Any bytes, cut anywhere: events or one fault, and never more memory than was received."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st
from stage.counts import examples

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Command, Fault, Sends
from milepost.wire.frames import FRAME_PADDING
from milepost.wire.protocol import ClientProtocol, ServerProtocol, State
from milepost.wire.replies import PING, PONG, UNSOLICITED, close_consumer, reply, success
from milepost.wire.scanners.encode import MessageEncoder, send_frame, send_receipt

CONNECT = reply(pb.CommandConnect(client_version="c", protocol_version=21))
CONNECTED = reply(pb.CommandConnected(server_version="s", protocol_version=21))
METADATA = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1_794_741_333_444)
BATCH = pb.MessageMetadata(
    producer_name="p", sequence_id=7, publish_time=1_794_741_333_444, num_messages_in_batch=2
)
ACK = pb.CommandAck(
    consumer_id=1,
    ack_type=pb.CommandAck.Individual,
    message_id=[pb.MessageIdData(ledgerId=7, entryId=entry) for entry in (1, 200, 3)],
    request_id=9,
)


def sends(producer_id: int, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
    return b"".join(send_frame(producer_id, 7, metadata.SerializeToString(), payload))


TO_SERVER = [
    sends(3, METADATA, b"payload"),
    sends(3, BATCH, bytes(12)),
    sends(3, BATCH, bytes(11)),
    sends(200, METADATA, b""),
    sends(3, METADATA, b"payload")[:-1] + b"X",
    reply(ACK),
    reply(pb.CommandFlow(consumer_id=1, messagePermits=1000)),
    reply(pb.CommandLookupTopic(topic="t", request_id=2)),
    reply(pb.CommandSeek(consumer_id=1, request_id=2, message_publish_time=5)),
    PING,
    PONG,
]
TO_CLIENT = [
    MessageEncoder(1).head(7, 8, entry_size=5, ack_set=[28]) + b"entry",
    MessageEncoder(1, 3).head(7, 9, entry_size=0, redelivery_count=1),
    send_receipt(1, 7, 7, 8),
    send_receipt(1, 7, -1, -1),
    success(5),
    close_consumer(1, UNSOLICITED),
    PING,
]
HOSTILE = [
    bytes(4),
    bytes.fromhex("7fffffff00000001"),
    bytes.fromhex("0000000800000004"),
    bytes.fromhex("00000008000000040863 1a00".replace(" ", "")),
    b"GET / HTTP/1.1\r\n\r\n",
]


@st.composite
def conversations(draw: st.DrawFn, frames: list[bytes]) -> bytes:
    """Whole frames, with some damage now and then."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(frames + HOSTILE[:1]), max_size=8))))
    if draw(st.booleans()):
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, len(data)))
            data[at : at + draw(st.integers(0, 4))] = draw(
                st.binary(max_size=4) | st.sampled_from(HOSTILE)
            )
    return bytes(data)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in pairwise(places)]


def server() -> ServerProtocol:
    protocol = ServerProtocol(server_version="s", max_message_size=2000)
    protocol.receive(CONNECT)
    protocol.accept()
    protocol.data_to_send()
    return protocol


def client() -> ClientProtocol:
    protocol = ClientProtocol(frame_max=2000)
    protocol.connect(pb.CommandConnect(client_version="c"))
    protocol.receive(CONNECTED)
    protocol.data_to_send()
    return protocol


def heard(protocol: ServerProtocol | ClientProtocol, parts: list[bytes]) -> list[object]:
    """Everything that happened, sends one by one, faults by their reason, then what was answered."""
    found: list[object] = []
    for part in parts:
        for event in protocol.receive(part):
            if isinstance(event, Sends):
                assert event.sends
                found += [(event.producer_id, send) for send in event.sends]
            elif isinstance(event, Fault):
                found.append((event.error.reason, str(event.error)))
            elif isinstance(event, Command):
                found.append((event.kind, event.message.SerializeToString()))
            else:
                found.append(event)
    # A PONG goes ahead of what waits, so that its place depends on the cuts; its number does not.
    answers = b"".join(protocol.data_to_send())
    found.append((answers.count(PONG), answers.replace(PONG, b""), protocol.state))
    return found


CUTS = st.lists(st.integers(0, 10_000), max_size=10)


@given(conversations(TO_SERVER), CUTS)
@example(b"".join(TO_SERVER), list(range(2000)))
def test_cuts_change_nothing_for_a_server(data: bytes, cuts: list[int]) -> None:
    assert heard(server(), pieces(data, cuts)) == heard(server(), [data])


@given(conversations(TO_CLIENT), CUTS)
@example(b"".join(TO_CLIENT), list(range(2000)))
def test_cuts_change_nothing_for_a_client(data: bytes, cuts: list[int]) -> None:
    assert heard(client(), pieces(data, cuts)) == heard(client(), [data])


@given(conversations([CONNECT, PING, *TO_SERVER]), CUTS)
def test_cuts_change_nothing_for_a_stranger(data: bytes, cuts: list[int]) -> None:
    whole = heard(ServerProtocol(server_version="s"), [data])
    assert heard(ServerProtocol(server_version="s"), pieces(data, cuts)) == whole


@given(st.binary(max_size=200) | conversations(TO_SERVER + TO_CLIENT))
def test_any_bytes_end_in_events_or_one_fault(data: bytes) -> None:
    for protocol in (server(), client(), ServerProtocol(server_version="s"), ClientProtocol()):
        events = list(protocol.receive(data))
        faults = [event for event in events if isinstance(event, Fault)]
        assert faults == (events[-1:] if protocol.state is State.CLOSED else [])
        assert (protocol.error is not None) == bool(faults)
        if faults:
            assert protocol.receive(data) == []


@given(
    total=st.integers(0, 2**32 - 1) | st.integers(0, 2000 + FRAME_PADDING + 1),
    size=st.integers(0, 2**32 - 1) | st.integers(0, 3000),
    body=st.binary(max_size=100),
)
@settings(max_examples=examples(50), deadline=None)
def test_nothing_is_allocated_by_a_number(total: int, size: int, body: bytes) -> None:
    data = total.to_bytes(4, "big") + size.to_bytes(4, "big") + body
    protocol = server()
    tracemalloc.start()
    try:
        protocol.receive(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_bytes_one_by_one_are_not_copied_over_and_over() -> None:
    """What waits for the rest of its frame grows in place: no more than a few copies of each byte."""
    protocol = ServerProtocol(server_version="s", max_message_size=5 * 1024 * 1024)
    protocol.receive(CONNECT)
    protocol.accept()
    frame = sends(3, METADATA, bytes(200_000))
    tracemalloc.start()
    try:
        for at in range(len(frame) - 1):
            protocol.receive(frame[at : at + 1])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * len(frame)
    [event] = protocol.receive(frame[-1:])
    assert isinstance(event, Sends)
