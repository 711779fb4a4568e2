"""Adds the column `value` to batches, and deals with values that do not decode.

    raw batch ─▶ values by the schema that wrote them ─▶ one array each ─▶ in the order of the messages

A value that is not what its schema says is an error that names the message (`mode=failfast`), or a row whose
`value` is null and whose `_corrupt` has the bytes, the reason beside it (`mode=permissive`). Which one it is
in a batch is found by halving. A null value is null and not corrupt.

    typing = Typing(reader, permissive=True)
    for batch in TypedBatches(typing, topic, columns, kind, writers).of(raw_batches): ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from milepost.errors import MilepostError, SchemaMismatch, Undecodable
from milepost.schemas.types import SchemaInfo
from milepost.spark.values.columns import CORRUPT, CORRUPT_REASON
from milepost.spark.values.topic_schemas import TopicSchema
from milepost.spark.values.values import BAD, Codec, codec_of, with_nulls

# What decoding needs of each message, wanted or not.
NEEDED: Final = ("index", "key", "value", "schema_version")
_NO_VERSION: Final = b""


class Typing(NamedTuple):
    """How values are decoded. Made when a query is planned; goes with its tasks."""

    reader: TopicSchema
    permissive: bool
    is_given: bool = False
    """The type is the user's, and not of the topic's schema."""


def needed(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to fetch for those that are wanted."""
    own = [name for name in columns if name not in (CORRUPT, CORRUPT_REASON)]
    return tuple(dict.fromkeys([*own, *NEEDED]))


class TypedBatches:
    def __init__(
        self,
        typing: Typing,
        topic: str,
        schema: pa.Schema,
        writer_of: Callable[[bytes], SchemaInfo | None],
    ) -> None:
        """`schema` is what Spark wants; `writer_of` knows the schema of a version."""
        self._typing = typing
        self._topic = topic
        self._schema = schema
        self._kind = schema.field("value").type if "value" in schema.names else pa.binary()
        self._writer_of = writer_of
        # By version; a reason where there is none.
        self._codecs: dict[bytes, Codec | str] = {}

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Raw batches, which have at least `needed` columns, as they were asked for."""
        for batch in batches:
            yield self._typed(batch)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        bad: dict[int, str] = {}
        made = {"value": self._values(batch, bad)}
        if CORRUPT in self._schema.names or CORRUPT_REASON in self._schema.names:
            made |= _corrupt(batch, bad)
        arrays = [made[name] if name in made else batch[name] for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _values(self, batch: pa.RecordBatch, bad: dict[int, str]) -> pa.Array:
        """The values of a batch; `bad` is told which of them are not, by row."""
        versions = batch["schema_version"].fill_null(_NO_VERSION).dictionary_encode()
        kinds = versions.dictionary.to_pylist()
        if len(kinds) == 1:
            return self._written(batch, np.arange(batch.num_rows), kinds[0], bad)
        found, order = [], []
        numbers = versions.indices.to_numpy()
        for number, version in enumerate(kinds):
            rows = np.flatnonzero(numbers == number)
            found.append(self._written(batch.take(pa.array(rows)), rows, version, bad))
            order.append(rows)
        return pa.concat_arrays(found).take(pa.array(np.argsort(np.concatenate(order))))

    def _written(
        self, batch: pa.RecordBatch, rows: np.ndarray, version: bytes, bad: dict[int, str]
    ) -> pa.Array:
        """Values that one schema wrote."""
        values, keys = batch["value"], batch["key"]
        if values.null_count:
            there = values.is_valid()
            rows, keys = rows[there.to_numpy(zero_copy_only=False)], keys.filter(there)
        indexes = batch["index"].filter(values.is_valid())
        codec = self._codec(version)

        def decode(there: pa.Array) -> pa.Array:
            return self._halved(codec, there, keys, indexes, rows, bad)

        return with_nulls(values, self._kind, decode)

    def _codec(self, version: bytes) -> Codec | str:
        if version not in self._codecs:
            reader = self._typing.reader.info
            writer = reader if self._typing.is_given else self._writer_of(version)
            number = int.from_bytes(version, "big")
            if writer is None:
                self._codecs[version] = f"the topic has no schema of version {number}"
            else:
                try:
                    self._codecs[version] = codec_of(writer, reader, self._kind)
                except MilepostError as error:
                    self._codecs[version] = f"schema version {number}: {error}"
        return self._codecs[version]

    def _halved(
        self,
        codec: Codec | str,
        values: pa.Array,
        keys: pa.Array,
        indexes: pa.Array,
        rows: np.ndarray,
        bad: dict[int, str],
    ) -> pa.Array:
        """All values, or the two halves of them: the first that is bad is met first."""
        try:
            if isinstance(codec, str):
                raise SchemaMismatch(codec)
            return codec.array(values, keys)
        except BAD as error:
            count = len(values)
            if isinstance(codec, str) and self._typing.permissive:
                bad.update(dict.fromkeys(rows.tolist(), codec))
                return pa.nulls(count, self._kind)
            if count == 1 or isinstance(codec, str):
                if not self._typing.permissive:
                    kind = self._typing.reader.info.type.name
                    raise Undecodable(
                        f"{self._topic}: message {indexes[0].as_py()} is not what its {kind} schema "
                        f"says: {error}; mode=permissive keeps such rows apart"
                    ) from None
                bad[int(rows[0])] = str(error)
                return pa.nulls(1, self._kind)
        half = count // 2
        cut = (slice(None, half), slice(half, None))
        return pa.concat_arrays(
            [
                self._halved(codec, values[one], keys[one], indexes[one], rows[one], bad)
                for one in cut
            ]
        )


def _corrupt(batch: pa.RecordBatch, bad: dict[int, str]) -> dict[str, pa.Array]:
    """Bytes and reasons of the rows that are bad, nulls for the others."""
    count = batch.num_rows
    if not bad:
        return {CORRUPT: pa.nulls(count, pa.binary()), CORRUPT_REASON: pa.nulls(count, pa.string())}
    reasons = pa.array([bad.get(row) for row in range(count)], pa.string())
    raw = pc.if_else(reasons.is_valid(), batch["value"], pa.scalar(None, pa.binary()))
    return {CORRUPT: raw, CORRUPT_REASON: reasons}
