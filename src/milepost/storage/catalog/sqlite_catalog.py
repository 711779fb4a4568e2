"""The catalog in a SQLite database (WAL mode, full sync).

One connection, used by one thread at a time. Opening refuses a database of a newer format by name.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct

from milepost.errors import (
    AlreadyExists,
    CorruptData,
    DiskFull,
    OutcomeUnknown,
    PersistenceError,
    TopicNotFound,
    UnknownFormat,
)
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

FORMAT = 2
FILE = "catalog.sqlite"
# The folder of documents that tells what topics have lost, by topic id.
LOSSES = "losses"

_SCHEMA = """
create table meta (only integer primary key check (only = 1), incarnation blob not null,
  journal_first integer not null, journal_last integer not null, next_ledger_id integer not null,
  next_sequence integer not null);
create table docs (folder text not null, name text not null, doc text not null,
  primary key (folder, name)) without rowid;
create table topics (topic_id integer primary key autoincrement, name text not null unique,
  doc text not null);
create table ledgers (ledger_id integer primary key, topic_id integer not null,
  first_index integer not null, first_time_ms integer not null, entries integer not null,
  end_index integer not null, last_time_ms integer not null, size_bytes integer not null,
  mileposts_crc integer not null, sealed integer not null);
create index ledgers_of_topic on ledgers (topic_id, ledger_id);
create table states (state_id integer primary key autoincrement, topic_id integer not null,
  kind text not null, name text not null, doc text not null, sequence integer not null default -1,
  snapshot blob, facts blob not null default x'', unique (topic_id, kind, name));
create table tombstones (kind text not null, object_id integer not null, sequence integer not null,
  primary key (kind, object_id)) without rowid;
"""

# What each format has that the one before it had not.
_STEPS = {
    2: """
create table schemas (name text not null, version integer not null, kind integer not null,
  data blob, properties text not null, time_ms integer not null,
  primary key (name, version)) without rowid;
