"""The catalog on SQLite: all or nothing, durable, of a known format."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from milepost.errors import (
    AlreadyExists,
    CorruptData,
    DiskFull,
    OutcomeUnknown,
    PersistenceError,
    TopicNotFound,
    UnknownFormat,
)
from milepost.storage.catalog.catalog import Catalog, SchemaRow, Snapshot, Tombstone
from milepost.storage.catalog.sqlite_catalog import FILE, SqliteCatalog
from milepost.storage.ledgers.ledger import LedgerRow
from milepost.testing.catalog import MemoryCatalog


@pytest.fixture
def database() -> SqliteCatalog:
    return SqliteCatalog(None)


@pytest.fixture(params=["on SQLite", "in memory"])
def catalog(request: pytest.FixtureRequest) -> Catalog:
    """Of both kinds: the one of tests does what the real one does."""
    return SqliteCatalog(None) if request.param == "on SQLite" else MemoryCatalog()


class TestFormat:
    def test_a_file_is_made_and_opened_again(self, tmp_path: Path) -> None:
        catalog = SqliteCatalog(tmp_path / FILE)
        meta = catalog.meta()
        assert (meta.journal_first, meta.journal_last, meta.next_sequence) == (1, 0, 0)
        catalog.create_topic("a", {"x": 1})
        catalog.close()
        again = SqliteCatalog(tmp_path / FILE)
        assert again.meta() == meta
        assert again.topics()[0].doc == {"x": 1}
        again.close()
        assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600

    def test_every_commit_is_synced(self, tmp_path: Path) -> None:
        catalog = SqliteCatalog(tmp_path / FILE)
        assert catalog._db.execute("pragma journal_mode").fetchone() == ("wal",)
        assert catalog._db.execute("pragma synchronous").fetchone() == (2,)
        catalog.close()

    def test_two_catalogs_have_two_identities(self) -> None:
        assert SqliteCatalog(None).meta().incarnation != SqliteCatalog(None).meta().incarnation

    def test_a_newer_format_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / FILE
        database = sqlite3.connect(path)
        database.execute("pragma user_version = 3")
        database.execute("create table future (x)")
        database.commit()
        database.close()
        before = path.read_bytes()
        with pytest.raises(UnknownFormat, match=r"catalog\.sqlite: format 3; this release reads 2"):
            SqliteCatalog(path)
        assert path.read_bytes() == before

    def test_an_older_format_is_upgraded_and_keeps_what_it_has(self, tmp_path: Path) -> None:
        path = tmp_path / FILE
        catalog = SqliteCatalog(path)
        catalog.create_topic("a", {"x": 1})
        meta = catalog.meta()
        catalog._db.execute("drop table schemas")
        catalog._db.execute("pragma user_version = 1")
        catalog.close()
        again = SqliteCatalog(path)
        assert again.schemas("t") == []
        assert (again.meta(), again.topics()[0].doc) == (meta, {"x": 1})
        assert again._db.execute("pragma user_version").fetchone() == (2,)
        again.close()

    @pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\0" * 50])
    def test_something_else_is_refused(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / FILE).write_bytes(content)
        with pytest.raises(CorruptData, match=r"catalog\.sqlite: "):
            SqliteCatalog(tmp_path / FILE)
        assert (tmp_path / FILE).read_bytes() == content

    def test_an_image_is_the_catalog_again(self, database: SqliteCatalog) -> None:
        database.create_topic("a", {})
        again = SqliteCatalog(None, image=database.image())
        assert (again.topics(), again.meta()) == (database.topics(), database.meta())

    def test_an_image_in_memory_is_the_catalog_as_it_was(self) -> None:
        catalog = MemoryCatalog()
        catalog.create_topic("a", {})
        image = catalog.image()
        catalog.create_topic("b", {})
        again = MemoryCatalog(image=image)
        assert [topic.name for topic in again.topics()] == ["a"]
        assert again.meta() == catalog.meta()


def fail_halfway(catalog: Catalog, name: str, failure: Exception | None = None) -> None:
    with catalog.transaction():
        catalog.create_topic(name, {})
        raise failure or RuntimeError("halfway")


class FailingCommits:
    """A connection whose commits fail in the sync."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)

    def execute(self, statement: str, *arguments: object) -> object:
        if statement == "commit":
            failure = sqlite3.OperationalError("disk I/O error")
            failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise failure
        return self._connection.execute(statement, *arguments)


