"""Hand-written encoders against the protobuf library: the same bytes, for any numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.positions import TxnId, unsigned64
from milepost.testing.strategies import int32s, int64s
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import decode_command, encode_command
from milepost.wire.frames import crc32c
from milepost.wire.metadata import BrokerEntry, encode_broker_entry, split_broker_entry, split_entry
from milepost.wire.scanners.encode import (
    MessageEncoder,
    ack_response,
    block_receipts,
    send_frame,
    send_receipts,
    success,
)
from milepost.wire.scanners.varint import encode_varint, read_varint

KIND = pb.BaseCommand
UINT32 = st.integers(0, 2**32 - 1) | st.integers(0, 300)


def framed(command: pb.BaseCommand, behind: bytes = b"") -> bytes:
    data = command.SerializeToString()
    total = 4 + len(data) + len(behind)
    return total.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + behind


@given(int64s())
def test_varints(value: int) -> None:
    flow = pb.CommandUnsubscribe(consumer_id=unsigned64(value))
    encoded = encode_varint(value)
    assert b"\x08" + encoded == flow.SerializePartialToString()
    assert read_varint(b"\xff" + encoded + b"\xff", 1) == (unsigned64(value), 1 + len(encoded))


@given(int64s(), st.lists(st.tuples(int64s(), int64s(), int64s(), int64s()), max_size=5))
def test_receipts(producer_id: int, receipts: list[tuple[int, int, int, int]]) -> None:
    library = [
        pb.BaseCommand(
            type=KIND.SEND_RECEIPT,
            send_receipt=pb.CommandSendReceipt(
                producer_id=unsigned64(producer_id),
                sequence_id=unsigned64(sequence_id),
                message_id=pb.MessageIdData(
                    ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id)
                ),
                highest_sequence_id=unsigned64(highest) if highest else None,
            ),
        )
        for sequence_id, highest, ledger_id, entry_id in receipts
    ]
    assert send_receipts(producer_id, receipts) == b"".join(map(framed, library))


@given(
    int64s(),
    int64s(),
    st.integers(0, 2**62) | st.integers(0, 300),
    st.integers(0, 2**62) | st.integers(0, 300),
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from((0, 0, 0, 7))), max_size=300),
)
def test_receipts_of_a_block_are_each_of_them(
    producer_id: int,
    ledger_id: int,
    first_entry_id: int,
    sequence_id: int,
    steps: list[tuple[int, int]],
) -> None:
    sequence_ids: list[tuple[int, int]] = []
    for step, more in steps:
        sequence_id += step
        sequence_ids.append((sequence_id, sequence_id + more if more else 0))
    receipts = [
        (sequence_id, highest, ledger_id, entry_id)
        for entry_id, (sequence_id, highest) in enumerate(sequence_ids, first_entry_id)
    ]
    found = block_receipts(producer_id, ledger_id, first_entry_id, sequence_ids)
    assert found == send_receipts(producer_id, receipts)


@given(int64s())
def test_successes(request_id: int) -> None:
    library = pb.BaseCommand(
        type=KIND.SUCCESS, success=pb.CommandSuccess(request_id=unsigned64(request_id))
    )
    assert success(request_id) == framed(library)


@given(int64s(), int64s())
def test_ack_responses(consumer_id: int, request_id: int) -> None:
    response = pb.CommandAckResponse(
        consumer_id=unsigned64(consumer_id), request_id=unsigned64(request_id)
    )
    library = pb.BaseCommand(type=KIND.ACK_RESPONSE, ackResponse=response)
    assert ack_response(consumer_id, request_id) == framed(library)


@given(
    consumer_id=int64s(),
    partition=int32s(),
    positions=st.lists(st.tuples(int64s(), int64s()), min_size=1, max_size=3),
    redelivery_count=UINT32,
    ack_set=st.lists(int64s(), max_size=4),
    consumer_epoch=int64s(),
    block=st.binary(max_size=20),
    entry=st.binary(max_size=20),
)
def test_messages(
    consumer_id: int,
    partition: int,
    positions: list[tuple[int, int]],
    redelivery_count: int,
    ack_set: list[int],
    consumer_epoch: int,
    block: bytes,
    entry: bytes,
) -> None:
    encoder = MessageEncoder(consumer_id, partition)
    for ledger_id, entry_id in positions:
        head = encoder.head(
            ledger_id, entry_id, len(entry), redelivery_count, ack_set, consumer_epoch, block
        )
        message = pb.CommandMessage(
            consumer_id=unsigned64(consumer_id),
            message_id=pb.MessageIdData(
                ledgerId=unsigned64(ledger_id),
                entryId=unsigned64(entry_id),
                partition=None if partition == -1 else partition,
            ),
            redelivery_count=redelivery_count or None,
            ack_set=ack_set,
            consumer_epoch=None if consumer_epoch == -1 else unsigned64(consumer_epoch),
        )
        library = pb.BaseCommand(type=KIND.MESSAGE, message=message)
        assert head + entry == framed(library, block + entry)


@given(
    producer_id=int64s(),
    sequence_id=int64s(),
    metadata=st.binary(max_size=50),
    payload=st.binary(max_size=50),
    num_messages=st.integers(0, 2**31 - 1),
    highest=int64s(),
    is_chunk=st.booleans(),
    txn_id=st.none() | st.builds(TxnId, int64s(), int64s()),
)
def test_sends(
    producer_id: int,
    sequence_id: int,
    metadata: bytes,
    payload: bytes,
    num_messages: int,
    highest: int,
    is_chunk: bool,
    txn_id: TxnId | None,
) -> None:
    frame = send_frame(
        producer_id,
        sequence_id,
        metadata,
        payload,
        num_messages=num_messages,
        highest_sequence_id=highest,
        is_chunk=is_chunk,
        txn_id=txn_id,
    )
    covered = len(metadata).to_bytes(4, "big") + metadata + payload
    send = pb.CommandSend(
        producer_id=unsigned64(producer_id),
        sequence_id=unsigned64(sequence_id),
        num_messages=None if num_messages == 1 else num_messages,
        highest_sequence_id=unsigned64(highest) if highest else None,
        is_chunk=is_chunk or None,
    )
    if txn_id is not None:
        send.txnid_least_bits = unsigned64(txn_id.least)
        send.txnid_most_bits = unsigned64(txn_id.most)
    entry = b"\x0e\x01" + crc32c(covered).to_bytes(4, "big") + covered
    library = framed(pb.BaseCommand(type=KIND.SEND, send=send), entry)
    assert b"".join(frame) == library


@given(int64s(), int64s(), st.binary(max_size=20))
def test_the_brokers_block(timestamp: int, index: int, payload: bytes) -> None:
    block = encode_broker_entry(timestamp, index)
    assert split_broker_entry(block + payload) == (BrokerEntry(timestamp, index), len(block))
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=2)
    head, _ = send_frame(0, 0, metadata.SerializeToString(), payload)
    entry = head[head.index(b"\x0e\x01") :] + payload
    parts = split_entry(block + entry)
    assert parts.broker == BrokerEntry(timestamp, index)
    assert (parts.metadata, parts.payload, parts.is_intact) == (metadata, payload, True)


@given(st.integers(0, 2**32), st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3))
def test_any_command_is_written_as_the_library_writes_it(
    request_id: int, namespace: str, topics: list[str]
) -> None:
    response = pb.CommandGetTopicsOfNamespaceResponse(
        request_id=request_id, topics=topics, topics_hash=namespace
    )
    library = pb.BaseCommand(
        type=KIND.GET_TOPICS_OF_NAMESPACE_RESPONSE, getTopicsOfNamespaceResponse=response
    )
    data = encode_command(response)
    assert data == library.SerializeToString()
    assert decode_command(data).message == response


@given(
    int64s(),
    int32s(),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
    st.lists(
        st.tuples(
            st.integers(1, 300), st.sampled_from((0, 0, 1)), st.sampled_from((0, 5, 4096, 4097))
        ),
        max_size=300,
    ),
    int64s(),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_a_run_of_messages_is_each_of_them(
    consumer_id: int,
    partition: int,
    ledger_id: int,
    first_entry_id: int,
    steps: list[tuple[int, int, int]],
    consumer_epoch: int,
    redelivery_count: int,
    shows_index: bool,
) -> None:
    entries: list[tuple[int, int, int, bytes]] = []
    last_index, time_ms = first_entry_id, 1_700_000_000_000
    for entry_id, (count, passed_ms, size) in enumerate(steps, first_entry_id):
        last_index += count
        time_ms += passed_ms
        entries.append((entry_id, last_index, time_ms, bytes([size & 255]) * size))
    one_by_one = MessageEncoder(consumer_id, partition)
    expected = b""
    for entry_id, last_index, time_ms, entry in entries:
        broker_entry = encode_broker_entry(time_ms, last_index) if shows_index else b""
        expected += one_by_one.head(
            ledger_id,
            entry_id,
            len(entry),
            redelivery_count,
            consumer_epoch=consumer_epoch,
            broker_entry=broker_entry,
        )
        expected += entry
    run = MessageEncoder(consumer_id, partition).run(
        ledger_id, entries, consumer_epoch, redelivery_count, shows_index=shows_index
    )
    assert b"".join(run) == expected
