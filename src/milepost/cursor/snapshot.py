"""A cursor as bytes, for checkpoints.

Holds what `CursorState` names; what a fact made true since the last snapshot is in the journal. Due
times are not kept: the broker reads them from the messages again. Reopened, it is the same cursor
with inflight released.

    >>> cursor = Cursor(0, 10); cursor.deliver(0, 4, holder=1).count, cursor.ack([(1, 3)]).count
    (4, 2)
    >>> reopened = decode(encode(cursor)); reopened.counts()
    Counts(ready=8, inflight=0, delayed=0, acked=2)

Bytes:

    u8       version = 1
    varints  first, end, epoch, how many sets follow
    sets     backlog, returned, stale, then the planes of the redelivery counts; each a varint size
             and that many bytes as `IndexRanges.to_bytes` writes them
    u32      CRC32 of all before, little-endian
"""

from __future__ import annotations

import zlib

from milepost.cursor.cursor import Cursor
from milepost.cursor.state import CursorState
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges
from milepost.positions.varints import read_varint, write_varint

VERSION = 1

_CHECKSUM_SIZE_BYTES = 4


def encode(cursor: Cursor) -> bytes:
    """The bytes of a cursor; the same cursor always gives the same."""
    state = cursor.state()
    out = bytearray([VERSION])
    sets = [state.backlog, state.returned, state.stale, *state.redeliveries]
    for number in (state.first, state.end, state.epoch, len(sets)):
        write_varint(out, number)
    for indexes in sets:
        written = indexes.to_bytes()
        write_varint(out, len(written))
        out += written
    out += zlib.crc32(out).to_bytes(_CHECKSUM_SIZE_BYTES, "little")
    return bytes(out)


def decode(data: bytes | memoryview) -> Cursor:
    """The cursor in these bytes; `UnknownFormat` or `CorruptData` if there is none."""
    data = memoryview(data)
    if not data:
        raise CorruptData("a cursor snapshot of no bytes")
    if data[0] != VERSION:
        raise UnknownFormat(f"a cursor snapshot of version {data[0]}; this release knows {VERSION}")
    body, checksum = data[:-_CHECKSUM_SIZE_BYTES], data[-_CHECKSUM_SIZE_BYTES:]
    computed, stored = zlib.crc32(body), int.from_bytes(checksum, "little")
    if computed != stored:
        raise CorruptData(f"a cursor snapshot with checksum {stored:#x}, computed {computed:#x}")
    first, at = read_varint(body, 1)
    end, at = read_varint(body, at)
    epoch, at = read_varint(body, at)
    set_count, at = read_varint(body, at)
    sets = []
    # The checksum says that we wrote it; the bounds are kept all the same.
    for _ in range(min(set_count, len(body))):
        size_bytes, at = read_varint(body, at)
        if size_bytes > len(body) - at:
            raise CorruptData(f"a set of {size_bytes} bytes at byte {at} of {len(body)}")
        sets.append(IndexRanges.from_bytes(body[at : at + size_bytes]))
        at += size_bytes
    if len(sets) != set_count or set_count < 3 or at != len(body):
        raise CorruptData(f"a cursor snapshot of {len(sets)} sets in {at} of {len(body)} bytes")
    backlog, returned, stale, *redeliveries = sets
    return Cursor.from_state(CursorState(first, end, epoch, backlog, returned, stale, redeliveries))
