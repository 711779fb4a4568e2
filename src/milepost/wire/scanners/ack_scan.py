"""Reads ACK and FLOW commands.

Grouped acks bring thousands of ids in one command, so what is read here is bounded by the ids, not by
the objects a library would make of them. Each function returns None for bytes it does not take (fields
in another order, a chunk's id, an unknown field, plain nonsense): the caller then asks the protobuf
library through `read_ack`, and the answer is the same. A property test holds them together.

    >>> scan_flow(bytes.fromhex("080b5a05080110e807"), 0, 9)
    Flow(consumer_id=1, permits=1000)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from google.protobuf.message import DecodeError

from milepost.positions import TxnId, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Ack, Flow, WireId
from milepost.wire.scanners.varint import read_rest, signed32

_INT64_MAX: Final = (1 << 63) - 1

# Tags: field number << 3 | wire type.
_TYPE: Final = 1 << 3
_ACK: Final = 10 << 3 | 2
_FLOW: Final = 11 << 3 | 2

_CONSUMER_ID: Final = 1 << 3
_ACK_TYPE: Final = 2 << 3
_PERMITS: Final = 2 << 3
_MESSAGE_ID: Final = 3 << 3 | 2
_VALIDATION_ERROR: Final = 4 << 3
_TXNID_LEAST_BITS: Final = 6 << 3
_TXNID_MOST_BITS: Final = 7 << 3
_REQUEST_ID: Final = 8 << 3

_LEDGER_ID: Final = 1 << 3
_ENTRY_ID: Final = 2 << 3
_PARTITION: Final = 3 << 3
_BATCH_INDEX: Final = 4 << 3
_ACK_SET: Final = 5 << 3
_BATCH_SIZE: Final = 6 << 3

# An id of more bytes has a large ack set, whose words the library reads ten times as fast.
_LIBRARY_SIZE_MIN: Final = 256

# Skips the argument handling of a named tuple's constructor, which is half of its time.
_new_id = cast("Callable[[type[WireId], tuple[object, ...]], WireId]", tuple.__new__)
_new_ack = cast("Callable[[type[Ack], tuple[object, ...]], Ack]", tuple.__new__)


def scan_ack(data: bytes, at: int, end: int) -> Ack | None:
    """The ACK in the BaseCommand `data[at:end]`."""
    try:
        at = command_fields(data, at, end, _ACK)
        if at < 0 or data[at] != _CONSUMER_ID:
            return None
        consumer_id = data[at + 1]
        at += 2
        if consumer_id > 127:
            consumer_id, at = read_rest(data, at, consumer_id)
            consumer_id = signed64(consumer_id)
        ack_type = data[at + 1]
        if data[at] != _ACK_TYPE or ack_type > 1:
            return None
        ids: list[WireId] = []
        at = _scan_ids(data, at + 2, end, ids)
        request_id: int | None = None
        if at < end and data[at] == _REQUEST_ID:
            request_id = data[at + 1]
            at += 2
            if request_id > 127:
                request_id, at = read_rest(data, at, request_id)
                request_id = signed64(request_id)
        if at == end:  # most are
            return _new_ack(
                Ack, (consumer_id, ack_type == 1, ids, request_id, None, None, False, None, False)
            )
        return _scan_rest(data, at, end, Ack(consumer_id, ack_type == 1, ids, request_id))
    except IndexError:
        return None


def scan_flow(data: bytes, at: int, end: int) -> Flow | None:
    """The FLOW in the BaseCommand `data[at:end]`."""
    try:
        at = command_fields(data, at, end, _FLOW)
        if at < 0 or data[at] != _CONSUMER_ID:
            return None
        consumer_id = data[at + 1]
        at += 2
        if consumer_id > 127:
            consumer_id, at = read_rest(data, at, consumer_id)
        if data[at] != _PERMITS:
            return None
        permits = data[at + 1]
        at += 2
        if permits > 127:
            permits, at = read_rest(data, at, permits)
    except IndexError:
        return None
    return Flow(signed64(consumer_id), permits & 0xFFFF_FFFF) if at == end else None


def read_ack(ack: pb.CommandAck) -> Ack:
    """The event of a command that the protobuf library has read."""
    return Ack(
        signed64(ack.consumer_id),
        ack.ack_type == pb.CommandAck.Cumulative,
        [wire_id(data) for data in ack.message_id],
        signed64(ack.request_id) if ack.HasField("request_id") else None,
        ack.validation_error if ack.HasField("validation_error") else None,
        _transaction_of(ack),
    )


def _transaction_of(ack: pb.CommandAck) -> TxnId | None:
    # Presence of one number is enough: taken for an ack outside of its transaction it would be final.
    if not (ack.HasField("txnid_least_bits") or ack.HasField("txnid_most_bits")):
        return None
    return TxnId(signed64(ack.txnid_most_bits), signed64(ack.txnid_least_bits))


def read_flow(flow: pb.CommandFlow) -> Flow:
    return Flow(signed64(flow.consumer_id), flow.messagePermits)


def wire_id(data: pb.MessageIdData) -> WireId:
    """A message id out of any command, its numbers signed."""
    first_chunk = None
    if data.HasField("first_chunk_message_id"):
        chunk = data.first_chunk_message_id
        first_chunk = (signed64(chunk.ledgerId), signed64(chunk.entryId))
    return WireId(
        signed64(data.ledgerId),
        signed64(data.entryId),
        data.partition,
        data.batch_index,
        tuple(data.ack_set),
        first_chunk,
    )


def command_fields(data: bytes, at: int, end: int, tag: int) -> int:
    """Where the fields of the command begin, or -1 if it does not fill the frame exactly."""
    if data[at] != _TYPE or data[at + 1] != tag >> 3 or data[at + 2] != tag:
        return -1
    size = data[at + 3]
    at += 4
    if size > 127:
        size, at = read_rest(data, at, size)
    return at if at + size == end else -1


def _scan_rest(data: bytes, at: int, end: int, ack: Ack) -> Ack | None:
    """The ACK with the fields that begin at `at`."""
    request_id = ack.request_id
    validation_error: int | None = None
    transaction: TxnId | None = None
    while at < end:
        tag = data[at]
        value = data[at + 1]
        at += 2
        if value > 127:
            value, at = read_rest(data, at, value)
        if tag == _REQUEST_ID:
            request_id = signed64(value)
        elif tag == _TXNID_LEAST_BITS:
            most = 0 if transaction is None else transaction.most
            transaction = TxnId(most, signed64(value))
        elif tag == _TXNID_MOST_BITS:
            least = 0 if transaction is None else transaction.least
            transaction = TxnId(signed64(value), least)
        elif tag == _VALIDATION_ERROR and value <= pb.CommandAck.DecryptionError:
            validation_error = value
        else:
            return None
    if at != end:
        return None
    return ack._replace(
        request_id=request_id, validation_error=validation_error, transaction=transaction
    )


def _scan_ids(data: bytes, at: int, end: int, ids: list[WireId]) -> int:
    """Append the ids that begin at `at`; return where the first field that is none begins."""
    new = _new_id
    append = ids.append
    while at < end and data[at] == _MESSAGE_ID:
        field_at = at
        size = data[at + 1]
        at += 2
        if size > 127:
            size, at = read_rest(data, at, size)
        id_end = at + size
        if size > _LIBRARY_SIZE_MIN:
            try:
                parsed = pb.MessageIdData.FromString(data[at:id_end])
            except DecodeError:
                return field_at
            if parsed.HasField("first_chunk_message_id"):
                return field_at  # how deep it nests is judged with the whole command
            append(wire_id(parsed))
            at = id_end
            continue
        if data[at] != _LEDGER_ID:
            return field_at
        ledger_id = data[at + 1]
        at += 2
        if ledger_id > 127:
            ledger_id, at = read_rest(data, at, ledger_id)
        if data[at] != _ENTRY_ID:
            return field_at
        entry_id = data[at + 1]
        at += 2
        if entry_id > 127:
            entry_id, at = read_rest(data, at, entry_id)
        if entry_id > _INT64_MAX or ledger_id > _INT64_MAX:
            entry_id, ledger_id = signed64(entry_id), signed64(ledger_id)
        if at == id_end:
            append(new(WireId, (ledger_id, entry_id, -1, -1, (), None)))
            continue
        partition = batch_index = -1
        words: list[int] = []
        while at < id_end:
            tag = data[at]
            value = data[at + 1]
            at += 2
            if value > 127:
                value, at = read_rest(data, at, value)
            if tag == _ACK_SET:
                words.append(signed64(value))
            elif tag == _PARTITION:
                partition = signed32(value)
            elif tag == _BATCH_INDEX:
                batch_index = signed32(value)
            elif tag != _BATCH_SIZE:
                return field_at
        if at != id_end:
            return field_at
        append(new(WireId, (ledger_id, entry_id, partition, batch_index, tuple(words), None)))
    return at