class TestTransactions:
    def test_all_or_nothing(self, catalog: Catalog) -> None:
        with pytest.raises(RuntimeError, match="halfway"):
            fail_halfway(catalog, "a")
        assert catalog.topics() == []
        with catalog.transaction():
            catalog.create_topic("a", {})
            catalog.create_topic("b", {})
        assert [topic.name for topic in catalog.topics()] == ["a", "b"]

    def test_one_inside_another_fails_alone(self, catalog: Catalog) -> None:
        with catalog.transaction():
            catalog.create_topic("a", {})
            with pytest.raises(AlreadyExists):
                catalog.create_topic("a", {})
            with pytest.raises(RuntimeError):
                fail_halfway(catalog, "b")
            catalog.create_topic("c", {})
        assert [topic.name for topic in catalog.topics()] == ["a", "c"]

    def test_what_is_told_to_have_failed_has_not_happened(self, database: SqliteCatalog) -> None:
        """A full disk takes the outer transaction back: nothing behind it is a transaction of its own."""
        database._db.execute("pragma max_page_count = 40")
        with pytest.raises(PersistenceError), database.transaction():  # noqa: PT012
            database.create_topic("a", {})
            with pytest.raises(DiskFull):
                database.put_doc("folder", "large", {"x": "y" * 400_000})
            with pytest.raises(PersistenceError, match="taken back"):
                database.create_topic("b", {})
        assert (database.topics(), database.docs("folder")) == ([], {})
        database.create_topic("c", {})

    def test_a_commit_is_told_once_and_a_rollback_never(self) -> None:
        commits: list[bytes] = []
        catalog = SqliteCatalog(None, on_commit=lambda c: commits.append(c.image()))
        assert len(commits) == 1, "its own making"
        with catalog.transaction():
            catalog.create_topic("a", {})
            catalog.create_topic("b", {})
            assert len(commits) == 1
        assert len(commits) == 2
        with pytest.raises(RuntimeError):
            fail_halfway(catalog, "c")
        assert len(commits) == 2
        assert len(SqliteCatalog(None, image=commits[-1]).topics()) == 2

    @pytest.mark.parametrize(
        ("failure", "error"),
        [
            (sqlite3.OperationalError("database or disk is full"), DiskFull),
            (sqlite3.OperationalError("disk I/O error"), PersistenceError),
            (sqlite3.DatabaseError("database disk image is malformed"), CorruptData),
        ],
    )
    def test_failures_are_named(
        self, database: SqliteCatalog, failure: Exception, error: type[Exception]
    ) -> None:
        with pytest.raises(error, match=str(failure)):
            fail_halfway(database, "a", failure)
        assert database.topics() == []
        database.create_topic("a", {})

    def test_a_commit_that_may_have_happened_is_the_last(self, database: SqliteCatalog) -> None:
        """Its sync failed: a start may find it or not, and nothing may be built on either."""
        database.create_topic("a", {})
        database._db = FailingCommits(database._db)  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknown, match="disk I/O error"):
            database.create_topic("b", {})
        for _ in range(2):
            with pytest.raises(PersistenceError, match="no changes until a restart: disk I/O err"):
                database.create_topic("c", {})
        assert [topic.name for topic in database.topics()] == ["a"], "reading goes on"

    def test_a_full_disk_is_named_and_passes(self, tmp_path: Path) -> None:
        catalog = SqliteCatalog(tmp_path / FILE)
        (pages,) = catalog._db.execute("pragma page_count").fetchone()
        catalog._db.execute(f"pragma max_page_count = {pages + 2}")
        with pytest.raises(DiskFull, match="full"):
            catalog.put_doc("f", "large", {"x": "y" * 100_000})
        assert catalog.docs("f") == {}
        catalog.put_doc("f", "small", {})
        catalog._db.execute(f"pragma max_page_count = {pages + 1000}")
        catalog.put_doc("f", "large", {"x": "y" * 100_000})
        assert list(catalog.docs("f")) == ["large", "small"]
        catalog.close()