""",
}
assert max(_STEPS) == FORMAT

_FACT_SIZE = Struct("<I")


class SqliteCatalog:
    """`Catalog` on SQLite; `path` None keeps it in memory, for tests that need no file."""

    def __init__(
        self,
        path: Path | None,
        *,
        image: bytes | None = None,
        on_commit: Callable[[SqliteCatalog], None] | None = None,
    ) -> None:
        """`image` and `on_commit` serve crash tests: a database as bytes, and a call a commit."""
        self._on_commit = on_commit
        self._depth = 0
        # Why nothing may be changed: a commit failed in a way that leaves its outcome open.
        self._failure: str | None = None
        # Autocommit mode: transactions are begun and ended by name, in `transaction` only.
        self._db = sqlite3.connect(
            ":memory:" if path is None else path, isolation_level=None, check_same_thread=False
        )
        self._where = "catalog in memory" if path is None else path.name
        try:
            if image is not None:
                self._db.deserialize(image)
            (version,) = self._db.execute("pragma user_version").fetchone()
            if version > FORMAT:  # refused before anything is changed
                raise UnknownFormat(f"{self._where}: format {version}; this release reads {FORMAT}")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
        except sqlite3.DatabaseError as failure:
            self._db.close()
            raise CorruptData(f"{self._where}: {failure}") from failure
        except UnknownFormat:
            self._db.close()
            raise
        if version < FORMAT:
            self._upgrade(version)
        if path is not None:
            os.chmod(path, 0o600)

    def _upgrade(self, version: int) -> None:
        """Make what is missing, all of it or nothing; an older release cannot open it afterwards."""
        with self.transaction():
            if version == 0:
                self._run(_SCHEMA)
                self._db.execute("insert into meta values (1, ?, 1, 0, 1, 0)", (os.urandom(16),))
            for step in range(max(version, 1) + 1, FORMAT + 1):
                self._run(_STEPS[step])
            self._db.execute(f"pragma user_version = {FORMAT}")

    def _run(self, statements: str) -> None:
        for statement in statements.split(";\n"):
            if statement.strip():
                self._db.execute(statement)

    def close(self) -> None:
        self._db.close()

    def image(self) -> bytes:
        """The whole database as bytes."""
        return self._db.serialize()

    @property
    def changes(self) -> int:
        """Rows that this connection has changed so far."""
        return self._db.total_changes

    @property
    def changes_of_others(self) -> int:
        """Another number whenever another connection has changed the database."""
        (version,) = self._db.execute("pragma data_version").fetchone()
        return int(version)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, durable at the end of the outermost one.

        One inside another can fail alone: its changes are taken back, the outer one goes on.
        """
        if self._failure is not None:
            raise PersistenceError(f"{self._where}: no changes until a restart: {self._failure}")
        outermost = not self._depth
        if not outermost and not self._db.in_transaction:
            # A full disk ends the whole transaction, whatever else was in it. What came now would be
            # committed on its own, and be told to have failed with the rest.
            raise PersistenceError(f"{self._where}: what it was to be part of was taken back")
        committing = False
        name = f"level{self._depth}"
        self._depth += 1
        try:
            self._db.execute("begin immediate" if outermost else f"savepoint {name}")
            try:
                yield
                committing = outermost
                self._db.execute("commit" if outermost else f"release {name}")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("rollback" if outermost else f"rollback to {name}")
                raise
        except sqlite3.OperationalError as failure:
            if committing and failure.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
                # It may be in the file all the same, and a start would find it there. Until then
                # nothing may be done that takes it for undone.
                self._failure = str(failure)
                raise OutcomeUnknown(f"{self._where}: {failure}") from failure
            error = DiskFull if "full" in str(failure) else PersistenceError
            raise error(f"{self._where}: {failure}") from failure
        except sqlite3.DatabaseError as failure:
            raise CorruptData(f"{self._where}: {failure}") from failure
        finally:
            self._depth -= 1
        if outermost and self._on_commit is not None:
            self._on_commit(self)

    # -- meta ----------------------------------------------------------------------------------

    def meta(self) -> Meta:
        row = self._db.execute(
            f"select {', '.join(Meta._fields)} from meta"  # noqa: S608
        ).fetchone()
        if row is None:
            raise CorruptData(f"{self._where}: its identity is missing")
        return Meta._make(row)

    def set_meta(
        self, *, journal_first: int, journal_last: int, next_ledger_id: int, next_sequence: int
    ) -> None:
        with self.transaction():
            self._db.execute(
                "update meta set journal_first = ?, journal_last = ?, next_ledger_id = ?,"
                " next_sequence = ?",
                (journal_first, journal_last, next_ledger_id, next_sequence),
            )

    # -- topics --------------------------------------------------------------------------------

    def create_topic(self, name: str, doc: Doc) -> TopicRow:
        with self.transaction():
            if self.topic(name) is not None:
                raise AlreadyExists(f"topic {name} exists")
            made = self._db.execute(
                "insert into topics (name, doc) values (?, ?)", (name, json.dumps(doc))
            )
        assert made.lastrowid is not None
        return TopicRow(made.lastrowid, name, doc)

    def set_topic(self, topic_id: int, doc: Doc) -> None:
        with self.transaction():
            changed = self._db.execute(
                "update topics set doc = ? where topic_id = ?", (json.dumps(doc), topic_id)
            )
            if not changed.rowcount:
                raise TopicNotFound(f"topic {topic_id} does not exist")

    def topic(self, name: str) -> TopicRow | None:
        return self._one_topic("name = ?", name)

    def topic_by_id(self, topic_id: int) -> TopicRow | None:
        return self._one_topic("topic_id = ?", topic_id)

    def _one_topic(self, where: str, value: str | int) -> TopicRow | None:
        query = f"select topic_id, name, doc from topics where {where}"  # noqa: S608
        row = self._db.execute(query, (value,)).fetchone()
        return TopicRow(row[0], row[1], json.loads(row[2])) if row else None

    def topics(self, prefix: str = "") -> list[TopicRow]:
        rows = self._db.execute(
            "select topic_id, name, doc from topics where substr(name, 1, ?) = ? order by name",
            (len(prefix), prefix),
        )
        return [TopicRow(topic_id, name, json.loads(doc)) for topic_id, name, doc in rows]

    def delete_topic(self, topic_id: int, sequence: int, ledger_ids: Iterable[int] = ()) -> None:
        with self.transaction():
            if self.topic_by_id(topic_id) is None:
                raise TopicNotFound(f"topic {topic_id} does not exist")
            known = {row.ledger_id for row in self.ledgers(topic_id)}
            self.delete_ledgers(known.union(ledger_ids), sequence)
            for state in self.states(topic_id):
                self.delete_state(state.state_id, sequence)
            self.delete_doc(LOSSES, str(topic_id))
            self._db.execute("delete from topics where topic_id = ?", (topic_id,))
            self._bury(TOPIC_TOMB, topic_id, sequence)

    # -- ledgers -------------------------------------------------------------------------------

    def ledgers(self, topic_id: int) -> list[LedgerRow]:
        rows = self._db.execute(
            f"select {', '.join(LedgerRow._fields)} from ledgers"  # noqa: S608
            " where topic_id = ? order by ledger_id",
            (topic_id,),
        )
        return [LedgerRow._make(row)._replace(sealed=bool(row[-1])) for row in rows]

    def ledger(self, ledger_id: int) -> LedgerRow | None:
        row = self._db.execute(
            f"select {', '.join(LedgerRow._fields)} from ledgers where ledger_id = ?",  # noqa: S608
            (ledger_id,),
        ).fetchone()
        return LedgerRow._make(row)._replace(sealed=bool(row[-1])) if row else None

    def all_ledgers(self) -> Iterator[LedgerRow]:
        rows = self._db.execute(
            f"select {', '.join(LedgerRow._fields)} from ledgers"  # noqa: S608
        )
        for row in rows:
            yield LedgerRow._make(row)._replace(sealed=bool(row[-1]))

    def put_ledgers(self, rows: Iterable[LedgerRow]) -> None:
        marks = ", ".join("?" * len(LedgerRow._fields))
        with self.transaction():
            self._db.executemany(f"replace into ledgers values ({marks})", rows)  # noqa: S608

    def delete_ledgers(self, ledger_ids: Iterable[int], sequence: int) -> None:
        with self.transaction():
            for ledger_id in ledger_ids:
                self._db.execute("delete from ledgers where ledger_id = ?", (ledger_id,))
                self._bury(LEDGER_TOMB, ledger_id, sequence)

    # -- losses --------------------------------------------------------------------------------

    def losses(self) -> dict[int, list[Loss]]:
        return {int(topic_id): _losses(doc) for topic_id, doc in self.docs(LOSSES).items()}

    def put_loss(self, topic_id: int, loss: Loss) -> None:
        with self.transaction():
            known = _losses(self.doc(LOSSES, str(topic_id)) or {})
            others = [one for one in known if one.place != loss.place]
            doc = {"losses": [one._asdict() for one in (*others, loss)]}
            self.put_doc(LOSSES, str(topic_id), doc)

    def accept_losses(self, topic_id: int) -> list[Loss]:
        with self.transaction():
            found = _losses(self.doc(LOSSES, str(topic_id)) or {})
            self.delete_doc(LOSSES, str(topic_id))
        return found

    # -- states --------------------------------------------------------------------------------

    def create_state(self, topic_id: int, kind: str, name: str, doc: Doc) -> StateRow:
        with self.transaction():
            taken = self._db.execute(
                "select 1 from states where topic_id = ? and kind = ? and name = ?",
                (topic_id, kind, name),
            ).fetchone()
            if taken:
                raise AlreadyExists(f"{kind} {name} of topic {topic_id} exists")
            if topic_id != NO_TOPIC and self.topic_by_id(topic_id) is None:
                raise TopicNotFound(f"topic {topic_id} of {kind} {name} does not exist")
            made = self._db.execute(
                "insert into states (topic_id, kind, name, doc) values (?, ?, ?, ?)",
                (topic_id, kind, name, json.dumps(doc)),
            )
        assert made.lastrowid is not None
        return StateRow(made.lastrowid, topic_id, kind, name, doc)

    def set_state(self, state_id: int, doc: Doc) -> None:
        with self.transaction():
            self._db.execute(
                "update states set doc = ? where state_id = ?", (json.dumps(doc), state_id)
            )

    def states(self, topic_id: int) -> list[StateRow]:
        rows = self._db.execute(
            "select state_id, topic_id, kind, name, doc from states where topic_id = ?"
            " order by state_id",
            (topic_id,),
        )
        return [_state(row) for row in rows]

    def state_by_id(self, state_id: int) -> StateRow | None:
        row = self._db.execute(
            "select state_id, topic_id, kind, name, doc from states where state_id = ?", (state_id,)
        ).fetchone()
        return _state(row) if row else None

    def delete_state(self, state_id: int, sequence: int) -> None:
        with self.transaction():
            self._db.execute("delete from states where state_id = ?", (state_id,))
            self._bury(STATE_TOMB, state_id, sequence)

    def snapshot(self, state_id: int) -> Snapshot:
        row = self._db.execute(
            "select sequence, snapshot, facts from states where state_id = ?", (state_id,)
        ).fetchone()
        if row is None:
            raise CorruptData(f"{self._where}: state {state_id} is missing")
        return Snapshot(row[0], row[1], _split_facts(row[2]))

    def put_snapshot(self, state_id: int, snapshot: Snapshot) -> None:
        facts = b"".join(_FACT_SIZE.pack(len(fact)) + fact for fact in snapshot.facts)
        with self.transaction():
            self._db.execute(
                "update states set sequence = ?, snapshot = ?, facts = ? where state_id = ?",
                (snapshot.sequence, snapshot.data, facts, state_id),
            )

    def last_folded(self) -> int:
        (sequence,) = self._db.execute("select coalesce(max(sequence), -1) from states").fetchone()
        return int(sequence)

    # -- tombstones ----------------------------------------------------------------------------

    def _bury(self, kind: str, object_id: int, sequence: int) -> None:
        self._db.execute("replace into tombstones values (?, ?, ?)", (kind, object_id, sequence))

    def tombstones(self) -> list[Tombstone]:
        rows = self._db.execute("select kind, object_id, sequence from tombstones")
        return [Tombstone._make(row) for row in rows]

    def forget_tombstones(self, sequence: int) -> None:
        with self.transaction():
            self._db.execute("delete from tombstones where sequence <= ?", (sequence,))

    # -- schemas -------------------------------------------------------------------------------

    def put_schema(self, row: SchemaRow) -> None:
        with self.transaction():
            (last,) = self._db.execute(
                "select coalesce(max(version), -1) from schemas where name = ?", (row.name,)
            ).fetchone()
            if row.version != last + 1:
                raise AlreadyExists(
                    f"schema {row.name}: version {row.version} where {last + 1} is next"
                )
            self._db.execute(
                "insert into schemas values (?, ?, ?, ?, ?, ?)",
                row._replace(properties=json.dumps(row.properties)),  # type: ignore[arg-type]
            )

    def schemas(self, name: str) -> list[SchemaRow]:
        rows = self._db.execute(
            f"select {', '.join(SchemaRow._fields)} from schemas"  # noqa: S608
            " where name = ? order by version",
            (name,),
        )
        return [SchemaRow._make((*row[:4], json.loads(row[4]), row[5])) for row in rows]

    def schema_names(self) -> list[str]:
        # Of the columns beside a maximum SQLite gives those of its row.
        rows = self._db.execute(
            "select name from (select name, data, max(version) from schemas group by name)"
            " where data is not null order by name"
        )
        return [name for (name,) in rows]

    def erase_schemas(self, name: str, before_version: int) -> None:
        with self.transaction():
            self._db.execute(
                "delete from schemas where name = ? and version < ?", (name, before_version)
            )

    # -- documents -----------------------------------------------------------------------------

    def put_doc(self, folder: str, name: str, doc: Doc) -> None:
        with self.transaction():
            self._db.execute("replace into docs values (?, ?, ?)", (folder, name, json.dumps(doc)))

    def doc(self, folder: str, name: str) -> Doc | None:
        row = self._db.execute(
            "select doc from docs where folder = ? and name = ?", (folder, name)
        ).fetchone()
        found: Doc | None = json.loads(row[0]) if row else None
        return found

    def docs(self, folder: str, prefix: str = "") -> dict[str, Doc]:
        rows = self._db.execute(
            "select name, doc from docs where folder = ? and substr(name, 1, ?) = ? order by name",
            (folder, len(prefix), prefix),
        )
        return {name: json.loads(doc) for name, doc in rows}

    def delete_doc(self, folder: str, name: str) -> bool:
        with self.transaction():
            gone = self._db.execute(
                "delete from docs where folder = ? and name = ?", (folder, name)
            )
        return gone.rowcount > 0


def _state(row: tuple[int, int, str, str, str]) -> StateRow:
    state_id, topic_id, kind, name, doc = row
    return StateRow(state_id, topic_id, kind, name, json.loads(doc))


def _losses(doc: Doc) -> list[Loss]:
    return [Loss(**one) for one in doc.get("losses", [])]


def _split_facts(data: bytes) -> list[bytes]:
    facts: list[bytes] = []
    at = 0
    while at < len(data):
        (size,) = _FACT_SIZE.unpack_from(data, at)
        at += _FACT_SIZE.size
        facts.append(data[at : at + size])
        at += size
    return facts
