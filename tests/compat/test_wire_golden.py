"""The wire against strangers: frames written down by hand, and the official client itself.

The client talks to a listener of a few lines that is nothing but `ServerProtocol` and this package's
encoders. What it sends must be read as it was meant, by the fast readers; what it is sent, it must take.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pulsar
import pytest

from milepost.broker.connection.listener import stop_listening
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.batches import split_batch
from milepost.wire.commands import Kind
from milepost.wire.compression import decompress
from milepost.wire.events import PLAIN, Ack, Command, Fault, Flow, Send, Sends, ServerEvent, WireId
from milepost.wire.frames import Buffer
from milepost.wire.metadata import encode_broker_entry, split_entry, sticky_key
from milepost.wire.protocol import ServerProtocol, State
from milepost.wire.scanners.encode import MessageEncoder, ack_response, send_receipts
from milepost.wire.scanners.send_scan import scan_sends

MAX_MESSAGE_SIZE = 20_000
LEDGER = 7
REFUSED = b"to be refused"

# --- frames written down ------------------------------------------------------------------------

# CONNECT of Pulsar-CPP-v4.2.0: version 20, authentication "none", features 1 and 2
CONNECT = (
    "00000029 00000025 0802 1221 0a11 50756c7361722d4350502d76342e322e30"
    "2014 2a046e6f6e65 5204 0801 1001"
)
# PARTITIONED_METADATA of persistent://public/default/t, request 1
PARTITIONS = (
    "0000002a 00000026 0815 aa0121"
    "0a1d 70657273697374656e743a2f2f7075626c69632f64656661756c742f74 1001"
)
# SEND: producer 0, sequence id 0; then the checksum, and what it covers: metadata of standalone-0
# with sequence id 0 and publish time 1794741333444, payload "hello"
SEND = "00000032 00000008 0806 3204 0800 1000 0e01"
COVERED = "00000017 0a0c7374616e64616c6f6e652d30 1000 18c4dbadf79d34 68656c6c6f"
# FLOW: consumer 0, 1000 permits
FLOW = "0000000d 00000009 080b 5a05 0800 10e807"
# ACK: consumer 0, individual, 7:0 with messages 2, 3 and 4 of five still to be acked, request 5
ACK = "00000016 00000012 080a 520e 0800 1000 1a06 0807 1000 281c 4005"


def slow_checksum(covered: bytes) -> bytes:
    """CRC-32C bit by bit: a second opinion."""
    crc = 0xFFFFFFFF
    for byte in covered:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


def test_frames_written_down() -> None:
    protocol = ServerProtocol(server_version="milepost", max_message_size=MAX_MESSAGE_SIZE)
    [connect] = protocol.receive(bytes.fromhex(CONNECT))
    assert isinstance(connect, Command)
    assert isinstance(connect.message, pb.CommandConnect)
    assert connect.message.auth_method_name == "none"
    protocol.accept()
    assert b"".join(protocol.data_to_send()).hex().startswith("000000240000002008031a1c")

    covered = bytes.fromhex(COVERED)
    checksum = slow_checksum(covered)
    send = bytes.fromhex(SEND) + checksum + covered
    frames = bytes.fromhex(PARTITIONS) + send + bytes.fromhex(FLOW) + bytes.fromhex(ACK)
    partitions, sends, flow, ack = protocol.receive(frames)
    assert isinstance(partitions, Command)
    assert partitions.message == pb.CommandPartitionedTopicMetadata(
        topic="persistent://public/default/t", request_id=1
    )
    entry = b"\x0e\x01" + checksum + covered
    assert sends == Sends(0, [Send(0, 0, 1, 1_794_741_333_444, entry, PLAIN)])
    assert flow == Flow(0, 1000)
    assert ack == Ack(0, False, [WireId(7, 0, ack_set=(28,))], 5)


# --- the official client ------------------------------------------------------------------------


class Listener(asyncio.Protocol):
    """One connection: stores what is produced, delivers it to whoever asks, answers what must be."""

    def __init__(self, stub: Stub) -> None:
        self.stub = stub
        self.protocol = ServerProtocol(server_version="milepost", max_message_size=MAX_MESSAGE_SIZE)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.stub.transports.append(transport)

    def data_received(self, data: bytes) -> None:
        self.stub.data += data
        for event in self.protocol.receive(data):
            self.stub.events.append(event)
            self.handle(event)
        self.transport.writelines(self.protocol.data_to_send())
        if self.protocol.state is State.CLOSED:
            self.transport.close()

    def handle(self, event: ServerEvent) -> None:
        write = self.protocol.write
        match event:
            case Sends(producer_id, [send]) if send.entry.endswith(REFUSED):
                write(replies.send_error(producer_id, send.sequence_id, 9, "as if damaged"))
            case Sends(producer_id, sends):
                first = len(self.stub.sends)
                self.stub.sends += sends
                receipts = [
                    (send.sequence_id, send.highest_sequence_id, LEDGER, first + place)
                    for place, send in enumerate(sends)
                ]
                write(send_receipts(producer_id, receipts))
            case Flow(consumer_id):
                self.deliver(consumer_id)
            case Ack(consumer_id=consumer_id, request_id=int(request_id)):
                write(ack_response(consumer_id, request_id))
            case Command(kind, message):
                self.answer(kind, message)

    def answer(self, kind: int, message: object) -> None:
        write = self.protocol.write
        match message:
            case pb.CommandConnect():
                self.protocol.accept()
            case pb.CommandPartitionedTopicMetadata():
                write(replies.partitions(message.request_id, 0))
            case pb.CommandLookupTopic():
                write(replies.lookup_connect(message.request_id, self.stub.url))
            case pb.CommandProducer():
                name = message.producer_name or "standalone-0-0"
                write(replies.producer_success(message.request_id, name, schema_version=b""))
            case pb.CommandSubscribe() if message.topic.endswith("/forbidden"):
                refused = replies.refusal(Command(kind, message), 4, "not yours")
                assert refused is not None
                write(refused)
            case pb.CommandGetLastMessageId():
                last = replies.message_id_data(LEDGER, len(self.stub.sends) - 1)
                write(replies.last_message_id(message.request_id, last))
            case (
                pb.CommandSubscribe()
                | pb.CommandUnsubscribe()
                | pb.CommandCloseProducer()
                | pb.CommandCloseConsumer()
            ):
                write(replies.success(message.request_id))

    def deliver(self, consumer_id: int) -> None:
        """Everything stored, once a connection, with the broker's own metadata in front."""
        encoder = MessageEncoder(consumer_id)
        index = -1
        for entry_id in range(self.stub.delivered, len(self.stub.sends)):
            send = self.stub.sends[entry_id]
            index += send.count
            block = encode_broker_entry(timestamp=send.publish_time, index=index)
            head = encoder.head(
                LEDGER,
                entry_id,
                len(send.entry),
                ack_set=self.stub.ack_sets.get(entry_id, ()),
                broker_entry=block,
            )
            buffers: list[Buffer] = [head, send.entry]
            self.protocol.writelines(buffers)
        self.stub.delivered = len(self.stub.sends)