class TestTopics:
    def test_created_changed_found_and_listed(self, catalog: Catalog) -> None:
        a = catalog.create_topic("p://t/n/a", {"k": "é"})
        b = catalog.create_topic("p://t/n/b", {})
        catalog.create_topic("p://t/m/a", {})
        assert catalog.topic("p://t/n/a") == a
        assert catalog.topic_by_id(b.topic_id) == b
        assert catalog.topic("p://t/n/c") is None
        assert [topic.name for topic in catalog.topics("p://t/n/")] == ["p://t/n/a", "p://t/n/b"]
        assert catalog.topics("p://t/_/") == [], "a prefix is no pattern"
        catalog.set_topic(a.topic_id, {"k": 2})
        found = catalog.topic("p://t/n/a")
        assert found is not None
        assert found.doc == {"k": 2}

    def test_names_are_unique(self, catalog: Catalog) -> None:
        catalog.create_topic("a", {})
        with pytest.raises(AlreadyExists, match="topic a exists"):
            catalog.create_topic("a", {})

    def test_one_that_is_not_there_is_named(self, catalog: Catalog) -> None:
        with pytest.raises(TopicNotFound, match="topic 9"):
            catalog.set_topic(9, {})
        with pytest.raises(TopicNotFound, match="topic 9"):
            catalog.delete_topic(9, 0)

    def test_made_again_it_has_another_id(self, catalog: SqliteCatalog | MemoryCatalog) -> None:
        first = catalog.create_topic("a", {})
        catalog.delete_topic(first.topic_id, 0)
        again: Catalog
        if isinstance(catalog, SqliteCatalog):
            again = SqliteCatalog(None, image=catalog.image())
        else:
            again = MemoryCatalog(image=catalog.image())
        assert again.create_topic("a", {}).topic_id > first.topic_id

    def test_deleted_with_its_ledgers_and_states(self, catalog: Catalog) -> None:
        topic = catalog.create_topic("a", {})
        other = catalog.create_topic("b", {})
        catalog.put_ledgers(
            [LedgerRow(5, topic.topic_id, 0, 0), LedgerRow(6, other.topic_id, 0, 0)]
        )
        state = catalog.create_state(topic.topic_id, "cursor", "s", {})
        catalog.delete_topic(topic.topic_id, 77)
        assert set(catalog.tombstones()) == {
            Tombstone("topic", topic.topic_id, 77),
            Tombstone("ledger", 5, 77),
            Tombstone("state", state.state_id, 77),
        }
        assert catalog.ledgers(topic.topic_id) == []
        assert catalog.state_by_id(state.state_id) is None
        assert len(catalog.ledgers(other.topic_id)) == 1


class TestLedgers:
    def test_rows_come_back_in_order_and_are_replaced(self, catalog: Catalog) -> None:
        rows = [LedgerRow(n, 1, n * 10, n, 3, n * 10 + 3, 5, 600, 2**32 - 1, n < 3) for n in (3, 2)]
        catalog.put_ledgers(rows)
        assert catalog.ledgers(1) == rows[::-1]
        assert catalog.ledger(3) == rows[0]
        assert catalog.ledger(4) is None
        catalog.put_ledgers([rows[0]._replace(entries=4)])
        found = catalog.ledger(3)
        assert found is not None
        assert (found.entries, found.sealed) == (4, False)

    def test_deleted_ones_leave_tombstones_also_if_never_known(self, catalog: Catalog) -> None:
        catalog.put_ledgers([LedgerRow(3, 1, 0, 0)])
        catalog.delete_ledgers([3, 4], 9)
        assert set(catalog.tombstones()) == {Tombstone("ledger", 3, 9), Tombstone("ledger", 4, 9)}
        assert catalog.ledgers(1) == []


