"""Writes Arrow batches of any size to one Parquet file.

Small batches are collected into groups that are worth a scan; no more than a group is in memory. A file that
was not finished is deleted if that can still be done, and is garbage that no manifest names otherwise.

    with RowGroups("lake/data/x.parquet") as file:
        for batch in batches: file.write(batch)
    file.rows, file.size_bytes
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from milepost.spark.values.columns import arrow_schema

GROUP_ROWS_MAX: Final = 128 * 1024
GROUP_SIZE_MAX: Final = 32 << 20


class RowGroups:
    """A context manager: the file is synced and closed when it ends well."""

    def __init__(self, path: str | Path, schema: pa.Schema | None = None) -> None:
        self.rows = 0
        self.size_bytes = 0
        """Of the file; known when it is closed."""
        self._path = str(path)
        self._schema = schema or arrow_schema()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_size = 0
        self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")

    def __enter__(self) -> RowGroups:
        return self

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_size += batch.nbytes
        if self._waiting_rows >= GROUP_ROWS_MAX or self._waiting_size >= GROUP_SIZE_MAX:
            self._flush()

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._writer.close()
        if kind is not None:
            os.unlink(self._path)
            return
        descriptor = os.open(self._path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            self.size_bytes = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=max(table.num_rows, 1))
            self.rows += table.num_rows
            self._waiting, self._waiting_rows, self._waiting_size = [], 0, 0
