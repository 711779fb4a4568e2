"""`archive`: a topic into a lake, exactly once.

The lake knows how far it is; a step reads from there to the end, or as far as a limit allows, and
publishes what it wrote at once. Killed at any moment it leaves files that no manifest names, and the next
step begins where the last published one ended. It ends at the topic's end, or goes on until it is told to
stop; small files are merged on the way. Beside the bytes of a value stands what the topic's schema makes of
it (schema_columns.py).

    summary = archive(spark, read_options({"topic": "events"}), Path("lake"))
    summary.messages
    archive(spark, options, Path("lake"), until=stop, every_s=10)    # until the event is set
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import IncompatibleSchema, InvalidCheckpoint, InvalidOption
from milepost.spark.offsets import Offsets, Slice, admit, check_resume, count, slices
from milepost.spark.options import ReadOptions
from milepost.spark.pipelines.lake.lake import Lake, LakeFile
from milepost.spark.pipelines.lake.lakes import AnyLake, open_lake
from milepost.spark.pipelines.lake.merge import FILE_MESSAGES_MAX, FILES_MIN, merge
from milepost.spark.pipelines.lake.row_groups import RowGroups
from milepost.spark.pipelines.lake.schema_columns import (
    DECODED,
    SchemaColumns,
    lake_schema,
    united,
)
from milepost.spark.pipelines.names import data_path
from milepost.spark.pipelines.tasks import run
from milepost.spark.progress_subscription import Pin
from milepost.spark.reading.fetch import fetch
from milepost.spark.reading.survey import Survey
from milepost.spark.values.columns import COLUMNS, CORRUPT_REASON
from milepost.spark.values.topic_schemas import Writers, reader_schema
from milepost.spark.values.value_types import value_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DECODES: Final = ("auto", "schema", "raw")
# A step, if nothing else is asked for; a file holds a core's part of it.
STEP_MESSAGES_MAX: Final = 4_000_000
EVERY_S: Final = 10.0


class Archived(NamedTuple):
    steps: int
    messages: int
    files: int
    merged: int
    """Small files that were merged into larger ones."""
    end: Offsets
    corrupt: int = 0
    """Messages whose value is not what its schema says."""
    bytes_only: str | None = None
    """Why values were archived without the schema's columns, though the topic or the lake has a schema."""


