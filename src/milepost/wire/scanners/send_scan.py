"""Reads SEND frames, all of one read in one pass.

`scan_sends` takes SENDs as official clients write them and stops at the first frame that is anything
else; `read_send` takes one SEND however it is written. Where both can read a frame they give the same
answer (a property test says so): the checksum is verified, the entry is left as the producer sent it.

A fault of the entry (its checksum, metadata that contradicts itself) is that one message's: it travels
in the message's `Traits`, in its place among the others, for receipts must keep their order.

    events: list[ServerEvent] = []
    at = scan_sends(data, 0, frame_max, events)     # events: [Sends(0, [Send(…), Send(…), …])]

The loop is flat on purpose: at this rate a call for each field would cost more than the field. It is
plain typed Python that mypyc compiles from the same source.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, cast

from google_crc32c import value as _crc32c

from milepost.positions import TxnId, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import PLAIN, Send, Sends, ServerEvent, Traits
from milepost.wire.frames import CHECKSUM_MAGIC
from milepost.wire.scanners.encode import encode_entry_head
from milepost.wire.scanners.shape import (
    CHECKSUM_ERROR,
    NO_LIMIT,
    Shape,
    read_rest_shape,
    read_shape,
    refused,
    shape_for_payload,
)
from milepost.wire.scanners.varint import encode_varint, read_rest

# Sizes, then the command's first seven bytes: type (08 06), field and size of CommandSend (32 xx),
# producer id (08 xx), tag of the sequence id (10).
_unpack_send = cast(
    "Callable[[bytes, int], tuple[int, int, int, int, int, int]]",
    struct.Struct(">IIIBBB").unpack_from,
)
# The command's size added to this gives its first four bytes, the inner size being 4 less.
_COMMAND_BASE: Final = 0x0806_3200 - 4
_PRODUCER_ID: Final = 1 << 3
_SEQUENCE_ID: Final = 2 << 3
_TXNID_LEAST_BITS: Final = 4 << 3
_TXNID_MOST_BITS: Final = 5 << 3
_HIGHEST_SEQUENCE_ID: Final = 6 << 3
# Number of messages, is_chunk and marker: claims that the metadata makes good, or not.
_CLAIMS: Final = frozenset((3 << 3, 7 << 3, 8 << 3))

# Magic, checksum, size of the metadata; then producer name, sequence id, publish time.
_unpack_entry = cast(
    "Callable[[bytes, int], tuple[int, int, int]]", struct.Struct(">HII").unpack_from
)
_ENTRY_HEAD_SIZE: Final = 10
_CHECKSUM_SIZE: Final = 6
_PRODUCER_NAME: Final = 1 << 3 | 2
_PUBLISH_TIME: Final = 3 << 3
# As a varint, any time from 1971 to 2109 has six bytes.
_TIME_SIZE: Final = 6

# Everything above, with an empty name and no payload.
_FRAME_SIZE_MIN: Final = 16 + _ENTRY_HEAD_SIZE + 4 + 1 + _TIME_SIZE

# Tags of the transaction in the metadata.
_NAMED_LEAST_BITS: Final = b"\xb0\x01"
_NAMED_MOST_BITS: Final = b"\xb8\x01"

_INT64_MAX: Final = (1 << 63) - 1

# What follows the publish time is mostly the same from message to message: its bytes are the key.
_known_shapes: dict[bytes, Shape] = {}
_KNOWN_SHAPES_MAX: Final = 1024
# A schema version has eight bytes: a longer one is not remembered.
_KNOWN_SHAPE_SIZE_MAX: Final = 128

# Skips the argument handling of a named tuple's constructor, which is half of its time.
_new_send = cast("Callable[[type[Send], tuple[object, ...]], Send]", tuple.__new__)
_new_sends = cast("Callable[[type[Sends], tuple[object, ...]], Sends]", tuple.__new__)


def scan_sends(data: bytes, at: int, frame_max: int, events: list[ServerEvent]) -> int:
    """Append the SENDs that begin at `at` to `events`; return where the first other frame begins.

    Whatever is unusual, wrong or not complete yet is left where it is: `at` moves only past frames
    that were understood to their end.
    """
    data_size = len(data)
    producer_id = -1
    sends: list[Send] = []
    time_bytes = b""
    publish_time = 0
    # What stands behind the sequence id, and from the publish time on, is mostly the same from message to
    # message, also in a transaction: it is read once. Invariant: the shape is of `known_tail`, if that is not
    # None, and of the transaction that `known_behind` claims.
    known_behind = known_rest = b""
    known_tail: bytes | None = None
    highest_sequence_id = 0
    claimed: TxnId | None = None
    count, traits, payload_min, payload_max = 1, PLAIN, 0, NO_LIMIT
    shape_count, shape_traits, shape_min, shape_max = 1, PLAIN, 0, NO_LIMIT
    try:
        while data_size - at >= _FRAME_SIZE_MIN:
            total, size, head, producer_tag, producer, sequence_tag = _unpack_send(data, at)
            entry_at = at + 8 + size
            end = at + 4 + total
            if (
                head != _COMMAND_BASE + size
                or producer_tag != _PRODUCER_ID
                or size > 127
                or end > data_size
                or total > frame_max
                or end - entry_at < _ENTRY_HEAD_SIZE
            ):
                break

            # The command: producer, sequence id, and what few clients add.
            sequence_at = at + 15
            if producer > 127:
                producer, sequence_at = read_rest(data, at + 14, producer)
                sequence_tag = data[sequence_at]
                sequence_at += 1
            field_at = sequence_at + 1
            sequence_id = data[sequence_at]
            if sequence_id > 127:
                sequence_id, field_at = read_rest(data, field_at, sequence_id)
            sequence_bytes = data[sequence_at:field_at]
            behind = data[field_at:entry_at]
            if behind != known_behind:
                read = _read_behind(behind)
                if read is None:
                    break
                known_behind, known_rest, known_tail = behind, b"", None
                highest_sequence_id, claimed = read
            if (
                sequence_tag != _SEQUENCE_ID
                or field_at > entry_at
                or sequence_id > _INT64_MAX
                or producer > _INT64_MAX
            ):
                break
            if highest_sequence_id and not sequence_id <= highest_sequence_id <= _INT64_MAX:
                break

            # The entry: its checksum, and the metadata's required fields in the order of writing.
            magic, checksum, metadata_size = _unpack_entry(data, entry_at)
            metadata_at = entry_at + _ENTRY_HEAD_SIZE
            metadata_end = metadata_at + metadata_size
            if magic != CHECKSUM_MAGIC or metadata_end > end:
                break
            entry = data[entry_at:end]
            if _crc32c(entry[_CHECKSUM_SIZE:]) != checksum:
                break
            field_at = metadata_at + 2
            name_size = data[metadata_at + 1]
            if name_size > 127:
                name_size, field_at = read_rest(data, field_at, name_size)
            field_at += name_size
            if (
                data[metadata_at] != _PRODUCER_NAME
                or data[field_at] != _SEQUENCE_ID
                or not data.startswith(sequence_bytes, field_at + 1)
            ):
                break
            field_at += 1 + len(sequence_bytes)
            tail = data[field_at:metadata_end]
            if tail != known_tail:
                rest_at = field_at + 1 + _TIME_SIZE
                if data[field_at] != _PUBLISH_TIME or rest_at > metadata_end:
                    break
                # Many messages of one read were published in the same millisecond.
                if data[field_at + 1 : rest_at] != time_bytes:
                    publish_time, time_end = read_rest(data, field_at + 2, data[field_at + 1])
                    if data[field_at + 1] < 128 or time_end != rest_at:
                        break
                    time_bytes = data[field_at + 1 : rest_at]
                if rest_at == metadata_end:
                    count, traits, payload_min, payload_max = 1, PLAIN, 0, NO_LIMIT
                    if claimed is not None:
                        break
                else:
                    rest = data[rest_at:metadata_end]
                    if rest != known_rest:
                        shape = _known_shapes.get(rest) or _new_shape(rest, claimed)
                        if shape is None or shape.traits.transaction != claimed:
                            break
                        known_rest = rest
                        shape_count, _, shape_traits, shape_min, shape_max, _ = shape
                    count, traits = shape_count, shape_traits
                    payload_min, payload_max = shape_min, shape_max
                known_tail = tail
            if not payload_min <= end - metadata_end <= payload_max:
                break
            send = _new_send(
                Send, (sequence_id, highest_sequence_id, count, publish_time, entry, traits)
            )
            if producer == producer_id:
                sends.append(send)
            elif producer_id < 0:
                producer_id = producer
                sends = add_send(events, producer, send)
            else:
                producer_id, sends = producer, [send]
                events.append(_new_sends(Sends, (producer, sends)))
            at = end
    except IndexError:
        # The walk ran out of the data: not a frame as clients write it.
        pass
    return at


def _read_behind(fields: bytes) -> tuple[int, TxnId | None] | None:
    """The highest sequence id and the transaction that a command says behind its sequence id. None for what
    few clients would write. `IndexError` where the fields end in the middle of one."""
    highest_sequence_id = at = 0
    claimed: TxnId | None = None
    while at < len(fields):
        tag = fields[at]
        value = fields[at + 1]
        at += 2
        if value > 127:
            value, at = read_rest(fields, at, value)
        if tag == _HIGHEST_SEQUENCE_ID:
            highest_sequence_id = value
        elif tag == _TXNID_LEAST_BITS:
            claimed = TxnId(0, signed64(value))
        elif tag == _TXNID_MOST_BITS and claimed is not None:
            claimed = TxnId(signed64(value), claimed.least)
        elif tag not in _CLAIMS:
            return None
    return highest_sequence_id, claimed


def read_send(command: pb.CommandSend, data: bytes, entry_at: int, end: int) -> Send:
    """One SEND with its command parsed: `data[entry_at:end]` is what follows the command."""
    sequence_id = signed64(command.sequence_id)
    highest_sequence_id = signed64(command.highest_sequence_id)
    shape = _judge_command(command, sequence_id, highest_sequence_id)
    entry = data[entry_at:end]
    if shape is None:
        shape = _read_entry(data, entry_at, end)
        claimed = _transaction_of(command)
        if shape.traits.fault is None and shape.traits.transaction != claimed:
            shape, entry = _reconciled(shape, entry, claimed)
    if shape.traits.fault is not None:
        entry = b""
    return Send(
        sequence_id, highest_sequence_id, shape.count, shape.publish_time, entry, shape.traits
    )


def add_send(events: list[ServerEvent], producer_id: int, send: Send) -> list[Send]:
    """Put the send with those of the same producer before it, or in a new event; give its list."""
    if events:
        last = events[-1]
        if isinstance(last, Sends) and last.producer_id == producer_id:
            last.sends.append(send)
            return last.sends
    sends = [send]
    events.append(Sends(producer_id, sends))
    return sends


def _new_shape(rest: bytes, claimed: TxnId | None) -> Shape | None:
    """The shape told by metadata behind its required fields; None for what the loop leaves alone."""
    if claimed is not None and rest == _named(claimed):
        # Most messages of a transaction say nothing but that: each transaction is new, so this is not known.
        return Shape(1, 0, Traits(transaction=claimed), 0, NO_LIMIT, False)
    shape = read_rest_shape(rest, 0, len(rest))
    if shape is None or shape.traits.fault is not None:
        return None
    if shape.is_lasting and len(rest) <= _KNOWN_SHAPE_SIZE_MAX:
        if len(_known_shapes) >= _KNOWN_SHAPES_MAX:
            _known_shapes.clear()
        _known_shapes[rest] = shape
    return shape


def _judge_command(
    command: pb.CommandSend, sequence_id: int, highest_sequence_id: int
) -> Shape | None:
    """The refusal of a command that cannot be obeyed."""
    if sequence_id < 0:
        return refused(f"sequence id {sequence_id}")
    if highest_sequence_id != 0 and highest_sequence_id < sequence_id:
        return refused(f"highest sequence id {highest_sequence_id} below {sequence_id}")
    if command.HasField("message_id"):
        return refused("only a shadow topic takes a message id with SEND")
    return None


def _reconciled(shape: Shape, entry: bytes, claimed: TxnId | None) -> tuple[Shape, bytes]:
    """What becomes of an entry whose metadata names another transaction than its command, or none.

    Go names it in the command alone. Every reader of the log goes by the metadata, so it is written there:
    the one change that is ever made to an entry.
    """
    told = shape.traits.transaction
    if claimed is None or told is not None:
        return refused(f"transaction {claimed} in the command, {told} in the metadata"), b""
    if shape.traits.is_marker:
        return refused(f"a marker of transaction {claimed}, which the broker alone writes"), b""
    at = _CHECKSUM_SIZE if int.from_bytes(entry[:2], "big") == CHECKSUM_MAGIC else 0
    metadata_end = at + 4 + int.from_bytes(entry[at : at + 4], "big")
    metadata = entry[at + 4 : metadata_end] + _named(claimed)
    payload = entry[metadata_end:]
    named = shape._replace(traits=shape.traits._replace(transaction=claimed))
    return named, encode_entry_head(metadata, payload) + payload


def _named(txn_id: TxnId) -> bytes:
    """How metadata names a transaction."""
    return b"".join(
        (
            _NAMED_LEAST_BITS,
            encode_varint(txn_id.least),
            _NAMED_MOST_BITS,
            encode_varint(txn_id.most),
        )
    )


def _transaction_of(command: pb.CommandSend) -> TxnId | None:
    """Zeros are an id; one number alone has zero for the other."""
    if not (command.HasField("txnid_least_bits") or command.HasField("txnid_most_bits")):
        return None
    return TxnId(signed64(command.txnid_most_bits), signed64(command.txnid_least_bits))


def _read_entry(data: bytes, at: int, end: int) -> Shape:
    # The checksum is optional: clients of protocol versions below 6 send none.
    if end - at >= 2 and int.from_bytes(data[at : at + 2], "big") == CHECKSUM_MAGIC:
        if end - at < _CHECKSUM_SIZE:
            return refused(f"an entry of {end - at} bytes ends in its checksum", CHECKSUM_ERROR)
        checksum = int.from_bytes(data[at + 2 : at + _CHECKSUM_SIZE], "big")
        at += _CHECKSUM_SIZE
        if _crc32c(data[at:end]) != checksum:
            return refused(f"checksum {checksum:#010x} does not match", CHECKSUM_ERROR)
    if end - at < 4:
        return refused(f"an entry of {end - at} bytes has no metadata")
    metadata_at = at + 4
    metadata_size = int.from_bytes(data[at:metadata_at], "big")
    metadata_end = metadata_at + metadata_size
    if metadata_end > end:
        return refused(f"metadata of {metadata_size} bytes in {end - metadata_at}")
    return shape_for_payload(read_shape(data, metadata_at, metadata_end), end - metadata_end)
