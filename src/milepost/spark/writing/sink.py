"""The batch and streaming writers that Spark calls.

`atLeastOnce` writes what a task is given; a task that is tried again writes again. `exactlyOnce` numbers
each message by what the row says, so that the broker knows a repetition:

- by the source's index, where rows derive one to one from a Milepost source and still have its `topic` and
  `index`. The producer is named by the query, the source partition and the block of indexes. Streams are
  sliced at block boundaries, so that a block is written by one task at a time and in order;
- by a unique key that the user declares, also behind a shuffle (keyed.py). The producer is named by the query
  and the bucket of the key.

With `transactional` all of a batch counts or nothing, and once, on any number of topics: rows need no number,
because the batch has one (batch_transactions.py).

Spark does not promise the same rows to a task that is tried again behind a shuffle (SPARK-28650), so nothing
is numbered by a row's place in its task: it would drop other rows silently. Rows that come out of order, and
a block or bucket that came from two tasks, fail the query with what to do about it.

Values are bytes or text as they are, or what the target's schema makes of columns (target.py, encoding.py).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from milepost.clock import SystemClock
from milepost.errors import (
    InvalidInput,
    InvalidOption,
    InvalidTransactionStatus,
    NotAllowed,
    ProducerBusy,
    SchemaMismatch,
    TransactionConflict,
)
from milepost.positions import TxnId
from milepost.positions.names import TopicName
from milepost.schemas.types import SchemaInfo
from milepost.spark.border import plainly
from milepost.spark.offsets import BLOCK_MESSAGES
from milepost.spark.options import WriteOptions
from milepost.spark.reading.survey import partitions_of
from milepost.spark.retries import AWAY, patiently
from milepost.spark.values.encoding import Encoding
from milepost.spark.values.target_schema import find_target
from milepost.spark.writing.batch_transactions import (
    BatchTransaction,
    Series,
    abort_run,
    check_coordinator,
    commit,
)
from milepost.spark.writing.keyed import KEY_TYPES, buckets, check_replay, number
from milepost.spark.writing.publish import Outgoing, Publisher
from milepost.spark.writing.target_topic import check_target, ready_target
from milepost.wire.murmur import murmur3_32

# What Spark gives a task to know its query and batch by; not documented, so their absence is an error.
_QUERY_PROPERTY: Final = "sql.streaming.queryId"
_BATCH_PROPERTY: Final = "streaming.sql.batchId"

_WAY_OUT: Final = "name a uniqueKey (milepost.spark.arrange), or use delivery=atLeastOnce"

# A connection that was not served for so long may be lost: brokers want signs of life.
IDLE_MAX_S: Final = 20.0

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
    """What a task did: messages, and the blocks of source indexes or the buckets of keys that they are of."""

    count: int = 0
    blocks: set[tuple[str, int]] = field(default_factory=set)
    buckets: set[int] = field(default_factory=set)
    txn_id: TxnId | None = None
    """Of the transaction that has the messages; None without one, or without messages."""
    series: Series | None = None
    """Of that transaction. The process that ends a stream's batch knows the query by it alone."""
    is_done: bool = False
    """The batch was committed before: nothing was written."""