class Archiving:
    """One run: where it is, and what it has done so far."""

    def __init__(
        self,
        spark: SparkSession,
        options: ReadOptions,
        directory: Path,
        *,
        kind: str | None = None,
        decode: str = "auto",
        files_min: int = FILES_MIN,
    ) -> None:
        if decode not in DECODES:
            raise InvalidOption(f"decode is {decode!a}; allowed is {' | '.join(DECODES)}")
        self.steps = self.messages = self.files = self.merged = self.corrupt = 0
        self.bytes_only: str | None = None
        self._spark = spark
        self._options = options
        self._decode = decode
        self._files_min = files_min
        self._survey = Survey(options)
        self._pin = Pin(options.connection, options.subscription) if options.subscription else None
        try:
            self._target = self._survey.ends()
            self.lake: AnyLake = open_lake(directory, kind=kind, topics=self._target)
            self.lake.prepare()
            if self.lake.end:
                check_resume(self.lake.end, self._target)
            self._at: Offsets = {}
            self._begin_new()
        except BaseException:
            self.close()
            raise

    def look(self) -> int:
        """Ask the broker how far the topics are now; how many indexes there are to archive."""
        self._target = self._survey.ends()
        self._begin_new()
        return self.waiting

    @property
    def waiting(self) -> int:
        return count(self._at, self._target)

    def step(self) -> int:
        """Archive the next part, for good; how many indexes that was."""
        options, at = self._options, self._at
        end = admit(at, self._target, messages_max=options.messages_max or STEP_MESSAGES_MAX)
        parts = slices(
            at,
            end,
            partitions_min=options.partitions_min or os.cpu_count() or 1,
            messages_max=options.slice_max or FILE_MESSAGES_MAX,
        )
        # Asked behind the end of the topics: no message before it was written by a newer one.
        columns = self._schema_columns()
        write = partial(
            _write,
            options.connection,
            str(self.lake.directory.absolute()),
            columns,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        made = run(self._spark, parts, write)
        self.lake = self.lake.publish(at, end, made, None if columns is None else columns.kind)
        self._at = end
        self.corrupt += sum(one.corrupt for one in made)
        self.steps += 1
        self.files += len(made)
        self.messages += sum(one.rows for one in made)
        if self._pin is not None:
            self._pin.advance(end)
        return count(at, end)

    def begin(self) -> None:
        """Make a lake of topics that have no message yet: it says where they begin, and that nothing is
        missing."""
        if not self.lake.end:
            self.lake = self.lake.publish(self._at, self._at, [])

    def merge(self) -> None:
        if self._files_min:
            self.lake, gone = merge(self._spark, self.lake, files_min=self._files_min)
            self.merged += gone

    def close(self) -> None:
        self._survey.close()
        if self._pin is not None:
            self._pin.close()

    def _schema_columns(self) -> SchemaColumns | None:
        """By the schema that the topics have now; None: values are archived as bytes alone."""
        if self._decode == "raw":
            return None
        try:
            self.bytes_only = None
            return choose(self._spark, self._options, self.lake)
        except (InvalidOption, IncompatibleSchema) as error:
            if self._decode == "schema":
                raise
            self.bytes_only = str(error)
            return None

    def _begin_new(self) -> None:
        """Partitions that the lake does not have begin where the options say."""
        known = {**self.lake.end, **self._at}
        new = [one for one in self._target if one not in known]
        self._at = {**known, **self._survey.resolve(self._options.starting, new)}
        if self._pin is not None:
            for topic in self._target:
                self._pin.hold(topic)


def archive(
    spark: SparkSession,
    options: ReadOptions,
    directory: Path,
    *,
    kind: str | None = None,
    decode: str = "auto",
    until: threading.Event | None = None,
    every_s: float = EVERY_S,
    files_min: int = FILES_MIN,
    on_step: Callable[[int, int], None] | None = None,
) -> Archived:
    """Archive what is there now; with `until`, also what comes, every so often, until the event is set.

    `kind` is `parquet` or `delta`; `files_min` small neighbours are merged, 0 for never. `decode` is `schema`
    for the schema's columns beside the bytes, `raw` for none, `auto` for them where they can be had.
    `on_step` hears of indexes done and to be done.
    """
    work = Archiving(spark, options, directory, kind=kind, decode=decode, files_min=files_min)
    done, total = 0, work.waiting
    try:
        while True:
            while work.waiting and not (until is not None and until.is_set()):
                done += work.step()
                if on_step is not None:
                    on_step(done, total)
            work.begin()
            work.merge()
            if until is None or until.wait(every_s):
                break
            total = done + work.look()
    except Exception:
        # The program that stops us may stop Spark too: what was under way then is as if it had never been.
        if until is None or not until.is_set():
            raise
    finally:
        work.close()
    return Archived(
        work.steps,
        work.messages,
        work.files,
        work.merged,
        work.lake.end,
        work.corrupt,
        work.bytes_only,
    )


def _write(
    connection: Endpoint,
    directory: str,
    columns: SchemaColumns | None,
    part: Slice,
    *,
    fail_on_data_loss: bool,
) -> LakeFile:
    """One slice into one file, in an executor."""
    path = data_path(part.topic, part.first_index, part.end_index)
    batches = fetch(connection, part, COLUMNS, fail_on_data_loss=fail_on_data_loss)
    schema, corrupt = lake_schema(None if columns is None else columns.kind), 0
    if columns is not None:
        writers = Writers(connection, part.topic, columns.reader)
        batches = columns.beside(batches, part.topic, writers.schema)
    with RowGroups(Path(directory) / path, schema) as file:
        for batch in batches:
            file.write(batch)
            if columns is not None:
                reasons = batch[CORRUPT_REASON]
                corrupt += len(reasons) - reasons.null_count
    return LakeFile(
        path, part.topic, part.first_index, part.end_index, file.rows, file.size_bytes, corrupt
    )


def choose(spark: SparkSession, options: ReadOptions, lake: AnyLake) -> SchemaColumns | None:
    """The columns of the schema that the topics have now, in a lake that may have others; None: no schema."""
    reader = reader_schema(options)
    declared = value_type(reader.info)
    held = lake.decoded
    if declared == "BINARY":
        if held is None:
            return None
        raise InvalidOption(f"{lake.directory} has columns of a schema; the topic has none now")
    own = spark.createDataFrame([], f"{DECODED} {declared}").schema[DECODED].dataType
    # Parquet's readers take narrow numbers for wide ones; Delta's log forbids it.
    widens = isinstance(lake, Lake)
    return SchemaColumns(reader, own, own if held is None else united(held, own, widens=widens))


def check_topic(lake: AnyLake, topic: str) -> None:
    """A lake keeps one set of topics."""
    if lake.end and topic not in lake.end:
        raise InvalidCheckpoint(f"{lake.directory} has no {topic}")