class Stub:
    """A listener on a free port, on a loop of its own."""

    def __init__(self) -> None:
        self.data = b""
        self.events: list[ServerEvent] = []
        self.sends: list[Send] = []
        self.ack_sets: dict[int, tuple[int, ...]] = {}
        self.delivered = 0
        self.transports: list[asyncio.Transport] = []
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = self.call(self._start())

    async def _start(self) -> asyncio.Server:
        server = await self._loop.create_server(lambda: Listener(self), "127.0.0.1", 0)
        self.url = f"pulsar://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    def call(self, coroutine):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    async def _stop(self) -> None:
        await stop_listening(self.server)
        for transport in self.transports:
            transport.abort()
        await asyncio.sleep(0)

    def stop(self) -> None:
        self.call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def commands(self, kind: int) -> list[object]:
        return [e.message for e in self.events if isinstance(e, Command) and e.kind == kind]

    def check(self) -> None:
        """Nothing that the client sent was misunderstood."""
        assert not [event for event in self.events if isinstance(event, Fault)]
        assert not [send for send in self.sends if send.traits.fault is not None]


@pytest.fixture
def stub() -> Iterator[Stub]:
    stub = Stub()
    yield stub
    stub.stop()
    stub.check()


@pytest.fixture
def client(stub: Stub) -> Iterator[pulsar.Client]:
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(stub.url, logger=logger, operation_timeout_seconds=10)
    yield client
    client.close()


