"""What peers send: frames, commands, entries, batches, ack sets."""

from __future__ import annotations

import random
import re
import struct
import zlib
from collections.abc import Hashable, Iterator, Sequence

from stage.acksets import pending_runs

from fuzz import seeds
from fuzz.harness import Target
from milepost.errors import InvalidInput, ProtocolError
from milepost.positions.ackset import AckSet
from milepost.rocketmq.remoting import frames as remoting
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import join_batch, split_batch
from milepost.wire.commands import FROM_BROKER, FROM_CLIENT, decode_command, encode_command
from milepost.wire.events import Command, Fault, Sends
from milepost.wire.metadata import (
    chunk_info,
    is_batch,
    message_count,
    split_entry,
    sticky_key,
)
from milepost.wire.protocol import ClientProtocol, ServerProtocol, State
from milepost.wire.scanners.ack_scan import read_ack, scan_ack, scan_flow
from milepost.wire.scanners.shape import read_shape

# -- the wire ----------------------------------------------------------------------------------------


CONNECT, CONNECTED = seeds.handshakes()[0], seeds.broker_frames()[-1]


def _server(*, ready: bool) -> ServerProtocol:
    protocol = ServerProtocol(server_version="Milepost-1", max_message_size=32 * 1024)
    if ready:
        (event,) = protocol.receive(CONNECT)
        assert isinstance(event, Command)
        protocol.accept()
        protocol.data_to_send()
    return protocol


def _hear(protocol: ServerProtocol | ClientProtocol, parts: Sequence[bytes]) -> list[object]:
    """Everything that comes of the bytes, each send by itself; the end of it in one word."""
    heard: list[object] = []
    for part in parts:
        for event in _events(protocol, part):
            if isinstance(event, Sends):
                assert event.sends
                heard += [(event.producer_id, send) for send in event.sends]
            elif isinstance(event, Fault):
                assert protocol.state is State.CLOSED
                heard.append(str(event.error.reason))
            else:
                heard.append(event)
                if protocol.state is State.CONNECTING and isinstance(protocol, ServerProtocol):
                    protocol.accept()
    heard.append(b"".join(protocol.data_to_send()))
    return heard


def _events(protocol: ServerProtocol | ClientProtocol, part: bytes) -> Iterator[object]:
    """What a part means, all of it: a server hears the requests of one read a few at a time."""
    yield from protocol.receive(part)
    while isinstance(protocol, ServerProtocol) and protocol.has_more:
        yield from protocol.receive(b"")


def _kinds(heard: list[object]) -> Hashable:
    names = [one if isinstance(one, str) else type(one).__name__ for one in heard]
    return tuple(dict.fromkeys(names))[:4]


