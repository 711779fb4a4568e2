"""Reads MESSAGE and SEND_RECEIPT, for clients.

Each scanner returns None for bytes it does not take; `read_message` and `read_receipt` then do the
same from what the protobuf library has read. A message inside a MESSAGE frame is not looked into:
`metadata.split_entry` does that for who receives it.

    >>> scan_receipt(bytes.fromhex("08073a0a080010071a040803100c"), 0, 14)
    Receipt(producer_id=0, sequence_id=7, highest_sequence_id=0, ledger_id=3, entry_id=12)
"""

from __future__ import annotations

from typing import Final

from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners.ack_scan import command_fields
from milepost.wire.scanners.varint import read_rest, signed32

# Tags: field number << 3 | wire type.
_MESSAGE: Final = 9 << 3 | 2
_RECEIPT: Final = 7 << 3 | 2
_FIRST: Final = 1 << 3
_SECOND: Final = 2 << 3
_MESSAGE_ID: Final = 2 << 3 | 2
_REDELIVERY_COUNT: Final = 3 << 3
_ACK_SET: Final = 4 << 3
_CONSUMER_EPOCH: Final = 5 << 3
_RECEIPT_ID: Final = 3 << 3 | 2
_HIGHEST_SEQUENCE_ID: Final = 4 << 3
_PARTITION: Final = 3 << 3


def scan_message(data: bytes, at: int, command_end: int, end: int) -> Delivery | None:
    """The MESSAGE whose BaseCommand is `data[at:command_end]` and whose entry ends at `end`."""
    try:
        at = command_fields(data, at, command_end, _MESSAGE)
        if at < 0 or data[at] != _FIRST:
            return None
        consumer_id = data[at + 1]
        at += 2
        if consumer_id > 127:
            consumer_id, at = read_rest(data, at, consumer_id)
        if data[at] != _MESSAGE_ID:
            return None
        id_end = at + 2 + data[at + 1]
        if data[at + 1] > 127 or data[at + 2] != _FIRST:
            return None
        ledger_id = data[at + 3]
        at += 4
        if ledger_id > 127:
            ledger_id, at = read_rest(data, at, ledger_id)
        if data[at] != _SECOND:
            return None
        entry_id = data[at + 1]
        at += 2
        if entry_id > 127:
            entry_id, at = read_rest(data, at, entry_id)
        partition = -1
        if at < id_end and data[at] == _PARTITION:
            partition = data[at + 1]
            at += 2
            if partition > 127:
                partition, at = read_rest(data, at, partition)
                partition = signed32(partition)
        if at != id_end:
            return None
        redelivery_count = 0
        consumer_epoch = -1
        words: list[int] = []
        while at < command_end:
            tag = data[at]
            value = data[at + 1]
            at += 2
            if value > 127:
                value, at = read_rest(data, at, value)
            if tag == _REDELIVERY_COUNT:
                redelivery_count = value & 0xFFFF_FFFF
            elif tag == _ACK_SET:
                words.append(signed64(value))
            elif tag == _CONSUMER_EPOCH:
                consumer_epoch = signed64(value)
            else:
                return None
    except IndexError:
        return None
    if at != command_end:
        return None
    return Delivery(
        signed64(consumer_id),
        signed64(ledger_id),
        signed64(entry_id),
        partition,
        redelivery_count,
        tuple(words),
        consumer_epoch,
        data[command_end:end],
    )


def scan_receipt(data: bytes, at: int, end: int) -> Receipt | None:
    """The SEND_RECEIPT in the BaseCommand `data[at:end]`."""
    try:
        at = command_fields(data, at, end, _RECEIPT)
        if at < 0 or data[at] != _FIRST:
            return None
        producer_id = data[at + 1]
        at += 2
        if producer_id > 127:
            producer_id, at = read_rest(data, at, producer_id)
        if data[at] != _SECOND:
            return None
        sequence_id = data[at + 1]
        at += 2
        if sequence_id > 127:
            sequence_id, at = read_rest(data, at, sequence_id)
        if data[at] != _RECEIPT_ID or data[at + 2] != _FIRST:
            return None
        id_end = at + 2 + data[at + 1]
        ledger_id = data[at + 3]
        at += 4
        if ledger_id > 127:
            ledger_id, at = read_rest(data, at, ledger_id)
        if data[at] != _SECOND:
            return None
        entry_id = data[at + 1]
        at += 2
        if entry_id > 127:
            entry_id, at = read_rest(data, at, entry_id)
        if at != id_end:
            return None
        highest_sequence_id = 0
        if at < end and data[at] == _HIGHEST_SEQUENCE_ID:
            highest_sequence_id = data[at + 1]
            at += 2
            if highest_sequence_id > 127:
                highest_sequence_id, at = read_rest(data, at, highest_sequence_id)
    except IndexError:
        return None
    if at != end:
        return None
    return Receipt(
        signed64(producer_id),
        signed64(sequence_id),
        signed64(highest_sequence_id),
        signed64(ledger_id),
        signed64(entry_id),
    )


def read_message(command: pb.CommandMessage, entry: bytes) -> Delivery:
    message_id = command.message_id
    return Delivery(
        signed64(command.consumer_id),
        signed64(message_id.ledgerId),
        signed64(message_id.entryId),
        message_id.partition,
        command.redelivery_count,
        tuple(command.ack_set),
        signed64(command.consumer_epoch) if command.HasField("consumer_epoch") else -1,
        entry,
        command.stored_entries,
    )


def read_receipt(command: pb.CommandSendReceipt) -> Receipt:
    ledger_id = entry_id = -1
    if command.HasField("message_id"):
        ledger_id = signed64(command.message_id.ledgerId)
        entry_id = signed64(command.message_id.entryId)
    return Receipt(
        signed64(command.producer_id),
        signed64(command.sequence_id),
        signed64(command.highest_sequence_id),
        ledger_id,
        entry_id,
    )
