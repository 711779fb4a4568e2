"""The compiled reader: entries to arrays (Numba). Numba, cached on disk.

Two loops. `scan_entries` reads what stands before the payload of each entry, as numbers into a matrix of one
row an entry (`Field`). `scan_rows` reads the payloads, batch or not, and writes the columns: numbers into
arrays, bytes one after another with an array of where each begins.

It never decides what is right: bytes that it does not take (`UNUSUAL`) are read again by the plain reader
in entries.py, which takes them or says what is wrong. It reads nothing beyond the bytes it is given.

    head, rows = np.empty((1, Field.COUNT_OF), np.int64), Rows.room_for(...)
    scan_entries(data, begins, ends, head)
    scan_rows(data, data, head, ..., rows)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from milepost.spark.reading.compiled_bytes import (
    compiled,
    copy,
    crc32c_of,
    is_text,
    put_base64,
    put_varint,
    signed32,
    size32,
    varint,
)

# What a loop says: done, or the number of the entry that it does not take.
DONE: Final = -1


class Field:
    """Columns of the matrix. `_AT` is a place in the bytes, `_SIZE` -1 where there is nothing."""

    INDEX: Final = 0
    CHECKSUM: Final = 1
    CHECKED_AT: Final = 2
    """What the checksum covers begins here; -1 without one."""
    SEQUENCE_ID: Final = 3
    PUBLISH_TIME: Final = 4
    EVENT_TIME: Final = 5
    BATCH: Final = 6
    """Messages of the batch; -1 if it is none."""
    COMPRESSION: Final = 7
    UNCOMPRESSED_SIZE: Final = 8
    PRODUCER_AT: Final = 9
    PRODUCER_SIZE: Final = 10
    SCHEMA_AT: Final = 11
    SCHEMA_SIZE: Final = 12
    SPECIAL: Final = 13
    """1: a chunk, a marker or encrypted."""
    METADATA_AT: Final = 14
    METADATA_END: Final = 15
    PAYLOAD_AT: Final = 16
    PAYLOAD_END: Final = 17
    KEY_AT: Final = 18
    KEY_SIZE: Final = 19
    TRAITS: Final = 20
    """Of a message that is no batch: what its metadata says in a bit."""
    COUNT_OF: Final = 21


# Names for the compiler, which takes globals for constants.
_INDEX, _CHECKSUM, _CHECKED_AT = Field.INDEX, Field.CHECKSUM, Field.CHECKED_AT
_SEQUENCE_ID, _PUBLISH_TIME, _EVENT_TIME = (
    Field.SEQUENCE_ID,
    Field.PUBLISH_TIME,
    Field.EVENT_TIME,
)
_BATCH, _COMPRESSION, _UNCOMPRESSED = Field.BATCH, Field.COMPRESSION, Field.UNCOMPRESSED_SIZE
_PRODUCER_AT, _PRODUCER_SIZE = Field.PRODUCER_AT, Field.PRODUCER_SIZE
_SCHEMA_AT, _SCHEMA_SIZE, _SPECIAL = Field.SCHEMA_AT, Field.SCHEMA_SIZE, Field.SPECIAL
_METADATA_AT, _METADATA_END = Field.METADATA_AT, Field.METADATA_END
_PAYLOAD_AT, _PAYLOAD_END = Field.PAYLOAD_AT, Field.PAYLOAD_END
_KEY_AT, _KEY_SIZE, _TRAITS = Field.KEY_AT, Field.KEY_SIZE, Field.TRAITS

# Where a message's properties are compared each with each; more of them are left to the plain reader.
PROPERTIES_MAX: Final = 64


# What the metadata of one message says in a bit.
HAS_SEQUENCE: Final = 1
KEY_BASE64: Final = 2
VALUE_NULL: Final = 4
KEY_NULL: Final = 8
COMPACTED_OUT: Final = 16
HAS_PROPERTIES: Final = 32


# SingleMessageMetadata, its size in front of it: what a message of a batch takes at least.
SINGLE_SIZE_MIN: Final = 6
# What a message's id can take: five tags and varints of 10, 10, 5, 5 and 5 bytes.
ID_SIZE_MAX: Final = 40


@compiled
def _metadata(data, at, end, row):
    """Fields of MessageMetadata; False for what is not as clients write it."""
    row[_SEQUENCE_ID] = row[_PUBLISH_TIME] = row[_EVENT_TIME] = 0
    row[_BATCH] = -1
    row[_COMPRESSION] = row[_UNCOMPRESSED] = row[_SPECIAL] = 0
    row[_PRODUCER_SIZE] = row[_SCHEMA_SIZE] = -1
    row[_PRODUCER_AT] = row[_SCHEMA_AT] = row[_KEY_AT] = 0
    row[_KEY_SIZE] = -1
    traits = np.int64(0)
    required = 0
    while at < end:
        tag, at = varint(data, at, end)
        if at < 0:
            return False
        wire_type = tag & 7
        field = tag >> 3
        if wire_type == 0:
            value, at = varint(data, at, end)
            if at < 0:
                return False
            if field == 2:
                row[_SEQUENCE_ID] = value
                required |= 2
            elif field == 3:
                row[_PUBLISH_TIME] = value
                required |= 4
            elif field == 8:
                row[_COMPRESSION] = value
            elif field == 9:
                row[_UNCOMPRESSED] = value & 0xFFFFFFFF
            elif field == 11:
                row[_BATCH] = signed32(value)
                if row[_BATCH] < 1:
                    return False
            elif field == 12:
                row[_EVENT_TIME] = value
            elif field == 17 or field == 25 or field == 30:
                bit = KEY_BASE64 if field == 17 else VALUE_NULL if field == 25 else KEY_NULL
                traits = traits | bit if value else traits & ~bit
            elif field == 20 or field == 27 or field == 29:
                row[_SPECIAL] = 1  # a marker, or a chunk
        elif wire_type == 2:
            size, at = varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return False
            if field == 1:
                row[_PRODUCER_AT] = at
                row[_PRODUCER_SIZE] = size
                required |= 1
                if not is_text(data, at, at + size):
                    return False
            elif field == 6:
                row[_KEY_AT] = at
                row[_KEY_SIZE] = size
            elif field == 4:
                traits |= HAS_PROPERTIES
            elif field == 16:
                row[_SCHEMA_AT] = at
                row[_SCHEMA_SIZE] = size
            elif field == 13:
                row[_SPECIAL] = 1  # encrypted
            elif field == 2 or field == 3 or field == 11 or field == 20:
                return False
            at += size
        else:
            return False
    if traits & KEY_NULL:
        row[_KEY_SIZE] = -1
    row[_TRAITS] = traits
    return required == 7


@compiled
def _index(data, at, end):
    """The index that the broker wrote in front of an entry, and where the entry goes on; -1: it is not
    as brokers write it."""
    if end - at < 6 or data[at] != 0x0E or data[at + 1] != 0x02:
        return np.int64(-1), at
    block_end = at + 6 + size32(data, at + 2)
    if block_end > end:
        return np.int64(-1), at
    at += 6
    index = np.int64(-1)
    while at < block_end:
        tag, at = varint(data, at, block_end)
        if at < 0 or tag & 7 != 0:
            return np.int64(-1), at
        value, at = varint(data, at, block_end)
        if at < 0:
            return np.int64(-1), at
        if tag == 16:
            index = value
    return index, at


@compiled
def scan_entries(data, begins, ends, stored, heads):
    """Read what stands before each payload, up to the first entry that is not taken: that is special, or
    not as clients write it. Entry n is `data[begins[n]:ends[n]]`; `stored[n]` is its index if that does
    not stand in front of it, else -1."""
    for number in range(len(begins)):
        at = begins[number]
        end = ends[number]
        row = heads[number]
        index = stored[number]
        if index < 0:
            index, at = _index(data, at, end)
        if index < 0:
            return number
        row[_INDEX] = index
        row[_CHECKED_AT] = -1
        row[_CHECKSUM] = 0
        if end - at >= 6 and data[at] == 0x0E and data[at + 1] == 0x01:
            row[_CHECKSUM] = size32(data, at + 2)
            at += 6
            row[_CHECKED_AT] = at
        if end - at < 4:
            return number
        metadata_end = at + 4 + size32(data, at)
        if metadata_end > end:
            return number
        row[_METADATA_AT] = at + 4
        row[_METADATA_END] = metadata_end
        row[_PAYLOAD_AT] = metadata_end
        row[_PAYLOAD_END] = end
        if not _metadata(data, at + 4, metadata_end, row) or row[_SPECIAL]:
            return number
    return DONE


@compiled
def count_fitting(begins, ends, heads, size_max):
    """How many entries from the first on stay below what one array may hold; one may be unusual."""
    total = np.int64(0)
    for number in range(len(heads)):
        size = ends[number] - begins[number]
        payload = max(size, min(heads[number, _UNCOMPRESSED], np.int64(1) << 32))
        rows = min(max(heads[number, _BATCH], 1), payload // SINGLE_SIZE_MIN + 1)
        repeated = max(heads[number, _PRODUCER_SIZE], heads[number, _SCHEMA_SIZE])
        total += max(size + payload, rows * max(repeated, ID_SIZE_MAX))
        if total > size_max:
            return number
    return len(heads)


@compiled
def room_needed(heads):
    """What the columns of entries take at most: rows, and bytes of payloads, producers and versions."""
    rows = payloads = producers = versions = np.int64(0)
    for number in range(len(heads)):
        payload = heads[number, _PAYLOAD_END] - heads[number, _PAYLOAD_AT]
        # A batch may state what it likes; what its bytes can hold is what room is made for.
        count = min(max(heads[number, _BATCH], 1), payload // SINGLE_SIZE_MIN + 1)
        rows += count
        payloads += payload
        producers += heads[number, _PRODUCER_SIZE] * count
        versions += max(heads[number, _SCHEMA_SIZE], 0) * count
    return rows, payloads, producers, versions


@compiled
def scan_last_indexes(data, begins, ends, found):
    """The index of each entry's last message, from its first bytes; -1 where they are not as brokers
    write them: magic, size, then the two fields."""
    for number in range(len(begins)):
        at = begins[number]
        end = ends[number]
        found[number] = -1
        if end - at < 10 or data[at] != 0x0E or data[at + 1] != 0x02 or data[at + 6] != 8:
            continue
        _, at = varint(data, at + 7, end)
        if at < 0 or at >= end or data[at] != 16:
            continue
        index, at = varint(data, at + 1, end)
        if at >= 0:
            found[number] = index


# The header of an entry as the log has it (docs/format.md): numbers, little-endian.
STORED_SIZE_MIN: Final = 48


@compiled
def _little(data, at, size):
    value = np.int64(0)
    for step in range(size):
        value |= np.int64(data[at + step]) << (8 * step)
    return value


@compiled
def scan_stored(data, ledger_id, first_entry_id, begins, ends, lasts):
    """Find the entries in bytes of the log: as many as there is room for, that fill all of it. False if
    they are not those, or not intact."""
    at = np.int64(0)
    before = np.int64(-1)
    for number in range(len(begins)):
        if len(data) - at < STORED_SIZE_MIN:
            return False
        size = _little(data, at, 4)
        end = at + STORED_SIZE_MIN + size
        last = _little(data, at + 24, 8)
        if (
            end > len(data)
            or _little(data, at + 8, 8) != ledger_id
            or _little(data, at + 16, 8) != first_entry_id + number
            or last <= before
            or _little(data, at + 46, 2) != 0  # nothing stands beside a plain entry
            or crc32c_of(data, at + 8, end) != np.uint32(_little(data, at + 4, 4))
        ):
            return False
        begins[number] = at + STORED_SIZE_MIN
        ends[number] = end
        lasts[number] = before = last
        at = end
    return at == len(data)


@compiled
def scan_checksums(data, ends, heads, size_max, wrong):
    """Say of each entry that has a checksum whether it is another; 2 for one that is longer than
    `size_max`, which is compared by a library."""
    for number in range(len(heads)):
        at = heads[number, _CHECKED_AT]
        end = ends[number]
        wrong[number] = 0
        if at < 0:
            continue
        if end - at > size_max:
            wrong[number] = 2
            continue
        if crc32c_of(data, at, end) != np.uint32(heads[number, _CHECKSUM]):
            wrong[number] = 1


@compiled
def _pair(data, at, end, pairs, number):
    """KeyValue: where its key and its value are."""
    pairs[number, 1] = -1
    pairs[number, 3] = -1
    while at < end:
        tag, at = varint(data, at, end)
        if at < 0 or (tag != 10 and tag != 18):
            return False
        size, at = varint(data, at, end)
        if at < 0 or size < 0 or size > end - at or not is_text(data, at, at + size):
            return False
        place = 0 if tag == 10 else 2
        pairs[number, place] = at
        pairs[number, place + 1] = size
        at += size
    return pairs[number, 1] >= 0 and pairs[number, 3] >= 0


@compiled
def _same(data, pairs, one, other):
    """Have two properties one name?"""
    if pairs[one, 1] != pairs[other, 1]:
        return False
    for step in range(pairs[one, 1]):  # noqa: SIM110  compiled: the generator would not be
        if data[pairs[one, 0] + step] != data[pairs[other, 0] + step]:
            return False
    return True


@compiled
def _single(data, at, end, properties):
    """SingleMessageMetadata: is it as clients write it; key, event time, payload size,
    sequence id, flags, number of properties."""
    key_at = key_size = event_time = sequence_id = np.int64(0)
    key_size = size = np.int64(-1)
    flags = np.int64(0)
    count = np.int64(0)
    while at < end:
        tag = np.int64(data[at])
        at += 1
        if tag > 127:
            tag, at = varint(data, at - 1, end)
            if at < 0:
                return False, key_at, key_size, event_time, size, sequence_id, flags, count
        wire_type = tag & 7
        if wire_type > 2 or wire_type == 1 or at >= end:
            return False, key_at, key_size, event_time, size, sequence_id, flags, count
        value = np.int64(data[at])
        at += 1
        if value > 127:
            value, at = varint(data, at - 1, end)
            if at < 0:
                return False, key_at, key_size, event_time, size, sequence_id, flags, count
        if wire_type == 0:
            if tag == 24:
                size = signed32(value)
            elif tag == 40:
                event_time = value
            elif tag == 64:
                sequence_id = value
                flags |= HAS_SEQUENCE
            elif tag == 48:
                flags = flags | KEY_BASE64 if value else flags & ~KEY_BASE64
            elif tag == 72:
                flags = flags | VALUE_NULL if value else flags & ~VALUE_NULL
            elif tag == 80:
                flags = flags | KEY_NULL if value else flags & ~KEY_NULL
            elif tag == 32:
                flags = flags | COMPACTED_OUT if value else flags & ~COMPACTED_OUT
            continue
        if value < 0 or value > end - at:
            return False, key_at, key_size, event_time, size, sequence_id, flags, count
        if tag == 18:
            key_at = at
            key_size = value
        elif tag == 10:
            if count == PROPERTIES_MAX or not _pair(data, at, at + value, properties, count):
                return False, key_at, key_size, event_time, size, sequence_id, flags, count
            count += 1
        at += value
    if flags & KEY_NULL:
        key_size = np.int64(-1)
    return size >= 0, key_at, key_size, event_time, size, sequence_id, flags, count


@compiled
def _properties(data, at, end, properties):
    """The properties in MessageMetadata, which `_metadata` has taken; how many, -1: not as clients write
    them."""
    count = np.int64(0)
    while at < end:
        tag, at = varint(data, at, end)
        value, at = varint(data, at, end)
        if tag & 7 == 0:
            continue
        if tag == 34:
            if count == PROPERTIES_MAX or not _pair(data, at, at + value, properties, count):
                return np.int64(-1)
            count += 1
        at += value
    return count


@compiled
def _put_pairs(data, pairs, count, names, items, pair_ends, pair_count):
    """The properties of one message; the number of pairs written up to here. As in a dict, the newest
    value of a name stands where the name came first."""
    for one in range(count):
        is_first = True
        for other in range(one):
            if _same(data, pairs, other, one):
                is_first = False
                break
        if not is_first:
            continue
        newest = one
        for other in range(one + 1, count):
            if _same(data, pairs, other, one):
                newest = other
        at = pair_ends[0, pair_count]
        copy(data, pairs[one, 0], pairs[one, 1], names, at)
        pair_ends[0, pair_count + 1] = at + pairs[one, 1]
        at = pair_ends[1, pair_count]
        copy(data, pairs[newest, 2], pairs[newest, 3], items, at)
        pair_ends[1, pair_count + 1] = at + pairs[newest, 3]
        pair_count += 1
    return pair_count


@compiled
def _put_id(ids, at, ledger_id, entry_id, partition, batch_index, batch_size):
    """A message id as official clients serialise it."""
    ids[at] = 0x08
    at = put_varint(ids, at + 1, ledger_id)
    ids[at] = 0x10
    at = put_varint(ids, at + 1, entry_id)
    if partition >= 0:
        ids[at] = 0x18
        at = put_varint(ids, at + 1, partition)
    if batch_index >= 0:
        ids[at] = 0x20
        at = put_varint(ids, at + 1, batch_index)
        ids[at] = 0x30
        at = put_varint(ids, at + 1, batch_size)
    return at


@compiled
def scan_rows(
    entries, data, heads, ledger_ids, entry_ids, first_index, end_index, partition, wants,
    numbers, flags, ends, pair_ends, texts
):  # fmt: skip
    """Write the messages of all entries that lie in `[first_index, end_index)`.

    Payloads lie in `data`, where `heads` says. Gives the rows written, and DONE or the number of the
    entry that is not taken (whose rows are not written).
    """
    keys, values, ids, producers, schemas, names, items = texts
    wants_key, wants_value, wants_id = wants[0], wants[1], wants[2]
    wants_producer, wants_schema, wants_properties = wants[3], wants[4], wants[5]
    pairs = np.zeros((PROPERTIES_MAX, 4), np.int64)
    row = np.int64(0)
    pair_count = np.int64(0)
    key_end = value_end = id_end = producer_end = schema_end = np.int64(0)
    for number in range(len(heads)):
        # Where this entry begins: it is written as a whole or not at all.
        begin = row
        at = heads[number, _PAYLOAD_AT]
        end = heads[number, _PAYLOAD_END]
        batch_size = heads[number, _BATCH]
        is_batch = batch_size >= 0
        count = batch_size if is_batch else np.int64(1)
        index = heads[number, _INDEX] - count + 1
        ledger_id, entry_id = ledger_ids[number], entry_ids[number]
        sequence_id = heads[number, _SEQUENCE_ID]
        publish_us = heads[number, _PUBLISH_TIME] * 1000
        producer_at, producer_size = heads[number, _PRODUCER_AT], heads[number, _PRODUCER_SIZE]
        schema_at, schema_size = heads[number, _SCHEMA_AT], heads[number, _SCHEMA_SIZE]
        is_good = index >= 0
        for step in range(count):
            if not is_good:
                break
            if is_batch:
                if end - at < 4:
                    is_good = False
                    break
                value_at = at + 4 + size32(data, at)
                if value_at > end:
                    is_good = False
                    break
                is_good, key_at, key_size, event_time, size, own_sequence_id, own, pairs_here = (
                    _single(data, at + 4, value_at, pairs)
                )
                if not is_good or size > end - value_at:
                    is_good = False
                    break
            else:
                key_at, key_size = heads[number, _KEY_AT], heads[number, _KEY_SIZE]
                event_time, own_sequence_id = heads[number, _EVENT_TIME], np.int64(0)
                own = heads[number, _TRAITS]
                pairs_here = np.int64(0)
                if own & HAS_PROPERTIES:
                    pairs_here = _properties(
                        entries, heads[number, _METADATA_AT], heads[number, _METADATA_END], pairs
                    )
                    if pairs_here < 0:
                        is_good = False
                        break
                value_at, size = at, end - at
            at = value_at + size
            index += 1
            if index <= first_index or index > end_index or own & COMPACTED_OUT:
                continue
            numbers[0, row] = index - 1
            numbers[1, row] = ledger_id
            numbers[2, row] = entry_id
            numbers[3, row] = publish_us
            numbers[4, row] = event_time * 1000
            numbers[5, row] = own_sequence_id if own & HAS_SEQUENCE else sequence_id
            numbers[6, row] = step if is_batch else -1
            flags[0, row] = key_size >= 0
            flags[1, row] = own & VALUE_NULL == 0
            flags[2, row] = event_time != 0
            flags[3, row] = schema_size >= 0
            if wants_key:
                if key_size > 0:
                    written = np.int64(-1)
                    if own & KEY_BASE64:
                        written = np.int64(
                            put_base64(
                                data if is_batch else entries, key_at, key_size, keys, key_end
                            )
                        )
                    if written < 0:
                        written = key_size
                        copy(data if is_batch else entries, key_at, key_size, keys, key_end)
                    key_end += written
                ends[0, row + 1] = key_end
            if wants_value:
                if own & VALUE_NULL == 0:
                    copy(data, value_at, size, values, value_end)
                    value_end += size
                ends[1, row + 1] = value_end
            if wants_id:
                shown = step if is_batch else -1
                id_end = _put_id(ids, id_end, ledger_id, entry_id, partition, shown, batch_size)
                ends[2, row + 1] = id_end
            if wants_producer:
                copy(entries, producer_at, producer_size, producers, producer_end)
                producer_end += producer_size
                ends[3, row + 1] = producer_end
            if wants_schema:
                if schema_size > 0:
                    copy(entries, schema_at, schema_size, schemas, schema_end)
                    schema_end += schema_size
                ends[4, row + 1] = schema_end
            if wants_properties:
                if pairs_here:
                    pair_count = _put_pairs(
                        data if is_batch else entries, pairs, pairs_here, names, items, pair_ends,
                        pair_count
                    )  # fmt: skip
                ends[5, row + 1] = pair_count
            row += 1
        if not is_good or at != end:
            return begin, number
    return row, DONE