def sent(stub: Stub) -> list[Send]:
    """All sends, read once more out of the raw bytes by the fast loop alone: none was left to the rest."""
    found: list[ServerEvent] = []
    at = 0
    while at < len(stub.data):
        after = scan_sends(stub.data, at, MAX_MESSAGE_SIZE + 10_240, found)
        at = after if after > at else at + 4 + int.from_bytes(stub.data[at : at + 4], "big")
    return [send for event in found if isinstance(event, Sends) for send in event.sends]


def batching_producer(client: pulsar.Client) -> pulsar.Producer:
    """Sends when told to flush, not before."""
    return client.create_producer("t", batching_enabled=True, batching_max_publish_delay_ms=60_000)


def test_the_handshake(stub: Stub, client: pulsar.Client) -> None:
    client.create_producer("t").close()
    [connect] = stub.commands(Kind.CONNECT)
    assert isinstance(connect, pb.CommandConnect)
    assert connect.client_version.startswith("Pulsar-CPP-v")
    assert connect.feature_flags.supports_broker_entry_metadata


def test_plain_and_keyed_messages(stub: Stub, client: pulsar.Client) -> None:
    producer = client.create_producer("t", batching_enabled=False)
    ids = [producer.send(b"message %d" % number) for number in range(200)]
    producer.send(
        b"keyed", partition_key="k", ordering_key="o", properties={"a": "b"}, event_timestamp=5
    )
    producer.send(b"later", deliver_at=99)
    assert [(i.ledger_id(), i.entry_id()) for i in ids] == [(LEDGER, entry) for entry in range(200)]
    assert sent(stub) == stub.sends
    assert [send.sequence_id for send in stub.sends] == list(range(202))
    assert {send.count for send in stub.sends} == {1}
    parts = [split_entry(send.entry) for send in stub.sends]
    assert all(part.is_intact for part in parts)
    assert parts[150].payload == b"message 150"
    assert [send.publish_time for send in stub.sends] == [p.metadata.publish_time for p in parts]
    assert sticky_key(parts[200].metadata) == b"o"
    assert stub.sends[201].traits.deliver_at_time == 99
    producer.close()


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_batches(stub: Stub, client: pulsar.Client, compression: str) -> None:
    producer = client.create_producer(
        "t",
        batching_enabled=True,
        batching_max_messages=10,
        batching_max_publish_delay_ms=60_000,
        compression_type=getattr(pulsar.CompressionType, compression),
    )
    for number in range(25):
        producer.send_async(b"message %d" % number, lambda *_: None)
    producer.flush()
    assert sent(stub) == stub.sends
    assert [send.count for send in stub.sends] == [10, 10, 5]
    assert all(send.traits.is_batch for send in stub.sends)
    parts = split_entry(stub.sends[2].entry)
    assert parts.is_intact
    head = parts.metadata
    messages = split_batch(decompress(head.compression, parts.payload, head.uncompressed_size), 5)
    assert [m.payload for m in messages] == [b"message %d" % n for n in range(20, 25)]
    assert [m.metadata.sequence_id for m in messages] == [20, 21, 22, 23, 24]
    producer.close()


def test_a_batch_of_one_is_a_batch(stub: Stub, client: pulsar.Client) -> None:
    producer = client.create_producer("t", batching_enabled=True)
    producer.send(b"alone")
    [send] = stub.sends
    assert (send.count, send.traits.is_batch) == (1, True)
    producer.close()


