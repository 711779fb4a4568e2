"""The data source `faulty`: `milepost` whose sink fails where it is told to, once for each time it is told.

Faults are files in the directory that option `faults` names, so that any process may take one: whoever
removes the file fails. That is what there is:

    commit-before   commit fails, and has done nothing
    commit-after    commit fails, and has done everything
    send            a task fails in a send, with half of it stored, behind so many (the number in the file)
    die             the same, but its process is killed

With `mixed=true` every attempt of a task has its rows in another order, as behind a shuffle.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from milepost.spark.source import MilepostSource

FAULTS = ("commit-before", "commit-after", "send", "die")


class Faults:
    def __init__(self, directory: str) -> None:
        self._directory = directory

    def tell(self, name: str, count: int = 0) -> None:
        """Let it happen, behind so many sends."""
        assert name in FAULTS
        Path(self._directory, name).write_text(str(count), encoding="utf-8")

    def waits(self, name: str, count: int) -> bool:
        """Is it to happen behind so many sends?"""
        try:
            return int(Path(self._directory, name).read_text(encoding="utf-8")) <= count
        except FileNotFoundError:
            return False

    def is_due(self, name: str, count: int = 0) -> bool:
        """The same, for the one who is to let it happen."""
        if not self.waits(name, count):
            return False
        try:
            Path(self._directory, name).unlink()
        except FileNotFoundError:  # another task was faster
            return False
        return True


class FaultyWriter(DataSourceStreamArrowWriter):
    def __init__(self, inner: Any, faults: Faults, is_mixed: bool) -> None:
        self._inner = inner
        self._faults = faults
        self._is_mixed = is_mixed

    def write(self, iterator: Iterator[Any]) -> Any:
        send, sends = self._inner._send_once, 0

        def fail() -> None:
            if self._faults.is_due("die", sends):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._faults.is_due("send", sends):
                raise RuntimeError(f"a task fails behind {sends} sends, as it was told to")

        def counted(target: str, name: str, messages: list[Any], *more: Any) -> None:
            nonlocal sends
            if self._faults.waits("die", sends) or self._faults.waits("send", sends):
                send(target, name, messages[: (len(messages) + 1) // 2], *more)
                fail()
            send(target, name, messages, *more)
            sends += 1

        def send_in_transaction(publisher: Any, messages: list[Any]) -> None:
            nonlocal sends
            half = (len(messages) + 1) // 2
            publisher.send(messages[:half])
            fail()
            publisher.send(messages[half:])
            sends += 1

        self._inner._send_once = counted
        self._inner._send = send_in_transaction
        written = self._inner.write(mixed(iterator) if self._is_mixed else iterator)
        fail()
        return written

    def commit(self, messages: list[Any], batchId: int) -> None:
        if self._faults.is_due("commit-before"):
            raise RuntimeError(f"commit of {batchId} fails at its beginning, as it was told to")
        self._inner.commit(messages, batchId)
        if self._faults.is_due("commit-after"):
            raise RuntimeError(f"commit of {batchId} fails at its end, as it was told to")

    def abort(self, messages: list[Any], batchId: int) -> None:
        self._inner.abort(messages, batchId)


class FaultySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        own = {name: self.options.get(name, "") for name in ("faults", "mixed")}
        options = {name: text for name, text in self.options.items() if name.lower() not in own}
        inner = MilepostSource(options).streamWriter(schema, overwrite)
        return FaultyWriter(inner, Faults(own["faults"]), own["mixed"] == "true")


def mixed(batches: Iterator[Any]) -> Iterator[Any]:
    """The rows in an order of this attempt's own."""
    context = TaskContext.get()
    assert context is not None
    found = list(batches)
    if found:
        rows = pa.Table.from_batches(found)
        order = list(range(len(rows)))
        Random(context.taskAttemptId()).shuffle(order)
        yield from rows.take(order).to_batches()