class _Writes:
    """What both kinds of writer do."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        # Of this plan of the batch: a driver that tries it again has another.
        self._run = uuid.uuid4().hex
        types = {one.name: one.dataType.simpleString() for one in schema.fields}
        self._target = find_target(options, schema)
        # Made by each task: encoders are closures, which do not travel.
        self._encoding: Encoding | None = None
        wanted: dict[str, tuple[str, ...]] = dict(TAKEN)
        if self._target is not None:
            del wanted["value"]  # by the schema
        elif "value" not in types:
            raise InvalidOption("there is no column value to be written")
        if options.transactional and not options.topic:
            wanted["topic"] = ("string",)
            if "topic" not in types:
                raise InvalidOption(
                    "option topic is missing, and the rows have no column topic that says where to write"
                )
        if options.unique_key is not None:
            if options.unique_key not in types:
                raise InvalidOption(
                    f"option uniqueKey is {options.unique_key!a}; the rows have {', '.join(types)}"
                )
            wanted[options.unique_key] = KEY_TYPES
        elif options.delivery == "exactlyOnce":
            wanted |= SOURCE
            missing = [name for name in SOURCE if name not in types]
            if missing:
                raise InvalidOption(
                    f"delivery=exactlyOnce goes by the source's topic and index, and the rows have no "
                    f"{missing[0]}: keep both columns, {_WAY_OUT}"
                )
        for name, allowed in wanted.items():
            if name in types and types[name] not in allowed:
                raise InvalidOption(
                    f"column {name} is {types[name]}, it must be {' or '.join(allowed)}"
                )
        self._check_name()
        if options.transactional:
            check_coordinator(options.connection)
            if options.topic:
                check_target(options.connection, options.topic, schema=self._schema)
        if options.delivery == "exactlyOnce":
            # Asked when the query is planned: a refusal in a task would come behind the first rows.
            ready_target(options.connection, options.topic, schema=self._schema)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        if self._target is not None:
            self._encoding = Encoding(self._target.info)
        if self._options.transactional:
            return self._write_in_transaction(iterator)
        targets = partitions_of(self._options.connection, self._options.topic, make=True)
        if self._options.unique_key is not None:
            return self._write_by_key(iterator, targets, self._options.unique_key)
        if self._options.delivery == "exactlyOnce":
            return self._write_by_index(iterator, targets)
        return self._write_plainly(iterator, targets)

    def _write_plainly(self, iterator: Iterator[pa.RecordBatch], targets: list[str]) -> Written:
        done = Written()
        publishers: dict[str, Publisher] = {}
        numbers = dict.fromkeys(targets, 0)
        try:
            for batch in iterator:
                by_target: dict[str, list[Outgoing]] = {}
                for row in self._rows(batch):
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

    def _write_in_transaction(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Rows of any topics, in a transaction that is opened for the first of them."""
        done = Written()
        attempt: _Attempt | None = None
        try:
            for batch in iterator:
                if attempt is None and batch.num_rows:
                    done.series = self._series()
                    try:
                        attempt = _Attempt(self._options, done.series, self._schema)
                    except TransactionConflict:
                        done.is_done = True
                if attempt is None:
                    continue  # Spark wants its rows to be taken
                by_target: dict[str, list[Outgoing]] = {}
                for row in self._rows(batch):
                    target, number = attempt.place(row)
                    by_target.setdefault(target, []).append(_outgoing(row, number))
                    done.count += 1
                for target, messages in by_target.items():
                    self._send(attempt.publisher(target), messages)
            if attempt is not None:
                attempt.finish()
                done.txn_id = attempt.txn_id
        except BaseException:
            if attempt is not None:
                attempt.give_up()
            raise
        return done

    def _send(self, publisher: Publisher, messages: list[Outgoing]) -> None:
        publisher.send(messages)

    def _write_by_index(self, iterator: Iterator[pa.RecordBatch], targets: list[str]) -> Written:
        done = Written()
        query = self._query()
        last: dict[str, int] = {}
        for batch in iterator:
            # Consecutive rows of one block and one target go through one producer.
            groups: dict[tuple[str, str, int], list[Outgoing]] = {}
            for row in self._rows(batch):
                source, index = row["topic"], row["index"]
                if source is None or index is None or index <= last.get(source, -1):
                    raise NotAllowed(
                        f"row {index} of {source} came behind row {last.get(source)}: exactly once by index "
                        f"needs rows in the order of the source, as without a shuffle between; {_WAY_OUT}"
                    )
                last[source] = index
                block = (source, index // BLOCK_MESSAGES)
                done.blocks.add(block)
                target = _route(row, targets, TopicName.parse(source).partition)
                groups.setdefault((target, *block), []).append(_outgoing(row, index))
                done.count += 1
            for (target, source, block_number), messages in groups.items():
                self._send_once(target, f"{query}/{source}/{block_number}", messages)
        return done

    def _write_by_key(
        self, iterator: Iterator[pa.RecordBatch], targets: list[str], unique_key: str
    ) -> Written:
        done = Written()
        query, batch_id = self._query(), self._batch_id()
        batches = list(iterator)
        if not batches:
            return done
        # All rows of the task: the order of keys is known when the last is there.
        table = pa.Table.from_batches(batches)
        del batches
        for bucket, rows in buckets(table[unique_key].to_pylist()):
            by_target: dict[str, list[Outgoing]] = {}
            ranks = count()
            for batch in table.take(rows).to_batches():
                for row in self._rows(batch):
                    rank = next(ranks)
                    target = _route(row, targets, bucket)
                    message = _outgoing(row, number(batch_id, rank))
                    by_target.setdefault(target, []).append(message)
            name = f"{query}/key/{bucket}"
            check = partial(check_replay, batch_id=batch_id, count=len(rows), name=name)
            for target, messages in by_target.items():
                self._send_once(target, name, messages, check)
            done.buckets.add(bucket)
            done.count += len(rows)
        return done

    def _send_once(
        self,
        target: str,
        name: str,
        messages: list[Outgoing],
        check: Callable[[int], None] = lambda last: None,
    ) -> None:
        """Send what the target does not have yet. `check` is told the newest number that it has."""
        with self._publisher(target, name) as publisher:
            check(publisher.last_sequence_id)
            publisher.send(messages)

    @property
    def _schema(self) -> SchemaInfo | None:
        return None if self._target is None else self._target.info

    def _rows(self, batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
        names = [name for name in batch.schema.names if name in TAKEN or name in SOURCE]
        columns = {name: batch[name].to_pylist() for name in names if name != "value"}
        if self._encoding is None or self._target is None:
            columns["value"] = batch["value"].to_pylist()
        else:
            try:
                keys, columns["value"] = self._encoding.of(self._target.column(batch))
            except SchemaMismatch as error:
                raise SchemaMismatch(
                    f"a row that the {self._target.info.type.name} schema of {self._options.topic} does "
                    f"not fit: {error}"
                ) from None
            if keys is not None:
                columns["key"] = keys
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))

    def _publisher(self, target: str, name: str | None) -> Publisher:
        options = self._options

        def attempt() -> Publisher:
            return Publisher(
                options.connection,
                target,
                name,
                compression=options.compression,
                batch_messages_max=options.batch_messages_max,
                schema=self._schema,
                needs_deduplication=name is not None,
            )

        try:
            # The attempt before this one may be about to die, and has the name until then.
            return patiently(options.connection.timeout_s, attempt, (*AWAY, ProducerBusy))
        except ProducerBusy as error:
            raise NotAllowed(
                f"another task writes as {name}: exactly once needs one task for a block of the source or a "
                f"bucket of keys, and one query under a name ({error})"
            ) from None

    def _check_name(self) -> None:
        """Refuse a write that cannot be named, where it has to be."""

    def _query(self) -> str:
        raise NotImplementedError

    def _batch_id(self) -> int:
        raise NotImplementedError

    def _series(self) -> Series:
        """What the transactions of this batch are a step of."""
        return Series(self._query(), self._run, self._batch_id())

    def _end(self, messages: list[Any]) -> None:
        """What the driver does when every task is done."""
        if not self._options.transactional:
            self._check(messages)
            return
        txn_ids = [one.txn_id for one in messages if one.txn_id is not None]
        if not txn_ids or any(one.is_done for one in messages):
            self._undo(messages)  # attempts that Spark does not count may have written
            return
        try:
            commit(self._options.connection, txn_ids)
        except TransactionConflict:  # by a driver before this one, whose commit was on its way
            self._undo(messages)
        except InvalidTransactionStatus as error:
            raise InvalidTransactionStatus(
                f"the batch is not written: {error}. Its transactions may be open for "
                f"{self._options.transaction_timeout_s:g} s (option transactionTimeout), and end when "
                "another driver writes the batch"
            ) from None

    def _undo(self, messages: Sequence[Any]) -> None:
        """What the driver does when a task has failed, or the end."""
        if not self._options.transactional:
            return  # what is published stays
        series = self._ended_series(messages)
        if series is not None:
            abort_run(self._options.connection, series)

    def _ended_series(self, messages: Sequence[Any]) -> Series | None:
        """What this batch is a step of, where the driver ends it; None if no task has told."""
        found = (one.series for one in messages if one is not None and one.series is not None)
        return next(found, None)

    def _check(self, messages: list[Any]) -> None:
        seen: set[tuple[str, int]] = set()
        seen_buckets: set[int] = set()
        for one in messages:
            if seen_buckets & one.buckets:
                raise NotAllowed(
                    f"bucket {min(seen_buckets & one.buckets)} of the keys came from two tasks: exactly once "
                    "by uniqueKey needs all rows of a bucket in one task, as milepost.spark.arrange puts "
                    "them; begin again with a new topic and checkpoint"
                )
            seen_buckets |= one.buckets
            twice = seen & one.blocks
            if twice:
                source, block_number = min(twice)
                first = block_number * BLOCK_MESSAGES
                raise NotAllowed(
                    f"messages [{first}, {first + BLOCK_MESSAGES}) of {source} came from two tasks: exactly "
                    "once needs one task for a block of the source, as there is without a shuffle "
                    f"between; begin again with a new topic, and {_WAY_OUT}"
                )
            seen |= one.blocks


