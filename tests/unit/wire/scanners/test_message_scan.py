from __future__ import annotations

import pytest

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import encode_command
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners.message_scan import (
    read_message,
    read_receipt,
    scan_message,
    scan_receipt,
)

LAST = 2**64 - 1
ID = pb.MessageIdData(ledgerId=700, entryId=900)
ENTRY = b"entry"


def scanned(message: pb.CommandMessage) -> Delivery | None:
    data = encode_command(message)
    return scan_message(b"<" + data + ENTRY + b">", 1, 1 + len(data), 1 + len(data) + len(ENTRY))


@pytest.mark.parametrize(
    ("message", "delivery"),
    [
        (
            pb.CommandMessage(consumer_id=0, message_id=ID),
            Delivery(0, 700, 900, -1, 0, (), -1, ENTRY),
        ),
        (
            pb.CommandMessage(
                consumer_id=300,
                message_id=pb.MessageIdData(ledgerId=1, entryId=2, partition=3),
                redelivery_count=200,
                ack_set=[28, -1],
                consumer_epoch=5,
            ),
            Delivery(300, 1, 2, 3, 200, (28, -1), 5, ENTRY),
        ),
        (
            # A broker may spell out that a topic is not partitioned, and that there is no epoch.
            pb.CommandMessage(
                consumer_id=0,
                message_id=pb.MessageIdData(ledgerId=1, entryId=2, partition=-1),
                consumer_epoch=LAST,
            ),
            Delivery(0, 1, 2, -1, 0, (), -1, ENTRY),
        ),
    ],
)
def test_messages_as_brokers_write_them(message: pb.CommandMessage, delivery: Delivery) -> None:
    assert scanned(message) == delivery
    assert read_message(message, ENTRY) == delivery


def test_a_rare_id_is_left_to_the_library() -> None:
    message = pb.CommandMessage(
        consumer_id=0, message_id=pb.MessageIdData(ledgerId=1, entryId=2, batch_index=4)
    )
    assert scanned(message) is None
    assert read_message(message, ENTRY) == Delivery(0, 1, 2, -1, 0, (), -1, ENTRY)


def test_no_cut_message_is_taken_for_a_whole() -> None:
    data = encode_command(
        pb.CommandMessage(consumer_id=1, message_id=ID, redelivery_count=200, ack_set=[-1])
    )
    for cut in range(len(data)):
        assert scan_message(data[:cut], 0, cut, cut) is None
        assert scan_message(data, 0, cut, len(data)) is None


@pytest.mark.parametrize(
    ("command", "receipt"),
    [
        (
            pb.CommandSendReceipt(producer_id=0, sequence_id=7, message_id=ID),
            Receipt(0, 7, 0, 700, 900),
        ),
        (
            pb.CommandSendReceipt(
                producer_id=300, sequence_id=900, message_id=ID, highest_sequence_id=999
            ),
            Receipt(300, 900, 999, 700, 900),
        ),
        (
            # A duplicate.
            pb.CommandSendReceipt(
                producer_id=0,
                sequence_id=7,
                message_id=pb.MessageIdData(ledgerId=LAST, entryId=LAST),
            ),
            Receipt(0, 7, 0, -1, -1),
        ),
    ],
)
def test_receipts_as_brokers_write_them(command: pb.CommandSendReceipt, receipt: Receipt) -> None:
    data = encode_command(command)
    assert scan_receipt(b"<" + data + b">", 1, 1 + len(data)) == receipt
    assert read_receipt(command) == receipt


def test_rare_receipts_are_left_to_the_library() -> None:
    bare = pb.CommandSendReceipt(producer_id=0, sequence_id=7)
    partitioned = pb.CommandSendReceipt(
        producer_id=0,
        sequence_id=7,
        message_id=pb.MessageIdData(ledgerId=1, entryId=2, partition=3),
    )
    for command in (bare, partitioned):
        data = encode_command(command)
        assert scan_receipt(data, 0, len(data)) is None
    assert read_receipt(bare) == Receipt(0, 7, 0, -1, -1)
    assert read_receipt(partitioned) == Receipt(0, 7, 0, 1, 2)


def test_no_cut_receipt_is_taken_for_a_whole() -> None:
    data = encode_command(
        pb.CommandSendReceipt(
            producer_id=1, sequence_id=900, message_id=ID, highest_sequence_id=999
        )
    )
    for cut in range(len(data)):
        assert scan_receipt(data[:cut], 0, cut) is None
        assert scan_receipt(data, 0, cut) is None
