"""Scanners against the protobuf library.

For bytes as clients write them, and for the same bytes damaged: whatever a scanner takes, the library
reads the same. What a scanner leaves alone is no loss, for the library reads it then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError, Message
from hypothesis import event, example, given
from hypothesis import strategies as st

from milepost.positions import unsigned64
from milepost.testing.strategies import int32s, int64s
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind, encode_command
from milepost.wire.events import Sends, ServerEvent
from milepost.wire.frames import HEADER_SIZE, entry_frame
from milepost.wire.scanners.ack_scan import read_ack, read_flow, scan_ack, scan_flow
from milepost.wire.scanners.encode import encode_entry_head
from milepost.wire.scanners.message_scan import (
    read_message,
    read_receipt,
    scan_message,
    scan_receipt,
)
from milepost.wire.scanners.send_scan import read_send, scan_sends
from milepost.wire.scanners.shape import Shape, _judge, _parse, read_rest_shape, read_shape
from milepost.wire.scanners.transaction_scan import SIZE_MAX, read_transaction, scan_transaction

UINT64 = int64s().map(unsigned64)
ACK_SETS = st.lists(int64s(), max_size=3)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


MESSAGE_IDS = st.builds(
    pb.MessageIdData,
    ledgerId=UINT64,
    entryId=UINT64,
    partition=maybe(int32s()),
    batch_index=maybe(int32s()),
    ack_set=ACK_SETS,
    batch_size=maybe(int32s()),
)
POSITIONS = st.builds(pb.MessageIdData, ledgerId=UINT64, entryId=UINT64)
PARTITION_IDS = st.builds(
    pb.MessageIdData, ledgerId=UINT64, entryId=UINT64, partition=maybe(int32s())
)
CHUNK_IDS = st.builds(
    pb.MessageIdData, ledgerId=UINT64, entryId=UINT64, first_chunk_message_id=MESSAGE_IDS
)
ACKS = st.builds(
    pb.CommandAck,
    consumer_id=UINT64,
    ack_type=st.sampled_from([0, 1]),
    message_id=st.lists(POSITIONS | MESSAGE_IDS, max_size=4) | st.lists(CHUNK_IDS, max_size=2),
    validation_error=maybe(st.integers(0, 4)),
    txnid_least_bits=st.sampled_from([None, None, 0]) | UINT64,
    txnid_most_bits=st.sampled_from([None, None, 0]) | UINT64,
    request_id=maybe(UINT64),
)
FLOWS = st.builds(pb.CommandFlow, consumer_id=UINT64, messagePermits=st.integers(0, 2**32 - 1))
MESSAGES = st.builds(
    pb.CommandMessage,
    consumer_id=UINT64,
    message_id=PARTITION_IDS | PARTITION_IDS | MESSAGE_IDS,
    redelivery_count=maybe(st.integers(0, 2**32 - 1)),
    ack_set=ACK_SETS,
    consumer_epoch=maybe(UINT64),
)
RECEIPTS = st.builds(
    pb.CommandSendReceipt,
    producer_id=UINT64,
    sequence_id=UINT64,
    message_id=POSITIONS | POSITIONS | maybe(MESSAGE_IDS),
    highest_sequence_id=maybe(UINT64),
)


TXN_IDS = {"request_id": UINT64, "txnid_least_bits": UINT64, "txnid_most_bits": UINT64}
TRANSACTIONS: st.SearchStrategy[Any] = st.one_of(
    st.builds(pb.CommandNewTxn, request_id=UINT64, txn_ttl_millis=UINT64, tc_id=UINT64),
    st.builds(
        pb.CommandAddPartitionToTxn,
        **TXN_IDS,
        partitions=st.lists(st.text(max_size=200), max_size=6),
    ),
    st.builds(
        pb.CommandAddSubscriptionToTxn,
        **TXN_IDS,
        subscription=st.lists(
            st.builds(pb.Subscription, topic=st.text(max_size=200), subscription=st.text()),
            max_size=3,
        ),
    ),
    st.builds(pb.CommandEndTxn, **TXN_IDS, txn_action=st.sampled_from([pb.COMMIT, pb.ABORT])),
)
TRANSACTION_FIELDS = {
    Kind.NEW_TXN: "newTxn",
    Kind.ADD_PARTITION_TO_TXN: "addPartitionToTxn",
    Kind.ADD_SUBSCRIPTION_TO_TXN: "addSubscriptionToTxn",
    Kind.END_TXN: "endTxn",
}


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Bytes of the strategy, some of them changed, cut out or put in; often left as they are."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        if draw(st.booleans()):
            data[at : at + 1] = bytes(
                [draw(st.sampled_from([0, 1, 8, 16, 127, 128, 255]) | st.integers(0, 255))]
            )
        else:
            data[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(data)


def commands(messages: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return damaged(messages.map(encode_command))


def same_as_library(
    data: bytes, scan: Callable[[bytes, int, int], Any], read: Callable[[Any], Any], name: str
) -> None:
    # Something before and behind, so that a scanner that strays finds bytes to be misled by.
    scanned = scan(b"\x08" + data + b"\x08\x01", 1, 1 + len(data))
    try:
        base = pb.BaseCommand.FromString(data)
    except DecodeError:
        assert scanned is None, "taken, though it is no protobuf"
        return
    event("scanned" if scanned is not None else "left alone")
    if scanned is not None:
        message: Message = getattr(base, name)
        assert base.HasField("type")
        assert message.IsInitialized()
        assert scanned == read(message)


@given(ACKS.map(encode_command))
def test_acks_are_taken(data: bytes) -> None:
    same_as_library(data, scan_ack, read_ack, "ack")


@given(commands(ACKS))
@example(b"\x08\x0a\x52\x08\x08\x01\x10\x00\x1a\x02\x08\x01")
def test_damaged_acks(data: bytes) -> None:
    same_as_library(data, scan_ack, read_ack, "ack")


@given(commands(FLOWS))
def test_flows(data: bytes) -> None:
    same_as_library(data, scan_flow, read_flow, "flow")


@given(commands(TRANSACTIONS))
def test_commands_of_transactions(data: bytes) -> None:
    scanned = scan_transaction(data, 0, len(data))
    # Damage may make one of another.
    kind = Kind.NEW_TXN if scanned is None else scanned.kind
    same_as_library(data, scan_transaction, read_transaction, TRANSACTION_FIELDS[kind])


@given(TRANSACTIONS)
def test_usual_commands_of_transactions_are_taken(command: Message) -> None:
    data = encode_command(command)
    scanned = scan_transaction(data, 0, len(data))
    assert (scanned is not None) == (len(data) <= SIZE_MAX)
    assert scanned in (None, read_transaction(command))


@given(commands(RECEIPTS))
def test_receipts(data: bytes) -> None:
    same_as_library(data, scan_receipt, read_receipt, "send_receipt")


@given(commands(MESSAGES), st.binary(max_size=5))
def test_messages(data: bytes, entry: bytes) -> None:
    def scan(padded: bytes, at: int, end: int) -> Any:
        return scan_message(padded[:end] + entry + b"\x08", at, end, end + len(entry))

    same_as_library(data, scan, lambda message: read_message(message, entry), "message")


# --- entries ------------------------------------------------------------------------------------

SMALL = st.integers(-1, 5)
PROPERTIES = st.builds(pb.KeyValue, key=st.text(max_size=3), value=st.text(max_size=3))
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "properties": st.lists(PROPERTIES, max_size=2),
    "partition_key": maybe(st.text(max_size=5)),
    "compression": maybe(st.integers(0, 4)),
    "uncompressed_size": maybe(st.integers(0, 2**32 - 1)),
    "num_messages_in_batch": maybe(SMALL | int32s()),
    "event_time": maybe(UINT64),
    "encryption_keys": st.lists(
        st.builds(pb.EncryptionKeys, key=st.text(max_size=2), value=st.binary(max_size=2)),
        max_size=1,
    ),
    "schema_version": maybe(st.binary(max_size=8)),
    "partition_key_b64_encoded": maybe(st.booleans()),
    "ordering_key": maybe(st.binary(max_size=3)),
    "deliver_at_time": maybe(int64s()),
    "marker_type": maybe(int32s()),
    "txnid_least_bits": maybe(st.sampled_from([0, 1]) | UINT64),
    "txnid_most_bits": maybe(st.sampled_from([0, 1]) | UINT64),
    "highest_sequence_id": maybe(UINT64),
    "null_value": maybe(st.booleans()),
    "uuid": maybe(st.text(max_size=3)),
    "num_chunks_from_msg": maybe(SMALL | int32s()),
    "total_chunk_msg_size": maybe(SMALL | int32s()),
    "chunk_id": maybe(SMALL | int32s()),
    "compacted_batch_indexes": st.lists(int32s(), max_size=2),
}
# Mostly few of them at once, so that some are valid together.
METADATA = st.lists(st.sampled_from(sorted(FIELDS)), max_size=4, unique=True).flatmap(
    lambda names: st.builds(
        pb.MessageMetadata,
        producer_name=st.text(max_size=5),
        sequence_id=st.integers(0, 300) | UINT64,
        publish_time=st.integers(2**40, 2**40 + 3) | UINT64,
        **{name: FIELDS[name] for name in names},
    )
)


def by_library(data: bytes) -> Shape:
    return _judge(_parse(data, 0, len(data)))


@given(METADATA.map(lambda metadata: metadata.SerializeToString()))
def test_shapes(data: bytes) -> None:
    shape = read_shape(b"\x58" + data + b"\x05\x58\x05", 1, 1 + len(data))
    assert shape[:5] == by_library(data)[:5]


@given(damaged(METADATA.map(lambda metadata: metadata.SerializeToString())))
@example(b"")
# Behind the producer's name a number under the same field number: another field, not a second name.
@example(bytes.fromhex("0a01781000188080010800"))
def test_damaged_shapes(data: bytes) -> None:
    shape = read_shape(b"\x58" + data + b"\x05\x58\x05", 1, 1 + len(data))
    try:
        metadata = pb.MessageMetadata.FromString(data)
    except DecodeError:
        assert shape.traits.fault is not None
        return
    if metadata.HasField("compression") or b"\x40" not in data:
        assert shape[:5] == by_library(data)[:5]


@given(METADATA, st.binary(max_size=10))
def test_the_rest_of_metadata_tells_the_same(metadata: pb.MessageMetadata, payload: bytes) -> None:
    whole = metadata.SerializeToString()
    rest = pb.MessageMetadata()
    rest.CopyFrom(metadata)
    for field in ("producer_name", "sequence_id", "publish_time"):
        rest.ClearField(field)  # type: ignore[arg-type]
    data = rest.SerializePartialToString()
    shape = read_rest_shape(data, 0, len(data))
    expected = read_shape(whole, 0, len(whole))
    if shape is None:
        assert metadata.encryption_keys
    elif 0 <= metadata.publish_time < 2**63:
        assert (shape.count, shape.traits) == (expected.count, expected.traits)


@st.composite
def send_frames(draw: st.DrawFn) -> bytes:
    metadata = draw(METADATA)
    usual = draw(st.booleans())
    if usual:
        metadata.publish_time = draw(st.integers(2**40, 2**40 + 3))
        metadata.sequence_id = draw(st.integers(0, 300) | st.integers(0, 2**63 - 1))
    sequence_id = metadata.sequence_id
    # Mostly of the transaction that the metadata names, or of none.
    named: dict[str, int | None] = {}
    for field in ("txnid_least_bits", "txnid_most_bits"):
        told = getattr(metadata, field) if metadata.HasField(field) else None  # type: ignore[arg-type]
        named[field] = told if usual else draw(st.just(told) | maybe(st.integers(0, 1)))
    send = pb.CommandSend(
        producer_id=draw(st.integers(0, 130)),
        sequence_id=sequence_id if usual else draw(UINT64),
        num_messages=draw(maybe(int32s())),
        **named,
        highest_sequence_id=draw(maybe(st.just(min(sequence_id + 9, 2**64 - 1)) | UINT64)),
        is_chunk=draw(maybe(st.booleans())),
        marker=draw(maybe(st.booleans())),
    )
    command = draw(damaged(st.just(encode_command(send))))
    data = draw(damaged(st.just(metadata.SerializeToString())))
    payload = draw(st.binary(max_size=40))
    entry = encode_entry_head(data, payload) + payload
    if not usual:
        entry = draw(damaged(st.just(entry)))
    return entry_frame(command, len(entry)) + entry


@given(send_frames(), st.binary(max_size=3))
def test_sends(frame: bytes, behind: bytes) -> None:
    events: list[ServerEvent] = []
    at = scan_sends(frame + behind, 0, 2**31, events)
    event("scanned" if at else "left alone")
    if at == 0:
        assert events == []
        return
    assert at == len(frame)
    entry_at = HEADER_SIZE + int.from_bytes(frame[4:8], "big")
    base = pb.BaseCommand.FromString(frame[HEADER_SIZE:entry_at])
    assert base.type == pb.BaseCommand.SEND
    assert base.IsInitialized()
    expected = read_send(base.send, frame, entry_at, len(frame))
    assert events == [Sends(base.send.producer_id, [expected])]
    assert expected.traits.fault is None