class TopicStreamWriter(_Writes, DataSourceStreamArrowWriter):
    """`writeStream.format("milepost")`."""

    def _query(self) -> str:
        return _property(_QUERY_PROPERTY)

    def _batch_id(self) -> int:
        return int(_property(_BATCH_PROPERTY))

    @plainly
    def commit(self, messages: list[Any], batchId: int) -> None:
        self._end(messages)

    @plainly
    def abort(self, messages: list[Any], batchId: int) -> None:
        """Without transactions there is nothing to take back: what was published stays, and a retry knows
        it."""
        self._undo(messages)


class TopicWriter(_Writes, DataSourceArrowWriter):
    """`write.format("milepost")`."""

    def _check_name(self) -> None:
        if self._options.delivery == "exactlyOnce" and self._options.producer_prefix is None:
            raise InvalidOption(
                "option producerPrefix is missing: a batch has no query to be named by, so say what "
                "names it for good; writing again under the same name writes nothing twice"
            )

    def _query(self) -> str:
        assert self._options.producer_prefix is not None, "checked when the query was planned"
        return self._options.producer_prefix

    def _batch_id(self) -> int:
        return 0

    def _series(self) -> Series:
        name = self._options.producer_prefix
        # Without a name to know it by, the same may be written again.
        return Series(name or f"batch-{self._run}", self._run, None if name is None else 0)

    def _ended_series(self, messages: Sequence[Any]) -> Series:
        return self._series()  # it is ended by the writer whose copies the tasks have

    @plainly
    def commit(self, messages: list[Any]) -> None:
        self._end(messages)

    @plainly
    def abort(self, messages: list[Any]) -> None:
        self._undo(messages)


