"""Reads NEW_TXN, ADD_PARTITION_TO_TXN, ADD_SUBSCRIPTION_TO_TXN and END_TXN.

A transaction of one message is four of them, so they are read by hand where they are short and written as
official clients write them: all fields in their order, each once. `scan_transactions` takes those of one read
that follow each other, `scan_transaction` one, and returns None for anything else; the caller then asks the
protobuf library through `read_transaction`, and the answer is the same. A property test holds them together.

    >>> scan_transaction(bytes.fromhex("0838c203080807100518002000"), 0, 13)
    EndTransaction(request_id=7, txn_id=TxnId(most=0, least=5), action=0, also=(), series=None)
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, cast

from google.protobuf.message import Message

from milepost.positions import TxnId, signed64
from milepost.positions.ids import INT64_MAX
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import (
    AddSubscriptions,
    AddTopics,
    EndTransaction,
    NewTransaction,
    ServerEvent,
    TransactionRequest,
    TransactionSeries,
)
from milepost.wire.frames import HEADER_SIZE
from milepost.wire.scanners.varint import read_rest, read_varint

# Numbers of the commands. The tag of each has two bytes, the second of them the same.
_NEW_TXN: Final = 50
_ADD_PARTITION: Final = 52
_ADD_SUBSCRIPTION: Final = 54
_END_TXN: Final = 56
KINDS: Final = frozenset((_NEW_TXN, _ADD_PARTITION, _ADD_SUBSCRIPTION, _END_TXN))
_TAG_END: Final = 3

# What names many topics is read, and judged, by the library.
SIZE_MAX: Final = 1024

# Tags: field number << 3 | wire type.
_TYPE: Final = 1 << 3
_REQUEST_ID: Final = 1 << 3
_TTL_MS: Final = 2 << 3
_COORDINATOR: Final = 3 << 3
_TXNID_LEAST_BITS: Final = 2 << 3
_TXNID_MOST_BITS: Final = 3 << 3
_PARTITION: Final = 4 << 3 | 2
_SUBSCRIPTION: Final = 4 << 3 | 2
_ACTION: Final = 4 << 3
_TOPIC: Final = 1 << 3 | 2
_NAME: Final = 2 << 3 | 2
_ABORT: Final = int(pb.ABORT)

_unpack_sizes = cast("Callable[[bytes, int], tuple[int, int]]", struct.Struct(">II").unpack_from)

# Skip the argument handling of a named tuple's constructor, which is half of its time.
_new_txn_id = cast("Callable[[type[TxnId], tuple[object, ...]], TxnId]", tuple.__new__)
_new_new = cast(
    "Callable[[type[NewTransaction], tuple[object, ...]], NewTransaction]", tuple.__new__
)
_new_topics = cast("Callable[[type[AddTopics], tuple[object, ...]], AddTopics]", tuple.__new__)
_new_end = cast(
    "Callable[[type[EndTransaction], tuple[object, ...]], EndTransaction]", tuple.__new__
)


def scan_transactions(
    data: bytes, at: int, events: list[ServerEvent], count_max: int
) -> tuple[int, int]:
    """Append the commands of transactions whose frames begin at `at` to `events`, at most so many; where the
    first other frame begins, and how many there were.

    Clients with many transactions ask for several in one read. What is unusual, wrong or not complete yet is
    left where it is.
    """
    count, data_size = 0, len(data)
    while count < count_max and data_size - at > HEADER_SIZE:
        total, size = _unpack_sizes(data, at)
        end = at + 4 + total
        if total != size + 4 or end > data_size:
            break
        event = scan_transaction(data, at + HEADER_SIZE, end)
        if event is None:
            break
        events.append(event)
        count += 1
        at = end
    return at, count


def scan_transaction(data: bytes, at: int, end: int) -> TransactionRequest | None:
    """The command of a transaction in the BaseCommand `data[at:end]`."""
    if end - at > SIZE_MAX:
        return None
    try:
        kind = data[at + 1]
        if (
            data[at] != _TYPE
            or kind not in KINDS
            or data[at + 2] != (kind << 3 | 2) & 127 | 128
            or data[at + 3] != _TAG_END
        ):
            return None
        size = data[at + 4]
        at += 5
        if size > 127:
            size, at = _size(data, at - 1)
        if at + size != end or data[at] != _REQUEST_ID:
            return None
        # Three numbers, whatever the command: NEW_TXN has its time-out and coordinator in the places of the
        # id.
        request_id = data[at + 1]
        at += 2
        if request_id > 127:
            request_id, at = read_rest(data, at, request_id)
        if data[at] != _TXNID_LEAST_BITS:
            return None
        second = data[at + 1]
        at += 2
        if second > 127:
            second, at = read_rest(data, at, second)
        if data[at] != _TXNID_MOST_BITS:
            return None
        third = data[at + 1]
        at += 2
        if third > 127:
            third, at = read_rest(data, at, third)
        if request_id > INT64_MAX or second > INT64_MAX or third > INT64_MAX:
            request_id, second, third = signed64(request_id), signed64(second), signed64(third)
        if kind == _NEW_TXN:
            if at != end:
                return None
            return _new_new(NewTransaction, (request_id, second, third, None))
        txn_id = _new_txn_id(TxnId, (third, second))
        if kind == _END_TXN:
            if at + 2 != end or data[at] != _ACTION or data[at + 1] > _ABORT:
                return None
            return _new_end(EndTransaction, (request_id, txn_id, data[at + 1], (), None))
        if kind == _ADD_PARTITION:
            return _scan_topics(data, at, end, request_id, txn_id)
        return _scan_subscriptions(data, at, end, request_id, txn_id)
    except (IndexError, UnicodeDecodeError):
        return None


def scan_long_addition(data: bytes, at: int, end: int) -> AddTopics | AddSubscriptions | None:
    """The ADD_PARTITION_TO_TXN or ADD_SUBSCRIPTION_TO_TXN in the BaseCommand `data[at:end]`, without what it
    adds: enough to refuse a command that is too long to be read. None for anything else."""
    try:
        kind = data[at + 1]
        prefix = bytes((_TYPE, kind, (kind << 3 | 2) & 127 | 128, _TAG_END))
        if kind not in (_ADD_PARTITION, _ADD_SUBSCRIPTION) or not data.startswith(prefix, at):
            return None
        size, at = read_varint(data, at + len(prefix))
        if at + size != end:
            return None
        numbers = []
        for tag in (_REQUEST_ID, _TXNID_LEAST_BITS, _TXNID_MOST_BITS):
            if data[at] != tag:
                return None
            number, at = read_varint(data, at + 1)
            numbers.append(signed64(number))
    except (IndexError, ValueError):
        return None
    request_id, least, most = numbers
    txn_id = TxnId(most, least)
    if kind == _ADD_PARTITION:
        return AddTopics(request_id, txn_id, ())
    return AddSubscriptions(request_id, txn_id, ())


def read_transaction(command: Message) -> TransactionRequest | None:
    """The event of a command that the protobuf library has read; None for other commands."""
    match command:
        case pb.CommandNewTxn():
            return NewTransaction(
                signed64(command.request_id),
                signed64(command.txn_ttl_millis),
                signed64(command.tc_id),
                _series(command),
            )
        case pb.CommandAddPartitionToTxn():
            return AddTopics(
                signed64(command.request_id), _txn_id(command), tuple(command.partitions)
            )
        case pb.CommandAddSubscriptionToTxn():
            pairs = tuple((one.topic, one.subscription) for one in command.subscription)
            return AddSubscriptions(signed64(command.request_id), _txn_id(command), pairs)
        case pb.CommandEndTxn():
            return EndTransaction(
                signed64(command.request_id),
                _txn_id(command),
                command.txn_action if command.HasField("txn_action") else None,
                tuple(map(signed64, command.also_txnid_least_bits)),
                _series(command),
            )
    return None


def _txn_id(
    command: pb.CommandAddPartitionToTxn | pb.CommandAddSubscriptionToTxn | pb.CommandEndTxn,
) -> TxnId:
    return TxnId(signed64(command.txnid_most_bits), signed64(command.txnid_least_bits))


def _series(command: pb.CommandNewTxn | pb.CommandEndTxn) -> TransactionSeries | None:
    if not command.HasField("series"):
        return None
    said = command.series
    return TransactionSeries(said.name, said.run, said.step if said.HasField("step") else None)


def _scan_topics(
    data: bytes, at: int, end: int, request_id: int, txn_id: TxnId
) -> AddTopics | None:
    topics: list[str] = []
    while at < end:
        topic, at = _text(data, at, _PARTITION)
        topics.append(topic)
    return _new_topics(AddTopics, (request_id, txn_id, tuple(topics))) if at == end else None


def _scan_subscriptions(
    data: bytes, at: int, end: int, request_id: int, txn_id: TxnId
) -> AddSubscriptions | None:
    pairs: list[tuple[str, str]] = []
    while at < end:
        if data[at] != _SUBSCRIPTION:
            return None
        size, at = _size(data, at + 1)
        pair_end = at + size
        topic, at = _text(data, at, _TOPIC)
        name, at = _text(data, at, _NAME)
        if at != pair_end:
            return None
        pairs.append((topic, name))
    return AddSubscriptions(request_id, txn_id, tuple(pairs)) if at == end else None


def _text(data: bytes, at: int, tag: int) -> tuple[str, int]:
    """The text of a field, and where the next begins; `IndexError` if it is another field."""
    if data[at] != tag:
        raise IndexError("another field")
    size, at = _size(data, at + 1)
    return data[at : at + size].decode(), at + size


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A size, and where that begins; more than two bytes say nothing that is short."""
    size = data[at]
    if size < 128:
        return size, at + 1
    high = data[at + 1]
    if high > 127:
        raise IndexError("a size of more than two bytes")
    return size - 128 + (high << 7), at + 2
