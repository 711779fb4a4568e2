"""The sink: rows to topics, once or at least once.

`atLeastOnce` writes what a task is given; a task that is tried again writes again. `exactlyOnce` needs rows
that derive one to one from a Milepost source and still have its `topic` and `index`: the index numbers the
message, and the producer is named by the query, the source partition and the block of indexes that it lies
in. Streams are sliced at block boundaries, so that a block is written by one task at a time and in order,
whatever fails.

Spark does not promise the same rows to a task that is tried again behind a shuffle (SPARK-28650), so nothing
is numbered by a row's place in its task: it would drop other rows silently. Rows that come out of order, and
a block that came from two tasks, fail the query with what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from milepost.errors import InvalidOption, NotAllowed, ProducerBusy
from milepost.positions.names import TopicName
from milepost.spark.offsets import BLOCK_MESSAGES
from milepost.spark.options import WriteOptions
from milepost.spark.patience import patiently
from milepost.spark.publish import Outgoing, Publisher, check_deduplication
from milepost.spark.survey import partitions_of
from milepost.wire import murmur3_32

# What Spark gives a task to know its query and batch by; not documented, so their absence is an error.
_QUERY_PROPERTY: Final = "sql.streaming.queryId"

TAKEN: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "properties": ("map<string,string>",),
    "event_time": ("timestamp",),
}
"""Columns that are written, and the types that they may have. Others are ignored."""
SOURCE: Final = {"topic": ("string",), "index": ("bigint",)}
"""What exactly once goes by."""


@dataclass
class Written(WriterCommitMessage):
    """What a task did: messages, and the blocks of source indexes that they came from."""

    count: int = 0
    blocks: set[tuple[str, int]] = field(default_factory=set)


class _Writes:
    """What both kinds of writer do."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        types = {one.name: one.dataType.simpleString() for one in schema.fields}
        if "value" not in types:
            raise InvalidOption("there is no column value to be written")
        wanted: dict[str, tuple[str, ...]] = dict(TAKEN)
        if options.delivery == "exactlyOnce":
            wanted |= SOURCE
            missing = [name for name in SOURCE if name not in types]
            if missing:
                raise InvalidOption(
                    f"delivery=exactlyOnce goes by the source's topic and index, and the rows have no "
                    f"{missing[0]}: keep both columns, or use delivery=atLeastOnce"
                )
        for name, allowed in wanted.items():
            if name in types and types[name] not in allowed:
                raise InvalidOption(
                    f"column {name} is {types[name]}, it must be {' or '.join(allowed)}"
                )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        targets = partitions_of(self._options.connection, self._options.topic)
        if self._options.delivery == "exactlyOnce":
            return self._write_once(iterator, targets)
        return self._write_plainly(iterator, targets)

    def _write_plainly(self, iterator: Iterator[pa.RecordBatch], targets: list[str]) -> Written:
        done = Written()
        publishers: dict[str, Publisher] = {}
        numbers = dict.fromkeys(targets, 0)
        try:
            for batch in iterator:
                by_target: dict[str, list[Outgoing]] = {}
                for row in _rows(batch):
                    target = _route(row, targets, done.count)
                    by_target.setdefault(target, []).append(_outgoing(row, numbers[target]))
                    numbers[target] += 1
                    done.count += 1
                for target, messages in by_target.items():
                    if target not in publishers:
                        publishers[target] = self._publisher(target, None)
                    publishers[target].send(messages)
        except BaseException as error:
            for one in publishers.values():
                one.__exit__(type(error), error, None)
            raise
        for one in publishers.values():
            one.__exit__(None, None, None)
        return done

    def _write_once(self, iterator: Iterator[pa.RecordBatch], targets: list[str]) -> Written:
        done = Written()
        query = self._query()
        last: dict[str, int] = {}
        for batch in iterator:
            # Consecutive rows of one block and one target go through one producer.
            groups: dict[tuple[str, str, int], list[Outgoing]] = {}
            for row in _rows(batch):
                source, index = row["topic"], row["index"]
                if source is None or index is None or index <= last.get(source, -1):
                    raise NotAllowed(
                        f"row {index} of {source} came behind row {last.get(source)}: exactly once needs "
                        "rows in the order of the source, as there is without a shuffle between; use "
                        "delivery=atLeastOnce"
                    )
                last[source] = index
                block = (source, index // BLOCK_MESSAGES)
                done.blocks.add(block)
                target = _route(row, targets, TopicName.parse(source).partition)
                groups.setdefault((target, *block), []).append(_outgoing(row, index))
                done.count += 1
            for (target, source, number), messages in groups.items():
                self._send_block(target, f"{query}/{source}/{number}", messages)
        return done

    def _send_block(self, target: str, name: str, messages: list[Outgoing]) -> None:
        connection = self._options.connection
        with self._publisher(target, name) as publisher:
            is_new = publisher.last_sequence_id < 0
            publisher.send(messages)
        if is_new:
            check_deduplication(connection, target, name, messages[-1].sequence_id)

    def _publisher(self, target: str, name: str | None) -> Publisher:
        options = self._options

        def attempt() -> Publisher:
            return Publisher(
                options.connection,
                target,
                name,
                compression=options.compression,
                batch_messages_max=options.batch_messages_max,
            )

        try:
            return patiently(options.connection.timeout_s, attempt)
        except ProducerBusy as error:
            raise NotAllowed(
                f"another task writes as {name}: exactly once needs one task for a block of the source, "
                f"as there is without a shuffle between ({error})"
            ) from None

    def _query(self) -> str:
        raise NotImplementedError

    def _check(self, messages: list[Any]) -> None:
        seen: set[tuple[str, int]] = set()
        for one in messages:
            twice = seen & one.blocks
            if twice:
                source, number = min(twice)
                first = number * BLOCK_MESSAGES
                raise NotAllowed(
                    f"messages [{first}, {first + BLOCK_MESSAGES}) of {source} came from two tasks: exactly "
                    "once needs one task for a block of the source, as there is without a shuffle "
                    "between; begin again with a new topic, or use delivery=atLeastOnce"
                )
            seen |= one.blocks


class TopicStreamWriter(_Writes, DataSourceStreamArrowWriter):
    """`writeStream.format("milepost")`."""

    def _query(self) -> str:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY_PROPERTY)
        if query is None:
            raise NotAllowed(f"Spark does not say which query this is ({_QUERY_PROPERTY})")
        return query

    def commit(self, messages: list[Any], batchId: int) -> None:
        self._check(messages)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """Nothing to take back: what was published stays, and a retry knows it."""