class _Attempt:
    """What one attempt of a task has open to write in a transaction."""

    def __init__(self, options: WriteOptions, series: Series, schema: SchemaInfo | None) -> None:
        self._options = options
        self._schema = schema
        self._transaction = BatchTransaction.open(
            options.connection, series, options.transaction_timeout_s
        )
        # With the moment of their last use. They are served while they send: one that a task has left alone
        # for long may have lost its connection.
        self._publishers: dict[str, tuple[Publisher, float]] = {}
        self._added: set[str] = set()
        self._clock = SystemClock()
        # Partitions by what rows call their topic.
        self._targets: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._count = 0

    @property
    def txn_id(self) -> TxnId:
        return self._transaction.txn_id

    def place(self, row: Mapping[str, Any]) -> tuple[str, int]:
        """Where a row goes, and its number there."""
        topic = self._options.topic or row["topic"]
        if topic is None:
            raise NotAllowed("a row has no topic: column topic is null")
        targets = self._targets.get(topic)
        if targets is None:
            targets = self._targets[topic] = partitions_of(
                self._options.connection, _full_name(topic), make=True
            )
        target = _route(row, targets, self._count)
        self._count += 1
        number = self._counts.get(target, 0)
        self._counts[target] = number + 1
        return target, number

    def publisher(self, target: str) -> Publisher:
        now_s = self._clock.monotonic()
        found, used_s = self._publishers.get(target, (None, now_s))
        if found is not None and now_s - used_s > IDLE_MAX_S:
            found.flush()
            found.close()
            found = None
        if found is None:
            found = self._open(target)
        self._publishers[target] = found, now_s
        return found

    def _open(self, target: str) -> Publisher:
        options = self._options

        def attempt() -> Publisher:
            return Publisher(
                options.connection,
                target,
                compression=options.compression,
                batch_messages_max=options.batch_messages_max,
                schema=self._schema,
                txn_id=self.txn_id,
            )

        made = patiently(options.connection.timeout_s, attempt)
        if target not in self._added:
            try:
                self._transaction.add(target)
            except BaseException:
                made.close()
                raise
            self._added.add(target)
        return made

    def finish(self) -> None:
        """Wait for all receipts: then the transaction may be committed."""
        for one, _ in self._publishers.values():
            one.flush()
        self._close()

    def give_up(self) -> None:
        self._close()
        self._transaction.abort()

    def _close(self) -> None:
        for one, _ in self._publishers.values():
            one.close()


def _full_name(text: str) -> str:
    """Of a topic that a row names."""
    try:
        name = TopicName.parse(text.strip())
    except InvalidInput as error:
        raise NotAllowed(f"column topic: {error}") from None
    if not name.is_persistent:
        raise NotAllowed(f"column topic: {text} is not persistent: no transaction can write to it")
    return name.text


def _property(name: str) -> str:
    context = TaskContext.get()
    found = None if context is None else context.getLocalProperty(name)
    if found is None:
        raise NotAllowed(
            f"Spark does not tell a task its {name}, without which nothing can be written exactly once"
        )
    return str(found)


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
