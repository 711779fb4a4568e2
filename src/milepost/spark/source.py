"""The data source `milepost`: the classes that Spark calls.

    spark.read.format("milepost").option("topic", "events").load()
    spark.readStream.format("milepost").option("topic", "events").option("subscription", "etl").load()

Spark makes these objects in several processes and pickles them between: they hold options and nothing that
is open, but for what the one process keeps that plans a streaming query. Spark's names stay at this border.

Every streaming query starts a process of its own to be planned in, and waits for its imports: what only tasks
need, and what only a sink needs, is imported where it is used. The compiler of scan.py alone takes 0.2 s.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from milepost.clock import SystemClock
from milepost.errors import InvalidOption, InvalidRange, NotAllowed
from milepost.positions.names import TopicName
from milepost.spark.border import plainly, quiet_hang_ups
from milepost.spark.offsets import (
    BLOCK_MESSAGES,
    Offsets,
    Slice,
    admit,
    check_resume,
    checked,
    count,
    is_held_back,
    slices,
)
from milepost.spark.options import ReadOptions, WriteOptions, read_options, write_options
from milepost.spark.progress_subscription import Pin
from milepost.spark.reading.pushdown import Predicates, taken
from milepost.spark.reading.survey import Survey
from milepost.spark.values.columns import ddl
from milepost.spark.values.query_columns import Wanted, declared_value, loaded_columns, wanted

# A task for less is more trouble than help, unless more tasks are asked for.
SLICE_MESSAGES_MIN: Final = 10_000


# Options that Spark hands to every sink of a stream.
_SPARKS_OWN: Final = ("checkpointlocation", "path", "queryname")


class MilepostSource(DataSource):
    """`format("milepost")`."""

    @classmethod
    def name(cls) -> str:
        return "milepost"

    @plainly
    def schema(self) -> str:
        options = read_options(_given(self.options))
        value = "BINARY" if options.decode == "raw" else declared_value(options)
        return ddl(loaded_columns(options), value=value)

    @plainly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(_given(self.options))
        kind = PushingReader if options.push_filters else TopicReader
        return kind(options, wanted(options, schema))

    @plainly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = read_options(_given(self.options))
        return TopicStreamReader(options, wanted(options, schema))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from milepost.spark.writing.sink import TopicWriter

        return TopicWriter(_write_options(self.options, overwrite), schema)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from milepost.spark.writing.sink import TopicStreamWriter

        return TopicStreamWriter(_write_options(self.options, overwrite), schema)


def _given(options: Mapping[str, str]) -> Mapping[str, str]:
    """The options that a person gave."""
    if any(name.lower().startswith("option.") for name in options):
        # Properties of a table: it would be made, and have none of its options when it is read.
        raise InvalidOption(
            "Spark loses the options of CREATE TABLE before a Python source is read: use CREATE TEMP "
            "VIEW … USING milepost OPTIONS (…)"
        )
    return options


def _write_options(given: Mapping[str, str], overwrite: bool) -> WriteOptions:
    if overwrite:
        raise NotAllowed("a topic keeps what it has: use mode append, not overwrite")
    return write_options({k: v for k, v in _given(given).items() if k.lower() not in _SPARKS_OWN})


class SlicePartition(InputPartition):
    """One task."""

    def __init__(self, part: Slice) -> None:
        super().__init__(part)


class _Reads:
    """What both kinds of reader do in an executor."""

    def __init__(self, options: ReadOptions, wanted: Wanted) -> None:
        self._options = options
        self._wanted = wanted
        self._predicates = Predicates()

    @plainly
    def read(self, partition: InputPartition) -> Iterator[Any]:
        from milepost.spark.reading.fetch import fetch

        part = partition.value
        if part is None:
            return  # Spark's own, when there is nothing to read
        quiet_hang_ups()
        options = self._options
        batches = fetch(
            options.connection,
            part,
            self._wanted.fetched,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        for batch in self._wanted.shown(options.connection, part.topic, batches):
            yield self._predicates.apply(batch)

    def _slices(self, start: Offsets, end: Offsets, block: int = 1) -> list[SlicePartition]:
        options = self._options
        tasks = options.partitions_min
        if tasks is None:
            tasks = min(os.cpu_count() or 1, -(-count(start, end) // SLICE_MESSAGES_MIN))
        found = slices(
            start,
            end,
            partitions_min=max(tasks, 1),
            messages_max=options.slice_max,
            block=block,
        )
        return [SlicePartition(one) for one in found]


class TopicReader(_Reads, DataSourceReader):
    """A batch: a range of every partition, decided when it is planned."""

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        survey = Survey(options)
        try:
            topics = survey.topics()
            start = survey.resolve(options.starting, topics)
            end = survey.resolve(options.ending, topics)
            ends = survey.ends(topics)
        finally:
            survey.close()
        for topic in topics:
            if end[topic] > ends[topic] or start[topic] > end[topic]:
                raise InvalidRange(
                    f"{topic}: [{start[topic]}, {end[topic]}) is to be read, it ends at {ends[topic]}"
                )
            start[topic], end[topic] = self._predicates.narrow(start[topic], end[topic])
            if not self._predicates.admits(TopicName.parse(topic).partition):
                end[topic] = start[topic]
        return self._slices(start, end)


class PushingReader(TopicReader):
    """The same where Spark may offer filters: it fails queries that have such a reader while
    `spark.sql.python.filterPushdown.enabled` is false."""

    @plainly
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._predicates, left = taken(filters)
        return left


class TopicStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream. One process of a query keeps one of these; tasks have copies that only read."""

    def __init__(self, options: ReadOptions, wanted: Wanted) -> None:
        super().__init__(options, wanted)
        if options.starting.default.kind == "latest" and options.subscription is None:
            raise InvalidOption(
                "startingIndex=latest needs option subscription: Spark asks for the start again when "
                "the first batch is replayed, and a later answer would leave messages out"
            )
        self._survey: Survey | None = None
        self._made_pin: Pin | None = None
        # Where AvailableNow ends; None for other triggers.
        self._target: Offsets | None = None
        self._is_resumed = False
        self._held_since: float | None = None

    @property
    def survey(self) -> Survey:
        if self._survey is None:
            self._survey = Survey(self._options)
        return self._survey

    @property
    def _pin(self) -> Pin | None:
        options = self._options
        if self._made_pin is None and options.subscription is not None:
            self._made_pin = Pin(options.connection, options.subscription)
        return self._made_pin

    @plainly
    def initialOffset(self) -> dict[str, int]:
        topics = self.survey.topics()
        start = self.survey.resolve(self._options.starting, topics)
        if self._pin is not None:
            for topic in topics:
                at_end = self._options.starting.of(topic).kind == "latest"
                pinned = self._pin.hold(topic, at_end=at_end)
                if at_end:
                    start[topic] = pinned
        return start

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.messages_max is not None:
            return ReadMaxRows(options.messages_max)
        if options.bytes_max is not None:
            return ReadMaxBytes(options.bytes_max)
        if options.messages_min:
            # Anything but ReadAllAvailable, by which Spark means that nothing may be held back.
            return ReadMinRows(options.messages_min)
        return ReadAllAvailable()

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self.survey.ends()

    @plainly
    def reportLatestOffset(self) -> dict[str, int]:
        return self._target or self.survey.ends()

    @plainly
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        begin = checked(start)
        end = self.survey.ends() if self._target is None else self._target
        if not self._is_resumed:
            check_resume(begin, end)
            if self._pin is not None:
                for topic in end:
                    self._pin.hold(topic)
            self._is_resumed = True
        # Spark goes on from where its checkpoint ends: what lies before is done. It asks so behind the last
        # batch too, of which it never calls `commit`.
        self._advance(begin)
        everything = isinstance(limit, ReadAllAvailable)
        if not everything and self._target is None and self._holds_back(count(begin, end)):
            return begin
        self._held_since = None
        new = [topic for topic in end if topic not in begin]
        bytes_max = None if everything else self._options.bytes_max
        return admit(
            begin,
            end,
            messages_max=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            bytes_max=bytes_max,
            mean_sizes=self.survey.mean_sizes(end) if bytes_max is not None else None,
            firsts=self.survey.firsts(new) if new else None,
        )

    @plainly
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return self._slices(checked(start), checked(end), BLOCK_MESSAGES)

    @plainly
    def commit(self, end: dict[str, int]) -> None:
        self._advance(checked(end))

    def _advance(self, end: Offsets) -> None:
        """Show that everything below is done."""
        if self._pin is not None:
            self._pin.advance(end)

    def _holds_back(self, available: int) -> bool:
        options = self._options
        now = SystemClock().monotonic()
        if self._held_since is None:
            self._held_since = now
        return is_held_back(
            available,
            messages_min=options.messages_min,
            waited_s=now - self._held_since,
            delay_max_s=options.delay_max_s,
        )