def test_chunks(stub: Stub, client: pulsar.Client) -> None:
    producer = client.create_producer("t", batching_enabled=False, chunking_enabled=True)
    payload = bytes(range(256)) * 200
    producer.send(payload)
    assert sent(stub) == stub.sends
    chunks = [send.traits.chunk for send in stub.sends]
    assert [chunk.chunk_id for chunk in chunks if chunk] == [0, 1, 2]
    assert {(c.uuid, c.num_chunks, c.total_size) for c in chunks if c} == {
        ("standalone-0-0-0", 3, len(payload))
    }
    assert {send.sequence_id for send in stub.sends} == {0}
    assert b"".join(split_entry(send.entry).payload for send in stub.sends) == payload
    producer.close()


@pytest.mark.parametrize("batching", [False, True])
def test_the_client_takes_what_it_is_sent(
    stub: Stub, client: pulsar.Client, batching: bool
) -> None:
    producer = client.create_producer(
        "t", batching_enabled=batching, batching_max_publish_delay_ms=60_000
    )
    for number in range(10):
        producer.send_async(b"message %d" % number, lambda *_: None)
    producer.flush()
    consumer = client.subscribe("t", "s", consumer_type=pulsar.ConsumerType.Shared)
    messages = [consumer.receive(10_000) for _ in range(10)]
    assert [message.data() for message in messages] == [b"message %d" % n for n in range(10)]
    places = [(m.message_id().entry_id(), m.message_id().batch_index()) for m in messages]
    assert places == [(0, n) if batching else (n, -1) for n in range(10)]
    consumer.close()
    producer.close()


def test_the_client_obeys_an_ack_set(stub: Stub, client: pulsar.Client) -> None:
    """PIP-54: what is acked already is not shown again."""
    producer = batching_producer(client)
    for number in range(5):
        producer.send_async(b"message %d" % number, lambda *_: None)
    producer.flush()
    stub.ack_sets[0] = (0b10110,)
    consumer = client.subscribe("t", "s", consumer_type=pulsar.ConsumerType.Shared)
    assert [consumer.receive(10_000).data()[-1:] for _ in range(3)] == [b"1", b"2", b"4"]
    consumer.close()
    producer.close()


def test_acks(stub: Stub, client: pulsar.Client) -> None:
    producer = batching_producer(client)
    for number in range(5):
        producer.send_async(b"message %d" % number, lambda *_: None)
    producer.flush()
    consumer = client.subscribe(
        "t",
        "s",
        consumer_type=pulsar.ConsumerType.Shared,
        batch_index_ack_enabled=True,
    )
    messages = [consumer.receive(10_000) for _ in range(5)]
    for message in messages[:2]:
        consumer.acknowledge(message)
    consumer.close()
    acks = [event for event in stub.events if isinstance(event, Ack)]
    assert acks
    assert not any(ack.is_cumulative for ack in acks)
    words = [one.ack_set for ack in acks for one in ack.ids]
    assert words[-1] == (0b11100,)
    assert {(one.ledger_id, one.entry_id) for ack in acks for one in ack.ids} == {(LEDGER, 0)}
    producer.close()


def test_a_send_error_reaches_the_caller(stub: Stub, client: pulsar.Client) -> None:
    """ChecksumError drops the one message and leaves the connection alone."""
    producer = client.create_producer("t")
    with pytest.raises(pulsar.ChecksumError):
        producer.send(REFUSED)
    assert producer.send(b"next").entry_id() == 0
    assert len(stub.commands(Kind.CONNECT)) == 1
    producer.close()


def test_the_last_message_id(client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    consumer = client.subscribe("t", "s")
    sent_id = producer.send(b"message")
    assert consumer.get_last_message_id() == sent_id
    consumer.close()
    producer.close()


def test_a_refusal_reaches_the_caller(client: pulsar.Client) -> None:
    with pytest.raises(pulsar.AuthorizationError):
        client.subscribe("forbidden", "s")
