"""The catalog of a broker on a bucket: what changes it is told, so that the journal can have it.

The catalog is a SQLite database on the local disk, which a start makes anew. So each transaction that
changes it is also a record of the journal: the calls that were made, by name, as JSON. A start applies
those that the image does not hold to the image, in order, and has the same catalog again; row numbers come
out the same, for they depend on nothing else. The document `changes` counts transactions and is part of
each: it tells which ones an image holds.

A checkpoint changes the catalog without a record. What it writes goes with the image.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from milepost.errors import CorruptData, MilepostError
from milepost.storage.catalog.catalog import Doc, SchemaRow, Snapshot, StateRow, TopicRow
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.ledgers.loss import Loss

_FOLDER, _NAME = "bucket", "changes"


class NotedCatalog(SqliteCatalog):
    """A `SqliteCatalog` that notes what it is told to change."""

    def __init__(self, path: Path) -> None:
        self._noted: list[list[Any]] = []
        self._noted_from = 0  # the count before the first change that was noted
        self._is_noting = True
        super().__init__(path)
        # The bucket has everything: this file does not outlive the process.
        self._db.execute("pragma synchronous = off")
        self._noted.clear()

    def count(self) -> int:
        """How many transactions with changes it has seen since the bucket was begun."""
        doc = self.doc(_FOLDER, _NAME)
        return int(doc["count"]) if doc else 0

    def take_changes(self) -> bytes | None:
        """The changes of the last transaction, as the body of a record; None if there are none."""
        if not self._noted:
            return None
        changes, self._noted = self._noted, []
        doc = {"from": self._noted_from, "count": self.count(), "changes": changes}
        return json.dumps(doc).encode()

    def apply(self, body: bytes) -> None:
        """Make the changes of a record, unless the catalog has them already."""
        doc = json.loads(body)
        count = self.count()
        if doc["count"] <= count:
            return
        if doc["from"] != count:
            raise CorruptData(
                f"the catalog's changes {count + 1} to {doc['from']} are missing in the journal"
            )
        try:
            with self.unnoted(), self.transaction():
                for name, *args in doc["changes"]:
                    self._make(name, args)
                self.put_doc(_FOLDER, _NAME, {"count": doc["count"]})
        except MilepostError as failure:
            raise CorruptData(f"the catalog's change {doc['count']}: {failure}") from failure

    def _make(self, name: str, args: list[Any]) -> None:
        if name in ("create_topic", "create_state"):
            *args, made = args
            row = getattr(self, name)(*args)
            if row[0] != made:
                raise CorruptData(f"{name} {args} gave number {row[0]}, and it was {made}")
        elif name == "put_snapshot":
            state_id, sequence, data, facts = args
            held = None if data is None else base64.b64decode(data)
            self.put_snapshot(
                state_id, Snapshot(sequence, held, [base64.b64decode(fact) for fact in facts])
            )
        elif name == "put_schema":
            (row,) = args
            data = None if row[3] is None else base64.b64decode(row[3])
            self.put_schema(SchemaRow._make((*row[:3], data, *row[4:])))
        elif name == "put_loss":
            self.put_loss(args[0], Loss(*args[1]))
        else:
            getattr(self, name)(*args)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        outermost, before = not self._depth, len(self._noted)
        try:
            with super().transaction():
                yield
                if outermost and len(self._noted) > before:
                    count = self.count()
                    if not before:
                        self._noted_from = count
                    with self.unnoted():
                        self.put_doc(_FOLDER, _NAME, {"count": count + 1})
        except BaseException:
            del self._noted[before:]
            raise

    @contextmanager
    def unnoted(self) -> Iterator[None]:
        """What is changed inside is not noted: a checkpoint, or a part of a change that is."""
        noting, self._is_noting = self._is_noting, False
        try:
            yield
        finally:
            self._is_noting = noting

    def _note(self, name: str, *args: Any) -> None:
        if self._is_noting:
            self._noted.append([name, *args])

    # -- what is noted ---------------------------------------------------------------------------

    def create_topic(self, name: str, doc: Doc) -> TopicRow:
        with self.transaction():
            row = super().create_topic(name, doc)
            self._note("create_topic", name, doc, row.topic_id)
        return row

    def set_topic(self, topic_id: int, doc: Doc) -> None:
        with self.transaction():
            super().set_topic(topic_id, doc)
            self._note("set_topic", topic_id, doc)

    def delete_topic(self, topic_id: int, sequence: int, ledger_ids: Iterable[int] = ()) -> None:
        ids = sorted(ledger_ids)
        with self.transaction():
            with self.unnoted():
                super().delete_topic(topic_id, sequence, ids)
            self._note("delete_topic", topic_id, sequence, ids)

    def delete_ledgers(self, ledger_ids: Iterable[int], sequence: int) -> None:
        ids = list(ledger_ids)
        with self.transaction():
            super().delete_ledgers(ids, sequence)
            self._note("delete_ledgers", ids, sequence)

    def put_loss(self, topic_id: int, loss: Loss) -> None:
        with self.transaction():
            with self.unnoted():
                super().put_loss(topic_id, loss)
            self._note("put_loss", topic_id, list(loss))

    def accept_losses(self, topic_id: int) -> list[Loss]:
        with self.transaction():
            with self.unnoted():
                found = super().accept_losses(topic_id)
            self._note("accept_losses", topic_id)
        return found

    def create_state(self, topic_id: int, kind: str, name: str, doc: Doc) -> StateRow:
        with self.transaction():
            row = super().create_state(topic_id, kind, name, doc)
            self._note("create_state", topic_id, kind, name, doc, row.state_id)
        return row

    def set_state(self, state_id: int, doc: Doc) -> None:
        with self.transaction():
            super().set_state(state_id, doc)
            self._note("set_state", state_id, doc)

    def delete_state(self, state_id: int, sequence: int) -> None:
        with self.transaction():
            super().delete_state(state_id, sequence)
            self._note("delete_state", state_id, sequence)

    def put_snapshot(self, state_id: int, snapshot: Snapshot) -> None:
        with self.transaction():
            super().put_snapshot(state_id, snapshot)
            if self._is_noting:
                data = None if snapshot.data is None else _text(snapshot.data)
                facts = [_text(fact) for fact in snapshot.facts]
                self._note("put_snapshot", state_id, snapshot.sequence, data, facts)

    def put_schema(self, row: SchemaRow) -> None:
        with self.transaction():
            super().put_schema(row)
            data = None if row.data is None else _text(row.data)
            self._note("put_schema", list(row._replace(data=data)))  # type: ignore[arg-type]

    def erase_schemas(self, name: str, before_version: int) -> None:
        with self.transaction():
            super().erase_schemas(name, before_version)
            self._note("erase_schemas", name, before_version)

    def put_doc(self, folder: str, name: str, doc: Doc) -> None:
        with self.transaction():
            super().put_doc(folder, name, doc)
            self._note("put_doc", folder, name, doc)

    def delete_doc(self, folder: str, name: str) -> bool:
        with self.transaction():
            was_there = super().delete_doc(folder, name)
            self._note("delete_doc", folder, name)
        return was_there


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