class TestStates:
    @pytest.fixture(autouse=True)
    def topic(self, catalog: Catalog) -> None:
        assert catalog.create_topic("t", {}).topic_id == 1

    def test_of_no_topic_there_are_none(self, catalog: Catalog) -> None:
        with pytest.raises(TopicNotFound, match="topic 2 of cursor s does not exist"):
            catalog.create_state(2, "cursor", "s", {})

    def test_created_changed_and_found(self, catalog: Catalog) -> None:
        state = catalog.create_state(1, "cursor", "s", {"a": 1})
        other = catalog.create_state(1, "dedup", "s", {})
        assert catalog.states(1) == [state, other]
        assert catalog.state_by_id(state.state_id) == state
        catalog.set_state(state.state_id, {"a": 2})
        assert catalog.states(1)[0].doc == {"a": 2}
        with pytest.raises(AlreadyExists, match="cursor s of topic 1 exists"):
            catalog.create_state(1, "cursor", "s", {})

    def test_snapshots_and_facts_come_back(self, catalog: Catalog) -> None:
        state = catalog.create_state(1, "cursor", "s", {})
        assert catalog.snapshot(state.state_id) == Snapshot(-1, None, [])
        assert catalog.last_folded() == -1
        stored = Snapshot(17, b"snap\0shot", [b"", b"fact", b"x" * 70_000])
        catalog.put_snapshot(state.state_id, stored)
        assert catalog.snapshot(state.state_id) == stored
        assert catalog.last_folded() == 17

    def test_deleted_it_is_gone_and_buried(self, catalog: Catalog) -> None:
        state = catalog.create_state(1, "cursor", "s", {})
        catalog.delete_state(state.state_id, 4)
        assert catalog.tombstones() == [Tombstone("state", state.state_id, 4)]
        with pytest.raises(CorruptData, match=f"state {state.state_id} is missing"):
            catalog.snapshot(state.state_id)
        catalog.put_snapshot(state.state_id, Snapshot(1, b"late", []))  # a checkpoint on its way
        assert catalog.state_by_id(state.state_id) is None


def test_tombstones_are_forgotten_up_to_a_sequence(catalog: Catalog) -> None:
    for ledger_id, sequence in ((1, 5), (2, 6), (3, 7)):
        catalog.delete_ledgers([ledger_id], sequence)
    catalog.forget_tombstones(6)
    assert catalog.tombstones() == [Tombstone("ledger", 3, 7)]


def test_meta_is_set_as_a_whole(catalog: Catalog) -> None:
    catalog.set_meta(journal_first=3, journal_last=5, next_ledger_id=7, next_sequence=2**62)
    assert catalog.meta()[1:] == (3, 5, 7, 2**62)


def test_documents(catalog: Catalog) -> None:
    catalog.put_doc("tenants", "a", {"roles": ["x"]})
    catalog.put_doc("tenants", "b", {})
    catalog.put_doc("namespaces", "a/n", {})
    assert catalog.doc("tenants", "a") == {"roles": ["x"]}
    assert catalog.doc("tenants", "c") is None
    assert list(catalog.docs("tenants")) == ["a", "b"]
    assert list(catalog.docs("namespaces", "a/")) == ["a/n"]
    assert catalog.delete_doc("tenants", "a")
    assert not catalog.delete_doc("tenants", "a")


class TestSchemas:
    def row(self, version: int, data: bytes | None = b"x", name: str = "a/b/t") -> SchemaRow:
        return SchemaRow(name, version, 4, data, {"key": "värde"}, 1000 + version)

    def test_versions_in_order(self, catalog: Catalog) -> None:
        rows = [self.row(0), self.row(1, b""), self.row(2, None), self.row(3)]
        for row in rows:
            catalog.put_schema(row)
        assert catalog.schemas("a/b/t") == rows
        assert catalog.schemas("a/b/u") == []

    @pytest.mark.parametrize("version", [0, 1, 3, -1])
    def test_only_the_next_number_is_taken(self, catalog: Catalog, version: int) -> None:
        catalog.put_schema(self.row(0))
        catalog.put_schema(self.row(1))
        with pytest.raises(AlreadyExists, match=f"version {version} where 2 is next"):
            catalog.put_schema(self.row(version))
        assert len(catalog.schemas("a/b/t")) == 2

    def test_names_that_have_one(self, catalog: Catalog) -> None:
        for name, versions in {
            "a/b/c": [b"x"],
            "a/b/d": [b"x", None],
            "a/b/e": [None, b""],
        }.items():
            for number, data in enumerate(versions):
                catalog.put_schema(self.row(number, data, name))
        assert catalog.schema_names() == ["a/b/c", "a/b/e"]

    def test_what_is_erased_is_gone_and_its_numbers_with_it(self, catalog: Catalog) -> None:
        for number, data in enumerate([b"x", b"y", None]):
            catalog.put_schema(self.row(number, data))
        catalog.put_schema(self.row(0, name="a/b/other"))
        catalog.erase_schemas("a/b/t", 2)
        assert catalog.schemas("a/b/t") == [self.row(2, None)]
        with pytest.raises(AlreadyExists, match="where 3 is next"):
            catalog.put_schema(self.row(0))
        assert len(catalog.schemas("a/b/other")) == 1
