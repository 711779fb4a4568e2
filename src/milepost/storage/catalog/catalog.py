"""The interface of the catalog: tenants, namespaces, topics, ledgers, states, schemas.

It changes rarely and in transactions: everything inside one `with catalog.transaction():` becomes
durable together when the block ends, or not at all. A checkpoint is one such transaction. Documents
(`doc`) are JSON objects that the catalog stores and does not read.

`Catalog` is the interface; `sqlite_catalog.py` has the implementation for one machine. An
implementation on a distributed store may follow, for several brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar

from milepost.storage.ledgers.ledger import LedgerRow
from milepost.storage.ledgers.loss import Loss

Doc = dict[str, Any]
T = TypeVar("T")

# Kinds of things that can be deleted while the journal still speaks of them.
TOPIC_TOMB = "topic"
LEDGER_TOMB = "ledger"
STATE_TOMB = "state"

# In place of a topic: the state belongs to the whole broker.
NO_TOPIC = 0


class TopicRow(NamedTuple):
    """A log with a name. `topic_id` is its incarnation: a topic made again gets another."""

    topic_id: int
    name: str
    doc: Doc


class StateRow(NamedTuple):
    """Something durable that is not entries: a cursor, a table of sequence ids."""

    state_id: int
    topic_id: int
    kind: str
    name: str
    doc: Doc


class Snapshot(NamedTuple):
    """A state at one moment: a snapshot and the facts that were journalled behind it."""

    sequence: int
    """Facts up to this journal sequence are part of it."""
    data: bytes | None
    facts: list[bytes]
    """Facts that no snapshot holds yet, in order, for a state that was not opened since."""


class Meta(NamedTuple):
    incarnation: bytes
    """Sixteen random bytes: the identity of this data directory."""
    journal_first: int
    """The oldest journal file that recovery needs."""
    journal_last: int
    """The newest that is known to have been begun: recovery needs it too. There may be newer ones."""
    next_ledger_id: int
    """Ledger ids below it are, or may have been, in use."""
    next_sequence: int
    """No record below it is in the journal files from `journal_first` on."""


class SchemaRow(NamedTuple):
    """A version of a topic's schema, or a deletion, which is numbered as one."""

    name: str
    """`tenant/namespace/topic`; partitions share the schema of their topic."""
    version: int
    kind: int
    """The schema type, by Pulsar's number."""
    data: bytes | None
    """The definition; None marks a deletion: no version before it counts any more."""
    properties: dict[str, str]
    time_ms: int
    """When it was stored."""


class Tombstone(NamedTuple):
    """A topic, ledger or state that was deleted on purpose. Absence alone proves nothing."""

    kind: str
    object_id: int
    sequence: int
    """The newest journal sequence that can speak of it."""


class Catalog(Protocol):
    """What the storage and the broker need of the catalog."""

    def transaction(self) -> AbstractContextManager[None]: ...

    def close(self) -> None: ...

    def meta(self) -> Meta: ...
    def set_meta(
        self, *, journal_first: int, journal_last: int, next_ledger_id: int, next_sequence: int
    ) -> None: ...

    # -- topics: AlreadyExists and TopicNotFound are raised by name ------------------------------
    def create_topic(self, name: str, doc: Doc) -> TopicRow: ...
    def set_topic(self, topic_id: int, doc: Doc) -> None: ...
    def topic(self, name: str) -> TopicRow | None: ...
    def topic_by_id(self, topic_id: int) -> TopicRow | None: ...
    def topics(self, prefix: str = "") -> list[TopicRow]: ...
    def delete_topic(self, topic_id: int, sequence: int, ledger_ids: Iterable[int] = ()) -> None:
        """With its ledgers and states, leaving tombstones for all of them.

        `ledger_ids` are its ledgers too, which only the journal may know of so far.
        """
        ...

    # -- ledgers ---------------------------------------------------------------------------------
    def ledgers(self, topic_id: int) -> list[LedgerRow]: ...
    def ledger(self, ledger_id: int) -> LedgerRow | None: ...
    def all_ledgers(self) -> Iterator[LedgerRow]:
        """Of every topic."""
        ...

    def put_ledgers(self, rows: Iterable[LedgerRow]) -> None: ...
    def delete_ledgers(self, ledger_ids: Iterable[int], sequence: int) -> None: ...

    # -- losses: what is gone of a topic's ledgers, until an operator has accepted it ------------
    def losses(self) -> dict[int, list[Loss]]:
        """By topic."""
        ...

    def put_loss(self, topic_id: int, loss: Loss) -> None:
        """Remember one more; of one ledger the newest counts."""
        ...

    def accept_losses(self, topic_id: int) -> list[Loss]:
        """Forget what a topic has lost; returns what that was."""
        ...

    # -- states ----------------------------------------------------------------------------------
    def create_state(self, topic_id: int, kind: str, name: str, doc: Doc) -> StateRow: ...
    def set_state(self, state_id: int, doc: Doc) -> None: ...
    def states(self, topic_id: int) -> list[StateRow]: ...
    def state_by_id(self, state_id: int) -> StateRow | None: ...
    def delete_state(self, state_id: int, sequence: int) -> None: ...
    def snapshot(self, state_id: int) -> Snapshot: ...
    def put_snapshot(self, state_id: int, snapshot: Snapshot) -> None: ...
    def last_folded(self) -> int:
        """The newest sequence that any snapshot holds; -1 if none holds any."""
        ...

    # -- tombstones ------------------------------------------------------------------------------
    def tombstones(self) -> list[Tombstone]: ...
    def forget_tombstones(self, sequence: int) -> None:
        """Those that no journal file can speak of any more."""
        ...

    # -- schemas ---------------------------------------------------------------------------------
    def put_schema(self, row: SchemaRow) -> None:
        """The next version of its name; `AlreadyExists` for any number but last + 1."""
        ...

    def schemas(self, name: str) -> list[SchemaRow]:
        """Every version of a name, oldest first."""
        ...

    def schema_names(self) -> list[str]:
        """The names whose last version is no deletion."""
        ...

    def erase_schemas(self, name: str, before_version: int) -> None:
        """Forget the versions below one. Their numbers are not given again."""
        ...

    # -- documents: tenants, namespaces, partitioned topics, policies, roles ---------------------
    def put_doc(self, folder: str, name: str, doc: Doc) -> None: ...
    def doc(self, folder: str, name: str) -> Doc | None: ...
    def docs(self, folder: str, prefix: str = "") -> dict[str, Doc]: ...
    def delete_doc(self, folder: str, name: str) -> bool: ...


class ChangeCatalog(Protocol):
    """Makes changes of the catalog, one after the other, for callers that keep a copy in memory.

    What decides about a change must be read inside it: whatever was read before is of a time at which
    another change may have been on its way.
    """

    def __call__(
        self,
        change: Callable[[Catalog], T],
        then: Callable[[T], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Coroutine[Any, Any, T]:
        """Run `change` in a transaction of its own; durable when this returns.

        When its outcome is known, `then` is called with its result, or `undo` if it failed. Both are
        called on the loop in the order of the changes, also when the caller was cancelled meanwhile:
        so a copy in memory is always what the catalog has.
        """
        ...
