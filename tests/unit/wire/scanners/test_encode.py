"""Each hand-written frame is the one the protobuf library would have written."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.positions import unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import crc32c
from milepost.wire.scanners.encode import (
    MessageEncoder,
    ack_response,
    encode_entry_head,
    send_frame,
    send_receipt,
    send_receipts,
)

KIND = pb.BaseCommand


def framed(entry_size: int = 0, **command: Any) -> bytes:
    data = pb.BaseCommand(**command).SerializeToString()
    return (len(data) + 4 + entry_size).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data


def receipt(
    producer_id: int, sequence_id: int, ledger_id: int, entry_id: int, highest: int
) -> bytes:
    return framed(
        type=KIND.SEND_RECEIPT,
        send_receipt=pb.CommandSendReceipt(
            producer_id=producer_id,
            sequence_id=sequence_id,
            message_id=pb.MessageIdData(
                ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id)
            ),
            highest_sequence_id=highest or None,
        ),
    )


def test_a_receipt_byte_for_byte() -> None:
    expected = "000000120000000e08073a0a080010071a040803100c"
    assert send_receipt(producer_id=0, sequence_id=7, ledger_id=3, entry_id=12).hex() == expected


@pytest.mark.parametrize(
    "numbers",
    [
        (0, 0, 0, 0, 0),
        (300, 100_000, 70_000, 5_000_000, 100_009),
        (5, 7, -1, -1, 0),
        (2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1, 2**63 - 1),
    ],
)
def test_receipts(numbers: tuple[int, int, int, int, int]) -> None:
    assert send_receipt(*numbers) == receipt(*numbers)


def test_many_receipts_in_order_across_ledgers() -> None:
    facts = [(8, 0, 3, 14), (9, 12, 3, 15), (13, 0, 4, 0), (13, 0, -1, -1), (14, 0, 4, 1)]
    joined = b"".join(receipt(2, s, ledger, entry, highest) for s, highest, ledger, entry in facts)
    assert send_receipts(2, facts) == joined
    assert send_receipts(2, []) == b""


@pytest.mark.parametrize(("consumer_id", "request_id"), [(0, 0), (300, 90_000), (5, -1)])
def test_ack_response(consumer_id: int, request_id: int) -> None:
    assert ack_response(consumer_id, request_id) == framed(
        type=KIND.ACK_RESPONSE,
        ackResponse=pb.CommandAckResponse(
            consumer_id=consumer_id, request_id=unsigned64(request_id)
        ),
    )


class TestMessage:
    def test_the_least(self) -> None:
        assert MessageEncoder(1).head(7, 12, entry_size=100) == framed(
            100,
            type=KIND.MESSAGE,
            message=pb.CommandMessage(
                consumer_id=1, message_id=pb.MessageIdData(ledgerId=7, entryId=12)
            ),
        )

    def test_everything(self) -> None:
        block = bytes.fromhex("0e020000000408011002")
        head = MessageEncoder(300, partition=4).head(
            70_000,
            90_000,
            100,
            redelivery_count=3,
            ack_set=(28, -1, 2**62),
            consumer_epoch=9,
            broker_entry=block,
        )
        message = pb.CommandMessage(
            consumer_id=300,
            message_id=pb.MessageIdData(ledgerId=70_000, entryId=90_000, partition=4),
            redelivery_count=3,
            ack_set=[28, -1, 2**62],
            consumer_epoch=9,
        )
        assert head == framed(100 + len(block), type=KIND.MESSAGE, message=message) + block

    def test_an_epoch_of_zero_is_an_epoch(self) -> None:
        head = MessageEncoder(1).head(7, 12, 0, consumer_epoch=0)
        assert pb.BaseCommand.FromString(head[8:]).message.HasField("consumer_epoch")

    def test_ledgers_are_not_mixed_up(self) -> None:
        encoder = MessageEncoder(1)
        heads = [encoder.head(ledger_id, 5, 0) for ledger_id in (7, 8, 7)]
        found = [pb.BaseCommand.FromString(head[8:]).message.message_id.ledgerId for head in heads]
        assert found == [7, 8, 7]

    def test_a_large_ack_set(self) -> None:
        words = tuple(range(-500, 500))
        head = MessageEncoder(1).head(7, 12, 0, ack_set=words)
        assert tuple(pb.BaseCommand.FromString(head[8:]).message.ack_set) == words


class TestSend:
    METADATA = pb.MessageMetadata(
        producer_name="p", sequence_id=7, publish_time=1000
    ).SerializeToString()

    @pytest.mark.parametrize(
        "more",
        [
            {},
            {"num_messages": 5, "highest_sequence_id": 11},
            {"is_chunk": True},
            {"num_messages": 0},
        ],
    )
    def test_the_frame(self, more: dict[str, Any]) -> None:
        payload = b"payload"
        head, same_payload = send_frame(3, 7, self.METADATA, payload, **more)
        assert same_payload is payload, "a payload is not copied"
        entry_head = encode_entry_head(self.METADATA, payload)
        command = pb.CommandSend(producer_id=3, sequence_id=7, **more)
        size = len(entry_head) + len(payload)
        assert head == framed(size, type=KIND.SEND, send=command) + entry_head

    def test_the_entry(self) -> None:
        entry = encode_entry_head(self.METADATA, b"payload") + b"payload"
        assert entry[:2] == b"\x0e\x01"
        assert int.from_bytes(entry[2:6], "big") == crc32c(entry[6:])
        assert entry[6:10] == len(self.METADATA).to_bytes(4, "big")
