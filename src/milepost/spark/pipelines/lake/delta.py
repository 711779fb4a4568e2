"""A Delta table as a lake. By delta-rs, no jar.

A step is one Delta commit. It adds the files and says, as versions of application transactions, where each
partition begins and how far it is now:

    milepost/first/persistent://public/default/t    0
    milepost/end/persistent://public/default/t      1200

Both are in one commit, so files and position cannot disagree; a step that was killed is not in the log. Delta
refuses a commit when another one has moved the same application transaction since the table was read, so two
archives cannot take the same step. Others may optimise, vacuum and read the table meanwhile, with whatever
they have; rows are found by topic and index, wherever they lie. Tables with deletion vectors or mapped
columns are refused.

    lake = DeltaLake.load(Path("table"))
    lake.end                                # {'persistent://public/default/t': 1200}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyspark.sql.types import DataType, StructType

from milepost.errors import Busy, CorruptData
from milepost.spark.offsets import Offsets, Slice, canonical, slices
from milepost.spark.pipelines.lake.lake import LakeFile
from milepost.spark.pipelines.lake.parts import Part
from milepost.spark.pipelines.lake.schema_columns import DECODED, lake_schema
from milepost.spark.values.columns import COLUMNS

# Rows of a part are put in order in memory.
PART_MESSAGES_MAX: Final = 100_000
# Behind the newest step there are merges, and what others did to the table.
HISTORY_MAX: Final = 100


class DeltaLake:
    def __init__(self, directory: Path, table: DeltaTable | None, topics: Iterable[str]) -> None:
        self.directory = directory
        self._table = table
        self._adds = _adds(directory, table)
        known = {*topics, *(name for names in self._adds.values() for name in names)}
        known |= _told(table)
        self.start = self._positions("first", known)
        self.end = self._positions("end", known)

    @staticmethod
    def load(directory: Path, topics: Iterable[str] = ()) -> DeltaLake:
        """What is committed. `topics` are looked for though none of their messages is there."""
        if not DeltaTable.is_deltatable(str(directory)):
            return DeltaLake(directory, None, ())
        try:
            table = DeltaTable(str(directory))
        except DeltaError as error:
            raise CorruptData(f"{directory} is no Delta table: {error}") from None
        _check(directory, table)
        return DeltaLake(directory, table, topics)

    @property
    def decoded(self) -> DataType | None:
        """The type of the schema's column; None: it has none."""
        if self._table is None:
            return None
        # Delta's log has types in Spark's words.
        found = StructType.fromJson(json.loads(self._table.schema().to_json()))
        return found[DECODED].dataType if DECODED in found.names else None

    @property
    def rows(self) -> int:
        return 0 if self._table is None else int(self._table.count())

    @property
    def files(self) -> list[str]:
        return sorted(self._adds)

    @property
    def parts(self) -> list[Part]:
        found = slices(self.start, self.end, messages_max=PART_MESSAGES_MAX)
        return [
            Part(
                one.topic,
                one.first_index,
                one.end_index,
                tuple(
                    path
                    for path, ranges in sorted(self._adds.items())
                    if one.topic in ranges and _overlap(ranges[one.topic], one)
                ),
                is_exact=False,
            )
            for one in found
        ]

    def paths(self, topics: Iterable[str]) -> list[str]:
        """The files that have rows of these partitions, perhaps beside others."""
        wanted = set(topics)
        return [
            str(self.directory / path)
            for path, ranges in sorted(self._adds.items())
            if wanted & set(ranges)
        ]

    def prepare(self) -> None:
        (self.directory / "data").mkdir(parents=True, exist_ok=True)

    def publish(
        self,
        start: Offsets,
        end: Offsets,
        files: Sequence[LakeFile],
        decoded: DataType | None = None,
    ) -> DeltaLake:
        """Commit the next step; `Busy` if another job has taken it since this was loaded."""
        if self._table is not None and decoded is not None and decoded != self.decoded:
            return self._grown(decoded).publish(start, end, files, decoded)
        versions = [Transaction(f"milepost/end/{topic}", index) for topic, index in end.items()]
        versions += [
            Transaction(f"milepost/first/{topic}", start.get(topic, index))
            for topic, index in end.items()
            if topic not in self.start
        ]
        properties = CommitProperties(
            custom_metadata={"milepost": json.dumps({"start": start, "end": end}, sort_keys=True)},
            app_transactions=versions,
        )
        adds = [_add(self.directory, one) for one in files if one.rows]
        schema = Schema.from_arrow(lake_schema(decoded or self.decoded))
        try:
            if self._table is None:
                create_table_with_add_actions(
                    str(self.directory), schema, adds, mode="error", commit_properties=properties
                )
            else:
                actions: list[AddAction | RemoveAction] = [*adds]
                self._table.create_write_transaction(
                    actions, "append", schema, commit_properties=properties
                )
        except CommitFailedError as error:
            raise Busy(f"{self.directory}: another archive has taken the step ({error})") from None
        except DeltaError as error:
            if self._table is None and DeltaTable.is_deltatable(str(self.directory)):
                raise Busy(f"{self.directory}: another job has made it ({error})") from None
            raise
        return DeltaLake.load(self.directory, end)

    def _grown(self, decoded: DataType) -> DeltaLake:
        """With columns that it did not have: a commit of its own, which adds no row. Killed behind it, the
        table has columns that are null everywhere."""
        assert self._table is not None
        empty = lake_schema(decoded).empty_table()
        try:
            write_deltalake(self._table, empty, mode="append", schema_mode="merge")
        except CommitFailedError as error:
            raise Busy(f"{self.directory}: another job changes its columns ({error})") from None
        grown = DeltaLake.load(self.directory, self.end)
        # Delta refuses what others commit from here on: they may have taken the step before.
        if grown.end != self.end:
            raise Busy(f"{self.directory}: another archive has taken the step")
        if grown.decoded != decoded:
            raise CorruptData(f"{self.directory}: its column {DECODED} could not be changed")
        return grown

    def merge(self, files_min: int, size_max: int) -> int:
        """Let delta-rs merge small files, if there are so many. How many went."""
        if self._table is None:
            return 0
        sizes = pa.table(self._table.get_add_actions(flatten=True))["size_bytes"]
        # The sum of no sizes is null.
        if (pc.sum(pc.less(sizes, size_max // 2)).as_py() or 0) < files_min:
            return 0
        done = self._table.optimize.compact(target_size=size_max)
        return int(done["numFilesRemoved"])

    def _positions(self, kind: str, topics: Iterable[str]) -> Offsets:
        if self._table is None:
            return {}
        asked = {one: self._table.transaction_version(f"milepost/{kind}/{one}") for one in topics}
        return canonical({one: index for one, index in asked.items() if index is not None})


def _adds(directory: Path, table: DeltaTable | None) -> dict[str, dict[str, tuple[int, int]]]:
    """Path → topic → lowest and highest index, of every file that counts."""
    if table is None:
        return {}
    listed = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return {one["path"]: _ranges(directory, table, one) for one in listed}


def _ranges(directory: Path, table: DeltaTable, add: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """From the statistics, if the file is of one partition and they are whole; else by looking."""
    topic, low, high = add.get("min.topic"), add.get("min.index"), add.get("max.index")
    if (
        topic is not None
        and topic == add.get("max.topic")
        and low is not None
        and high is not None
        # Writers may cut long texts in statistics: a topic that was never archived is such a one.
        and table.transaction_version(f"milepost/end/{topic}") is not None
    ):
        return {topic: (low, high)}
    try:
        rows = pq.read_table(directory / add["path"], columns=["topic", "index"], partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise CorruptData(f"{add['path']} cannot be read: {error}") from None
    found = rows.group_by("topic").aggregate([("index", "min"), ("index", "max")]).to_pylist()
    return {one["topic"]: (one["index_min"], one["index_max"]) for one in found}


def _told(table: DeltaTable | None) -> set[str]:
    """The topics that the newest step names, also those without a message, which no file has."""
    for commit in () if table is None else table.history(HISTORY_MAX):
        if (said := commit.get("milepost")) is not None:
            return set(json.loads(said)["end"])
    return set()


def _overlap(held: tuple[int, int], wanted: Slice) -> bool:
    return held[0] < wanted.end_index and held[1] >= wanted.first_index


def _add(directory: Path, one: LakeFile) -> AddAction:
    rows = pq.read_table(directory / one.path, columns=["index"], partitioning=None)["index"]
    bounds = pc.min_max(rows).as_py()
    stats = {
        "numRecords": one.rows,
        "minValues": {"topic": one.topic, "index": bounds["min"]},
        "maxValues": {"topic": one.topic, "index": bounds["max"]},
        "nullCount": {"topic": 0, "index": 0},
    }
    stat = (directory / one.path).stat()
    return AddAction(one.path, stat.st_size, {}, int(stat.st_mtime * 1000), True, json.dumps(stats))


def _check(directory: Path, table: DeltaTable) -> None:
    """A table whose files are its rows, with our columns."""
    features = set(table.protocol().reader_features or ())
    strange = features & {"deletionVectors", "columnMapping"}
    if strange or table.metadata().partition_columns:
        what = ", ".join(sorted(strange)) or "partition columns"
        raise CorruptData(f"{directory} is a Delta table with {what}, which is not read here")
    names = [field.name for field in table.schema().fields]
    if names[: len(COLUMNS)] != list(COLUMNS):
        raise CorruptData(
            f"{directory} is a Delta table of something else: it has {', '.join(names)}"
        )
