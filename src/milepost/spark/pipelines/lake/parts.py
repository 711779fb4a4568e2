"""What one task reads of a lake.

A part is a range of one partition and the files in which its rows are. In a Parquet lake that is one file
with these rows and no others, in their order; in a Delta table that others may have rewritten the rows
are looked for and put in order.

    for batch in read_part("lake", part, ("index", "value")): ...      # by index, ascending
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from milepost.errors import CorruptData
from milepost.spark.values.columns import arrow_schema

BATCH_MESSAGES: Final = 10_000


@dataclass(frozen=True)
class Part:
    """Rows of `[first_index, end_index)` of one partition."""

    topic: str
    first_index: int
    end_index: int
    paths: tuple[str, ...]
    """Below the lake's directory."""
    is_exact: bool = True
    """The files have these rows alone, in order."""

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.topic} in {', '.join(self.paths)}"
        return f"{self.topic} from {self.first_index} to {self.end_index}"


def read_part(directory: str, part: Part, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part in the order of their indexes, in batches of bounded length."""
    schema = arrow_schema(columns)
    paths = [f"{directory}/{path}" for path in part.paths]
    if part.is_exact:
        for path in paths:
            for batch in read_file(path, columns):
                yield batch.select(list(columns))
        return
    if not paths:
        return
    index = ds.field("index")
    mine = (
        (ds.field("topic") == part.topic) & (index >= part.first_index) & (index < part.end_index)
    )
    names = list(dict.fromkeys([*columns, "index"]))
    found = ds.dataset(paths, schema=arrow_schema(), format="parquet")
    rows = found.to_table(names, filter=mine).sort_by("index").select(list(columns)).cast(schema)
    yield from rows.combine_chunks().to_batches(BATCH_MESSAGES)


def check_part(directory: str, part: Part) -> None:
    """Raise `CorruptData` unless every file of a part is there and its footer can be read."""
    for path in part.paths:
        try:
            with pq.ParquetFile(f"{directory}/{path}"):
                pass
        except (OSError, pa.ArrowException) as error:
            raise CorruptData(f"{path} of {part.topic} cannot be read: {error}") from None


def read_file(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of one file, in its order; those of these columns that it has."""
    with pq.ParquetFile(path) as file:
        there = set(file.schema_arrow.names)
        names = [name for name in columns if name in there]
        yield from file.iter_batches(BATCH_MESSAGES, columns=names)
