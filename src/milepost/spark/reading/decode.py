"""Entries to Arrow batches: by the compiled reader, or the plain one.

    decoder = Decoder("persistent://public/default/t", columns=("index", "value"))
    for batch in decoder.batches(raw_entries, first_index=10, end_index=500): ...

Chunked messages are put together on the way (chunks.py) and stand where their last chunk does; markers are
dropped, and so are messages outside the range. Decompression is done entry by entry by its own libraries;
checksums are compared for every entry. What the compiled reader does not take is read plainly, which gives
the same rows or an `Undecodable` that names the entry.

Touching memory for the first time costs as much as decoding what is put there. So a decoder keeps the room it
works in from one group of entries to the next, what is the same in all rows is made once, and only what a
batch keeps is new.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from milepost.errors import Undecodable
from milepost.positions.names import TopicName
from milepost.spark.reading import scan
from milepost.spark.reading.blocks import Block
from milepost.spark.reading.chunks import Chunk, SliceChunks, is_chunk
from milepost.spark.reading.compiled_bytes import HAS_CRC32C
from milepost.spark.reading.entries import (
    RawEntry,
    chunked_row,
    entry_rows,
    inflate,
    last_index,
    read_entry,
)
from milepost.spark.reading.scan import Field
from milepost.spark.values.columns import COLUMNS, Row, arrow_schema, to_batch
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import crc32c
from milepost.wire.metadata import is_marker

# Arrow counts the bytes of a column in 32 bits.
ARRAY_SIZE_MAX: Final = (1 << 31) - 1
# A KeyValue takes six bytes at least.
_PAIR_SIZE_MIN: Final = 6
# An array is kept as it was written if so much of its room is filled; otherwise what is written is copied.
_KEPT_SHARE: Final = 0.75
# Checksums of so many bytes are computed by compiled code: a call of the library takes longer than the bytes,
# and never pays where the machine has an instruction for them.
COMPILED_CHECK_SIZE: Final = 1 << 62 if HAS_CRC32C else 2048

_NUMBERS: Final = (
    "index",
    "ledger_id",
    "entry_id",
    "publish_time",
    "event_time",
    "sequence_id",
    "batch_index",
)
_TEXTS: Final = ("key", "value", "message_id", "producer", "schema_version", "properties")
_SAME: Final = ("topic", "partition", "first_chunk_id")
_FLAGS: Final = {"key": 0, "value": 1, "event_time": 2, "schema_version": 3}


class Decoder:
    """Turns entries of one partition into batches of the columns that are wanted."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[str] = COLUMNS,
        chunks: SliceChunks | None = None,
    ) -> None:
        """`chunks` puts chunked messages together; without it they are passed over."""
        self.topic = topic
        self.partition = TopicName.parse(topic).partition
        self.columns = tuple(columns)
        self.schema = arrow_schema(self.columns)
        self._wants = np.array([name in self.columns for name in _TEXTS])
        self._chunks = chunks
        # The entries of a group, one behind the other.
        self._joined = io.BytesIO()
        self._room = _Room()
        # By column: an array that has the same in each row, as long as the longest batch so far.
        self._same: dict[str, pa.Array] = {}

    def batches(
        self, entries: Sequence[RawEntry], first_index: int, end_index: int
    ) -> Iterator[pa.RecordBatch]:
        """The messages of entries, as `block_batches` has them."""
        return self.block_batches([Block.of(entries)], first_index, end_index)

    def block_batches(
        self, blocks: Sequence[Block], first_index: int, end_index: int
    ) -> Iterator[pa.RecordBatch]:
        """The messages of the entries that lie in the range, in order, none of them empty batches.
        One call is done before the next: they share the room."""
        if not blocks:
            return
        block = blocks[0] if len(blocks) == 1 else self._together(blocks)
        data = np.frombuffer(block.data, np.uint8)
        # As an array of bytes is: or the loops would be compiled a second time for it.
        data.flags.writeable = False
        while len(block):
            batch, taken = self._compiled(block, data, first_index, end_index)
            if batch is not None and batch.num_rows:
                yield batch
            if taken < len(block):
                rows = self._plain(block[taken], first_index, end_index)
                if rows:
                    yield to_batch(rows, self.columns)
                taken += 1
            block = block.part(taken, len(block))

    def _plain(self, entry: RawEntry, first_index: int, end_index: int) -> list[Row]:
        """What is unusual: chunks, markers, and entries that the compiled reader does not take."""
        parts = read_entry(entry)
        if is_marker(parts.metadata):
            return []
        if not is_chunk(parts):
            return entry_rows(self.topic, self.partition, entry, first_index, end_index)
        whole = self._chunks.add(Chunk(entry, parts)) if self._chunks is not None else None
        if whole is None or not first_index <= last_index(parts, entry) < end_index:
            return []
        return [chunked_row(self.topic, self.partition, *whole)]

    def _compiled(
        self, block: Block, data: Any, first_index: int, end_index: int
    ) -> tuple[pa.RecordBatch | None, int]:
        """A batch of the first entries, and how many they are."""
        room = self._room.of("heads", len(block) * Field.COUNT_OF * 8)
        heads = room.view(np.int64).reshape(len(block), Field.COUNT_OF)
        unusual = scan.scan_entries(data, block.begins, block.ends, block.stored, heads)
        count = len(block) if unusual == scan.DONE else int(unusual)
        heads = heads[:count]
        count = scan.count_fitting(block.begins, block.ends, heads, ARRAY_SIZE_MAX)
        heads = heads[:count]
        if not count:
            return None, 0
        block = block.part(0, count)
        _check(block, data, heads)
        payloads = _payloads(block, data, heads)
        return self._rows(block, data, payloads, heads, first_index, end_index)

    def _together(self, blocks: Sequence[Block]) -> Block:
        """Blocks one behind the other. Gone with the next group."""
        joined = self._joined
        joined.seek(0)
        before = []
        for one in blocks:
            # Of a large block that only a part is wanted of, only that part is taken.
            first, end = int(one.begins[0]), int(one.ends[-1])
            before.append(joined.tell() - first)
            joined.write(memoryview(one.data)[first:end])
        data = joined.getbuffer()[: joined.tell()]
        return Block(
            data,
            np.concatenate([one.ledger_ids for one in blocks]),
            np.concatenate([one.entry_ids for one in blocks]),
            np.concatenate([one.begins + at for one, at in zip(blocks, before, strict=True)]),
            np.concatenate([one.ends + at for one, at in zip(blocks, before, strict=True)]),
            np.concatenate([one.stored for one in blocks]),
        )

    def _rows(
        self,
        block: Block,
        data: Any,
        payloads: Any,
        heads: Any,
        first_index: int,
        end_index: int,
    ) -> tuple[pa.RecordBatch, int]:
        rows_max, payloads_size, producers, versions = scan.room_needed(heads)
        bytes_max = block.size + payloads_size
        numbers = np.empty((len(_NUMBERS), rows_max), np.int64)
        flags = self._room.of("flags", len(_FLAGS) * rows_max).reshape(len(_FLAGS), rows_max)
        ends = np.empty((len(_TEXTS), rows_max + 1), np.int32)
        wants = dict(zip(_TEXTS, self._wants, strict=True))
        pairs_max = bytes_max // _PAIR_SIZE_MIN if wants["properties"] else 0
        pair_ends = np.empty((2, pairs_max + 1), np.int32)
        ends[:, 0] = pair_ends[:, 0] = 0
        pairs_size = bytes_max if wants["properties"] else 0
        # Of values, producers and versions it is known how long they are, nearly: they are written where
        # they stay. The others are written where there is room for anything.
        texts = (
            self._room.of("key", bytes_max if wants["key"] else 0),
            np.empty(payloads_size if wants["value"] else 0, np.uint8),
            self._room.of("message_id", scan.ID_SIZE_MAX * rows_max if wants["message_id"] else 0),
            np.empty(producers if wants["producer"] else 0, np.uint8),
            np.empty(versions if wants["schema_version"] else 0, np.uint8),
            self._room.of("names", pairs_size),
            self._room.of("items", pairs_size),
        )
        rows, unusual = scan.scan_rows(
            data,
            payloads,
            heads,
            block.ledger_ids,
            block.entry_ids,
            first_index,
            end_index,
            self.partition,
            self._wants,
            numbers,
            flags.view(np.bool_),
            ends,
            pair_ends,
            texts,
        )
        taken = len(block) if unusual == scan.DONE else int(unusual)
        arrays = [
            self._array(name, int(rows), numbers, flags.view(np.bool_), ends, pair_ends, texts)
            for name in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), taken

    def _array(
        self, name: str, rows: int, numbers: Any, flags: Any, ends: Any, pair_ends: Any, texts: Any
    ) -> pa.Array:
        kind = self.schema.field(name).type
        nulls = None
        if name in _FLAGS:
            flag = flags[_FLAGS[name], :rows]
            if not flag.all():
                nulls = pa.py_buffer(np.packbits(flag, bitorder="little"))
        if name in _SAME:
            return self._same_array(name, rows)
        if name == "batch_index":
            values = numbers[_NUMBERS.index(name), :rows].astype(np.int32)
            return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(values)])
        if name in _NUMBERS:
            values = numbers[_NUMBERS.index(name), :rows]
            return pa.Array.from_buffers(kind, rows, [nulls, pa.py_buffer(values)])
        column = _TEXTS.index(name)
        column_ends = ends[column, : rows + 1]
        if name != "properties":
            return _bytes_array(kind, rows, column_ends, texts[column], nulls)
        pairs = int(column_ends[rows])
        names = _bytes_array(pa.string(), pairs, pair_ends[0, : pairs + 1], texts[column], None)
        items = _bytes_array(pa.string(), pairs, pair_ends[1, : pairs + 1], texts[column + 1], None)
        both = pa.StructArray.from_arrays([names, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(column_ends)], children=[both])

    def _same_array(self, name: str, rows: int) -> pa.Array:
        found = self._same.get(name)
        if found is None or len(found) < rows:
            values = {"topic": self.topic, "partition": self.partition, "first_chunk_id": None}
            found = pa.repeat(pa.scalar(values[name], self.schema.field(name).type), rows)
            self._same[name] = found
        return found.slice(0, rows)


