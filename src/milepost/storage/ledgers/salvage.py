"""What can be told of entries whose record in the journal is damaged.

The record has a checksum, and so has each entry in it: what is struck is one entry, or a few. Where the
headers agree with each other and with the ledger that they continue, every entry has its numbers; the intact
ones are as good as ever. Index and count of an entry are in its header both, so that one of them that is
wrong does not agree. Where the headers do not, the record behind it tells where the lost entries end, and
zeros stand in for them.
"""

from __future__ import annotations

from typing import NamedTuple

import google_crc32c

from milepost.errors import CorruptData
from milepost.positions.ranges import IndexRanges, Range
from milepost.storage.files import Files
from milepost.storage.ledgers.entry import HEADER, HEADER_SIZE, Block
from milepost.storage.ledgers.ledger import Ledger

_CRC_END = 8  # an entry's checksum covers everything behind itself


class Salvaged(NamedTuple):
    """Entries that a ledger can take, damaged ones among them: a read of such a one is told so."""

    block: Block
    lost: list[Range]
    """Indexes of the damaged entries."""


def salvaged(body: bytes, ledger: Ledger) -> Salvaged | None:
    """The entries of a damaged record that continue a ledger; None if their headers do not agree."""
    sizes: list[int] = []
    last_indexes: list[int] = []
    flags: list[int] = []
    lost = IndexRanges()
    time_ms = ledger.last_time_ms
    at, end, index = 0, len(body), ledger.end_index
    while at < end:
        if end - at < HEADER_SIZE:
            return None
        size, crc, ledger_id, entry_id, last_index, entry_ms, count, flag, beside = (
            HEADER.unpack_from(body, at)
        )
        after = at + HEADER_SIZE + beside + size
        wanted = ledger.ledger_id, ledger.entries + len(sizes), index + count - 1
        if (ledger_id, entry_id, last_index) != wanted or not count or after > end:
            return None
        if google_crc32c.value(body[at + _CRC_END : after]) == crc:
            time_ms = max(time_ms, entry_ms)
        else:
            lost.add(index, index + count)
            flag = 0  # it may be wrong, too
        sizes.append(after - at)
        last_indexes.append(last_index)
        flags.append(flag)
        at, index = after, index + count
    if not sizes:
        return None
    block = Block(
        ledger.ledger_id, ledger.entries, body, sizes, last_indexes, flags, timestamp_ms=time_ms
    )
    return Salvaged(block, list(lost))


def zeros(ledger: Ledger, end_id: int, end_index: int) -> Salvaged | None:
    """What stands in for the entries up to that id and index. Of several only the outer bounds are known;
    None if there is not an index for each."""
    count, index = end_id - ledger.entries, ledger.end_index
    if not 0 < count <= end_index - index:
        return None
    last_indexes = [*range(index, index + count - 1), end_index - 1]
    block = Block(
        ledger.ledger_id,
        ledger.entries,
        bytes(count * HEADER_SIZE),
        [HEADER_SIZE] * count,
        last_indexes,
        [0] * count,
        ledger.last_time_ms,
    )
    return Salvaged(block, [(index, end_index)])


def is_stored(body: bytes, ledger: Ledger, files: Files) -> bool:
    """Does the ledger have the entries of a damaged record already, with these very indexes?"""
    try:
        block = Block.decode(body, "journal")
    except CorruptData:
        return False
    end_id = block.first_entry_id + block.entry_count
    if block.ledger_id != ledger.ledger_id or end_id > ledger.entries:
        return False
    first, _, _ = ledger.indexes(block.first_entry_id, files)
    _, end, _ = ledger.indexes(end_id - 1, files)
    return (first, end) == (first_index_of(block), block.end_index)


def first_index_of(block: Block) -> int:
    """The index that a block begins with."""
    *_, count, _, _ = HEADER.unpack_from(block.data)
    return int(block.last_indexes[0] - count + 1)