def _cut(data: bytes) -> list[bytes]:
    """The same bytes, cut where they say so themselves."""
    dice = random.Random(zlib.crc32(data))
    places = sorted(dice.randrange(len(data) + 1) for _ in range(dice.choice((1, 2, 5))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def _server_frames(data: bytes) -> Hashable:
    """However the bytes are cut on their way, they mean the same."""
    heard = _hear(_server(ready=True), [data])
    assert _hear(_server(ready=True), _cut(data)) == heard
    return _kinds(heard)


def _server_handshake(data: bytes) -> Hashable:
    heard = _hear(_server(ready=False), [data])
    # Behind a CONNECT the reader stops until it is accepted, which takes until the next bytes here.
    return _kinds(heard)


def _client_frames(data: bytes) -> Hashable:
    def client() -> ClientProtocol:
        protocol = ClientProtocol(frame_max=1 << 20)
        protocol.connect(pb.CommandConnect(client_version="c"))
        protocol.receive(CONNECTED)
        protocol.data_to_send()
        return protocol

    heard = _hear(client(), [data])
    assert _hear(client(), _cut(data)) == heard
    return _kinds(heard)


def _command(data: bytes) -> Hashable:
    command = decode_command(data)
    assert decode_command(encode_command(command.message)).message == command.message
    return command.kind


def _acks(data: bytes) -> Hashable:
    """The hand-written reader gives what the library gives, or nothing."""
    scanned, flow = scan_ack(data, 0, len(data)), scan_flow(data, 0, len(data))
    command = decode_command(data)
    if scanned is not None:
        assert isinstance(command.message, pb.CommandAck)
        assert scanned == read_ack(command.message)
        for message_id in scanned.ids[:20]:
            _use(AckSet.from_ack_words(message_id.ack_set, 70))
    if flow is not None:
        assert isinstance(command.message, pb.CommandFlow)
        assert flow.permits == command.message.messagePermits
    return command.kind, scanned is not None, flow is not None


def _use(ack_set: AckSet) -> None:
    pending, acked = pending_runs(ack_set), ack_set.acked_runs()
    assert sum(end - first for first, end in [*pending, *acked]) == ack_set.size
    assert AckSet.from_ack_words(ack_set.to_ack_words(), ack_set.size) == ack_set


def _ack_set(data: bytes) -> Hashable:
    size = int.from_bytes(data[:3], "big")
    rest = data[3:]
    words = struct.unpack(f">{len(rest) // 8}q", rest[: len(rest) // 8 * 8])
    ack_set = AckSet.from_ack_words(words, size)
    _use(ack_set)
    _use(ack_set & AckSet.from_message_words(words[::-1], size))
    return ack_set.is_full, ack_set.is_empty, min(len(words), 3)


def _entry(data: bytes) -> Hashable:
    parts = split_entry(data)
    metadata = parts.metadata
    sticky_key(metadata)
    chunk = chunk_info(metadata)
    if parts.is_intact and is_batch(metadata) and not metadata.compression:
        count = message_count(metadata)
        messages = split_batch(parts.payload, count)
        assert [m.payload for m in split_batch(join_batch(messages), count)] == [
            m.payload for m in messages
        ]
    return parts.is_intact, parts.broker is None, chunk is None, is_batch(metadata)


def _shape(data: bytes) -> Hashable:
    shape = read_shape(data, 0, len(data))
    traits = shape.traits
    assert shape.count >= 1
    if traits.fault is None:
        metadata = pb.MessageMetadata.FromString(data)
        assert metadata.IsInitialized()
        assert shape.count == message_count(metadata)
        assert traits.is_batch == is_batch(metadata)
        assert traits.is_marker == metadata.HasField("marker_type")
        return traits.is_batch, traits.is_marker, traits.chunk is None
    return traits.fault.error, re.sub(r"-?\d+", "#", traits.fault.message)[:30]


def _batch(data: bytes) -> Hashable:
    count = int.from_bytes(data[:4], "big")
    messages = split_batch(data[4:], count)
    assert len(messages) == count
    return min(count, 5)


# -- RocketMQ's remoting protocol ---------------------------------------------------------------------


def _remoting_frames(data: bytes) -> Hashable:
    """What is read is written and read again as it was; however many bytes come, few are kept."""
    decoder, kinds = remoting.Decoder(), set()
    for at in range(0, len(data), 4096):
        decoder.feed(data[at : at + 4096])
        while (command := decoder.next()) is not None:
            kinds.add((command.is_binary, bool(command.fields), bool(command.dropped)))
            if command.is_binary or command.code in range(-(2**15), 2**15):
                again = remoting.Decoder()
                again.feed(remoting.encode(command))
                assert again.next() == command._replace(dropped=0)
    assert decoder.size <= remoting.HEADER_SIZE_MAX + remoting.BODY_SIZE_MAX + 8
    return frozenset(kinds)


def _remoting_seeds() -> list[bytes]:
    fields = {"topic": "orders", "queueId": "3", "group": "billing"}
    commands = [
        remoting.Command(105, 1, 0, fields),
        remoting.Command(34, 2, 0, {}, b'{"clientID":"a","consumerDataSet":[]}'),
        remoting.Command(222, 3, 2, fields, b"body", "remark"),
    ]
    frames = [
        remoting.encode(one._replace(is_binary=is_binary))
        for one in commands
        for is_binary in (False, True)
    ]
    loose = b'{"code":11,"extFields":{"a":1,"b":true,"c":null},"language":"COBOL"}'
    plain = struct.pack(">iI", 4 + len(loose), len(loose)) + loose
    return [
        *frames,
        plain,
        b"".join(frames),
        remoting.encode(commands[0]._replace(body=bytes(70_000))),
    ]


TARGETS = (
    Target("remoting_frames", _remoting_frames, _remoting_seeds, (ProtocolError,)),
    Target("server_frames", _server_frames, seeds.client_frames),
    Target("server_handshake", _server_handshake, seeds.handshakes),
    Target("client_frames", _client_frames, seeds.broker_frames),
    Target(
        "commands",
        _command,
        lambda: [encode_command(c) for c in seeds.commands(FROM_CLIENT | FROM_BROKER)],
        (ProtocolError,),
    ),
    Target(
        "acks",
        _acks,
        lambda: [
            encode_command(c)
            for c in seeds.commands(FROM_CLIENT)
            if isinstance(c, pb.CommandAck | pb.CommandFlow)
        ],
        (ProtocolError,),
    ),
    Target(
        "ack_sets",
        _ack_set,
        lambda: [
            size.to_bytes(3, "big") + struct.pack(f">{len(words)}q", *words)
            for size, words in ((5, [28]), (64, [-1]), (70, [-1, 5]), (1000, [3] * 16), (1, []))
        ],
        (InvalidInput,),
    ),
    Target("metadata", _shape, lambda: [data for data, _ in seeds.ENTRIES]),
    Target("entries", _entry, seeds.stored_entries, (ProtocolError,)),
    Target(
        "batches",
        _batch,
        lambda: [n.to_bytes(4, "big") + seeds.batch_payload(n) for n in (1, 2, 5, 70)],
        (ProtocolError,),
    ),
)