class _Room:
    """Bytes to work in, by name: kept, and made larger where that is needed. Nothing may keep them."""

    def __init__(self) -> None:
        self._arrays: dict[str, Any] = {}

    def of(self, name: str, size: int) -> Any:
        found = self._arrays.get(name)
        if found is None or len(found) < size:
            found = self._arrays[name] = np.empty(size, np.uint8)
        return found[:size]


def _bytes_array(kind: pa.DataType, rows: int, ends: Any, data: Any, nulls: Any) -> pa.Array:
    written = data[: int(ends[rows])]
    # Neither what is worked in nor much that is empty is kept.
    if data.base is not None or len(written) < _KEPT_SHARE * len(data):
        written = written.copy()
    return pa.Array.from_buffers(kind, rows, [nulls, pa.py_buffer(ends), pa.py_buffer(written)])


def _check(block: Block, data: Any, heads: Any) -> None:
    """Compare the checksums."""
    wrong = np.empty(len(block), np.uint8)
    scan.scan_checksums(data, block.ends, heads, COMPILED_CHECK_SIZE, wrong)
    view = memoryview(block.data)
    for number in np.flatnonzero(wrong).tolist():
        checked = view[heads[number, Field.CHECKED_AT] : block.ends[number]]
        stated = int(heads[number, Field.CHECKSUM])
        if wrong[number] == 1 or crc32c(bytes(checked)) != stated:
            raise Undecodable(f"entry {block[number].place}: its checksum is not {stated:#010x}")


def _payloads(block: Block, data: Any, heads: Any) -> Any:
    """Where the payloads lie when they are decompressed; `heads` is changed to say so."""
    kinds = heads[:, Field.COMPRESSION]
    # A kind that is not known is an unknown field to the library, and so no compression at all.
    compressed = np.flatnonzero((kinds > pb.NONE) & (kinds <= pb.SNAPPY))
    if not len(compressed):
        return data
    parts, end = [data], len(data)
    for number in compressed.tolist():
        head = heads[number]
        payload = data[head[Field.PAYLOAD_AT] : head[Field.PAYLOAD_END]]
        found = inflate(
            int(head[Field.COMPRESSION]),
            int(head[Field.UNCOMPRESSED_SIZE]),
            memoryview(payload),
            block[number],
        )
        parts.append(np.frombuffer(found, np.uint8))
        head[Field.PAYLOAD_AT] = end
        end += len(found)
        head[Field.PAYLOAD_END] = end
    joined = np.concatenate(parts)
    # As `data` is.
    joined.flags.writeable = False
    return joined
