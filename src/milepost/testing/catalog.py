"""The catalog in memory: what `SqliteCatalog` does, without a database, for brokers that are started by the
thousand.

One test suite runs against both. The first change in a transaction, or behind an image, copies every table,
which costs as much as there is in them: this is for worlds of a few topics. Nothing of it fails by itself.

    catalog = MemoryCatalog()
    store = Store(MemoryFiles(), catalog, ManualClock())
    ...
    again = MemoryCatalog(image=catalog.image())    # what another process finds
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from milepost.errors import AlreadyExists, CorruptData, TopicNotFound
from milepost.storage.catalog.catalog import (
    LEDGER_TOMB,
    NO_TOPIC,
    STATE_TOMB,
    TOPIC_TOMB,
    Doc,
    Meta,
    SchemaRow,
    Snapshot,
    StateRow,
    Tombstone,
    TopicRow,
)
from milepost.storage.ledgers.ledger import LedgerRow
from milepost.storage.ledgers.loss import Loss

# Documents are kept as text, as a database keeps them: no caller shares one with another.
_text = json.JSONEncoder(check_circular=False).encode
_NOTHING = Snapshot(-1, None, [])


class _State(NamedTuple):
    topic_id: int
    kind: str
    name: str
    doc: str
    snapshot: Snapshot


class CatalogImage(NamedTuple):
    """Everything in it. Invariant: no table is changed once it is part of an image."""

    meta: Meta
    last_topic_id: int
    last_state_id: int
    topics: dict[int, tuple[str, str]]
    ledgers: dict[int, LedgerRow]
    losses: dict[int, tuple[Loss, ...]]
    states: dict[int, _State]
    tombstones: dict[tuple[str, int], int]
    schemas: dict[tuple[str, int], SchemaRow]
    docs: dict[tuple[str, str], str]

    def copy(self) -> CatalogImage:
        fields: list[Any] = [one.copy() if isinstance(one, dict) else one for one in self]
        return CatalogImage(*fields)


class _Transaction:
    """All or nothing; one inside another can fail alone."""

    __slots__ = ("_before", "_catalog")

    def __init__(self, catalog: MemoryCatalog) -> None:
        self._catalog = catalog

    def __enter__(self) -> None:
        self._before = self._catalog.image()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._catalog._tables, self._catalog._is_shared = self._before, True


class MemoryCatalog:
    """Implements `milepost.storage.catalog.catalog.Catalog`."""

    def __init__(self, *, image: CatalogImage | None = None) -> None:
        if image is None:
            meta = Meta(os.urandom(16), 1, 0, 1, 0)
            image = CatalogImage(meta, 0, 0, {}, {}, {}, {}, {}, {}, {})
        self._tables = image
        # The tables are part of an image, or a transaction may go back to them: they are copied
        # before they are changed.
        self._is_shared = True

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def close(self) -> None:
        """There is nothing to give back."""

    def image(self) -> CatalogImage:
        """The whole catalog, as it is now."""
        self._is_shared = True
        return self._tables

    def _changing(self) -> CatalogImage:
        """The tables, to be changed."""
        if self._is_shared:
            self._tables, self._is_shared = self._tables.copy(), False
        return self._tables

    # -- meta ----------------------------------------------------------------------------------

    def meta(self) -> Meta:
        return self._tables.meta

    def set_meta(
        self, *, journal_first: int, journal_last: int, next_ledger_id: int, next_sequence: int
    ) -> None:
        meta = Meta(
            self.meta().incarnation, journal_first, journal_last, next_ledger_id, next_sequence
        )
        self._tables = self._tables._replace(meta=meta)

    # -- topics --------------------------------------------------------------------------------

    def create_topic(self, name: str, doc: Doc) -> TopicRow:
        if self.topic(name) is not None:
            raise AlreadyExists(f"topic {name} exists")
        topic_id = self._tables.last_topic_id + 1
        self._tables = self._tables._replace(last_topic_id=topic_id)
        self._changing().topics[topic_id] = name, _text(doc)
        return TopicRow(topic_id, name, doc)

    def set_topic(self, topic_id: int, doc: Doc) -> None:
        topics = self._changing().topics
        if topic_id not in topics:
            raise TopicNotFound(f"topic {topic_id} does not exist")
        topics[topic_id] = topics[topic_id][0], _text(doc)

    def topic(self, name: str) -> TopicRow | None:
        for topic_id, (known, doc) in self._tables.topics.items():
            if known == name:
                return TopicRow(topic_id, name, json.loads(doc))
        return None

    def topic_by_id(self, topic_id: int) -> TopicRow | None:
        found = self._tables.topics.get(topic_id)
        return TopicRow(topic_id, found[0], json.loads(found[1])) if found else None

    def topics(self, prefix: str = "") -> list[TopicRow]:
        rows = [
            TopicRow(topic_id, name, json.loads(doc))
            for topic_id, (name, doc) in self._tables.topics.items()
            if name.startswith(prefix)
        ]
        return sorted(rows, key=lambda row: row.name)

    def delete_topic(self, topic_id: int, sequence: int, ledger_ids: Iterable[int] = ()) -> None:
        if topic_id not in self._tables.topics:
            raise TopicNotFound(f"topic {topic_id} does not exist")
        known = {row.ledger_id for row in self.ledgers(topic_id)}
        self.delete_ledgers(known.union(ledger_ids), sequence)
        for state in self.states(topic_id):
            self.delete_state(state.state_id, sequence)
        self._changing().losses.pop(topic_id, None)
        del self._changing().topics[topic_id]
        self._changing().tombstones[TOPIC_TOMB, topic_id] = sequence

    # -- ledgers -------------------------------------------------------------------------------

    def ledgers(self, topic_id: int) -> list[LedgerRow]:
        return [row for row in self.all_ledgers() if row.topic_id == topic_id]

    def ledger(self, ledger_id: int) -> LedgerRow | None:
        return self._tables.ledgers.get(ledger_id)

    def all_ledgers(self) -> Iterator[LedgerRow]:
        return iter([row for _, row in sorted(self._tables.ledgers.items())])

    def put_ledgers(self, rows: Iterable[LedgerRow]) -> None:
        self._changing().ledgers.update({row.ledger_id: row for row in rows})

    def delete_ledgers(self, ledger_ids: Iterable[int], sequence: int) -> None:
        for ledger_id in ledger_ids:
            self._changing().ledgers.pop(ledger_id, None)
            self._changing().tombstones[LEDGER_TOMB, ledger_id] = sequence

    # -- losses --------------------------------------------------------------------------------

    def losses(self) -> dict[int, list[Loss]]:
        return {topic_id: [*losses] for topic_id, losses in self._tables.losses.items()}

    def put_loss(self, topic_id: int, loss: Loss) -> None:
        known = self._tables.losses.get(topic_id, ())
        others = [one for one in known if one.place != loss.place]
        self._changing().losses[topic_id] = (*others, loss)

    def accept_losses(self, topic_id: int) -> list[Loss]:
        return [*self._changing().losses.pop(topic_id, ())]

    # -- states --------------------------------------------------------------------------------

    def create_state(self, topic_id: int, kind: str, name: str, doc: Doc) -> StateRow:
        states = self._tables.states
        if any(
            (one.topic_id, one.kind, one.name) == (topic_id, kind, name) for one in states.values()
        ):
            raise AlreadyExists(f"{kind} {name} of topic {topic_id} exists")
        if topic_id != NO_TOPIC and topic_id not in self._tables.topics:
            raise TopicNotFound(f"topic {topic_id} of {kind} {name} does not exist")
        state_id = self._tables.last_state_id + 1
        self._tables = self._tables._replace(last_state_id=state_id)
        self._changing().states[state_id] = _State(topic_id, kind, name, _text(doc), _NOTHING)
        return StateRow(state_id, topic_id, kind, name, doc)

    def set_state(self, state_id: int, doc: Doc) -> None:
        if state_id in self._tables.states:
            state = self._tables.states[state_id]
            self._changing().states[state_id] = state._replace(doc=_text(doc))

    def states(self, topic_id: int) -> list[StateRow]:
        return [
            _row(state_id, state)
            for state_id, state in sorted(self._tables.states.items())
            if state.topic_id == topic_id
        ]

    def state_by_id(self, state_id: int) -> StateRow | None:
        state = self._tables.states.get(state_id)
        return None if state is None else _row(state_id, state)

    def delete_state(self, state_id: int, sequence: int) -> None:
        self._changing().states.pop(state_id, None)
        self._changing().tombstones[STATE_TOMB, state_id] = sequence

    def snapshot(self, state_id: int) -> Snapshot:
        state = self._tables.states.get(state_id)
        if state is None:
            raise CorruptData(f"catalog in memory: state {state_id} is missing")
        return state.snapshot._replace(facts=[*state.snapshot.facts])

    def put_snapshot(self, state_id: int, snapshot: Snapshot) -> None:
        state = self._tables.states.get(state_id)
        if state is not None:
            kept = Snapshot(snapshot.sequence, snapshot.data, [*map(bytes, snapshot.facts)])
            self._changing().states[state_id] = state._replace(snapshot=kept)

    def last_folded(self) -> int:
        return max((one.snapshot.sequence for one in self._tables.states.values()), default=-1)

    # -- tombstones ----------------------------------------------------------------------------

    def tombstones(self) -> list[Tombstone]:
        return [
            Tombstone(*of, sequence) for of, sequence in sorted(self._tables.tombstones.items())
        ]

    def forget_tombstones(self, sequence: int) -> None:
        for of in [of for of, last in self._tables.tombstones.items() if last <= sequence]:
            del self._changing().tombstones[of]

    # -- schemas -------------------------------------------------------------------------------

    def put_schema(self, row: SchemaRow) -> None:
        last = max((one.version for one in self.schemas(row.name)), default=-1)
        if row.version != last + 1:
            raise AlreadyExists(
                f"schema {row.name}: version {row.version} where {last + 1} is next"
            )
        kept = row._replace(properties={**row.properties})
        self._changing().schemas[row.name, row.version] = kept

    def schemas(self, name: str) -> list[SchemaRow]:
        rows = sorted(self._tables.schemas.items())
        return [row._replace(properties={**row.properties}) for _, row in rows if row.name == name]

    def schema_names(self) -> list[str]:
        newest = {name: row for (name, _), row in sorted(self._tables.schemas.items())}
        return [name for name, row in newest.items() if row.data is not None]

    def erase_schemas(self, name: str, before_version: int) -> None:
        for row in self.schemas(name):
            if row.version < before_version:
                del self._changing().schemas[name, row.version]

    # -- documents -----------------------------------------------------------------------------

    def put_doc(self, folder: str, name: str, doc: Doc) -> None:
        self._changing().docs[folder, name] = _text(doc)

    def doc(self, folder: str, name: str) -> Doc | None:
        text = self._tables.docs.get((folder, name))
        found: Doc | None = None if text is None else json.loads(text)
        return found

    def docs(self, folder: str, prefix: str = "") -> dict[str, Doc]:
        return {
            name: json.loads(text)
            for (of, name), text in sorted(self._tables.docs.items())
            if of == folder and name.startswith(prefix)
        }

    def delete_doc(self, folder: str, name: str) -> bool:
        return self._changing().docs.pop((folder, name), None) is not None


def _row(state_id: int, state: _State) -> StateRow:
    return StateRow(state_id, state.topic_id, state.kind, state.name, json.loads(state.doc))
