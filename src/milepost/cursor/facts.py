"""The facts that must be durable before a change is answered, and their bytes.

Acks, seeks and trims change what a restart must not forget. Each fact names its result, not its
request, so that replaying it needs no memory of what was delivered; and each carries the epoch in
which it became true, so that one from before a seek is known for what it is. `Cursor.replay` applies
a fact. After a restart nothing is inflight, so releases are no facts, and most deliveries need not
be: one of stale indexes must, since from then on their acks count (`Delivered.stale`).

    >>> encode_ack(3, [(10, 12)]) == encode_ack_range(3, 10, 12)
    True
    >>> decode(encode_ack(3, [(10, 12), (12, 20), (30, 31)]))
    AckFact(epoch=3, ranges=IndexRanges([(10, 20), (30, 31)]))

Bytes, little-endian; the journal around them knows their length and guards them with a checksum:

    u8 version = 1, u8 kind, u64 epoch, then by kind
    1  ack of one range     u64 first, u64 end
    2  ack of many          ranges, as `IndexRanges.to_bytes` writes them
    3  seek                 u64 index, then the stale ranges
    4  trim                 u64 index
    5  delivery             ranges
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import INDEX_MAX

VERSION = 1

_ACK_RANGE, _ACK_RANGES, _SEEK, _TRIM, _DELIVERY = 1, 2, 3, 4, 5

_head = struct.Struct("<BBQ")
_one_index = struct.Struct("<BBQQ")
_one_range = struct.Struct("<BBQQQ")
_pack_one_range = _one_range.pack


class AckFact(NamedTuple):
    """These indexes are acked."""

    epoch: int
    ranges: IndexRanges


class SeekFact(NamedTuple):
    """Everything below an index is acked, the rest is ready, and a new epoch began."""

    epoch: int
    """The epoch that began."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here

    stale: IndexRanges
    """The ready indexes that were delivered or acked before: acks of them may be on their way."""


class TrimFact(NamedTuple):
    """Everything below an index is no longer retained."""

    epoch: int
    index: int  # type: ignore[assignment]


class DeliveryFact(NamedTuple):
    """These indexes went to a consumer."""

    epoch: int
    ranges: IndexRanges


Fact: TypeAlias = AckFact | SeekFact | TrimFact | DeliveryFact


def encode_ack_range(epoch: int, first: int, end: int) -> bytes:
    """One ack of one range, the common case, in one step."""
    return _pack_one_range(VERSION, _ACK_RANGE, epoch, first, end)


def encode_ack(epoch: int, ranges: Iterable[Range]) -> bytes:
    """All acks that one commit makes durable for a cursor, merged into one fact.

    The epoch is the cursor's at the time of the acks: a seek between them makes it two facts.
    """
    return encode(AckFact(epoch, IndexRanges(ranges)))


def encode(fact: Fact) -> bytes:
    """The bytes for the journal."""
    match fact:
        case AckFact(epoch, ranges):
            if (only := ranges.next_range(0)) and only[1] == ranges.end:
                return encode_ack_range(epoch, *only)
            return _head.pack(VERSION, _ACK_RANGES, epoch) + ranges.to_bytes()
        case SeekFact(epoch, index, stale):
            return _one_index.pack(VERSION, _SEEK, epoch, index) + stale.to_bytes()
        case TrimFact(epoch, index):
            return _one_index.pack(VERSION, _TRIM, epoch, index)
        case DeliveryFact(epoch, ranges):
            return _head.pack(VERSION, _DELIVERY, epoch) + ranges.to_bytes()


def decode(data: bytes | memoryview) -> Fact:
    """The fact in these bytes; `UnknownFormat` or `CorruptData` if there is none."""
    if not data:
        raise CorruptData("a cursor fact of no bytes")
    if data[0] != VERSION:
        raise UnknownFormat(f"a cursor fact of version {data[0]}; this release knows {VERSION}")
    try:
        _, kind, epoch = _head.unpack_from(data)
        if kind == _ACK_RANGE:
            _, _, _, first, end = _one_range.unpack(data)
            if not first < end <= INDEX_MAX:
                raise CorruptData(f"a cursor fact acks [{first}, {end})")
            return AckFact(epoch, IndexRanges([(first, end)]))
        if kind == _ACK_RANGES:
            return AckFact(epoch, IndexRanges.from_bytes(data[_head.size :]))
        if kind == _DELIVERY:
            return DeliveryFact(epoch, IndexRanges.from_bytes(data[_head.size :]))
        if kind not in (_SEEK, _TRIM):
            raise CorruptData(f"a cursor fact of unknown kind {kind}")
        _, _, _, index = _one_index.unpack_from(data)
        if index > INDEX_MAX:
            raise CorruptData(f"a cursor fact of index {index}")
        rest = data[_one_index.size :]
        if kind == _SEEK:
            return SeekFact(epoch, index, IndexRanges.from_bytes(rest))
        if len(rest):
            raise CorruptData(f"{len(rest)} bytes behind a cursor fact")
        return TrimFact(epoch, index)
    except struct.error:
        raise CorruptData(f"a cursor fact cut to {len(data)} bytes") from None