class TopicWriter(_Writes, DataSourceArrowWriter):
    """`write.format("milepost")`."""

    def _query(self) -> str:
        if self._options.producer_prefix is None:
            raise InvalidOption(
                "option producerPrefix is missing: a batch has no query to be named by, so say what "
                "names it for good; writing again under the same name writes nothing twice"
            )
        return self._options.producer_prefix

    def commit(self, messages: list[Any]) -> None:
        self._check(messages)

    def abort(self, messages: list[Any]) -> None:
        """Nothing to take back."""


def _rows(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    names = [name for name in batch.schema.names if name in TAKEN or name in SOURCE]
    columns = [batch[name].to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _route(row: Mapping[str, Any], targets: list[str], otherwise: int) -> str:
    """By the key, as official clients do; else by what is given."""
    key = _bytes(row.get("key"))
    if key:
        return targets[(murmur3_32(key) & 0x7FFF_FFFF) % len(targets)]
    return targets[max(otherwise, 0) % len(targets)]


def _outgoing(row: Mapping[str, Any], sequence_id: int) -> Outgoing:
    moment = row.get("event_time")
    return Outgoing(
        sequence_id,
        _bytes(row.get("key")),
        _bytes(row.get("value")),
        row.get("properties") or (),
        None if moment is None else round(moment.timestamp() * 1000),
    )


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
