"""A record that can be read and not be applied costs its own topic, or state, and nobody else."""

from __future__ import annotations

import errno

import pytest

from milepost.errors import CorruptData, NotAllowed, PersistenceError
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.journal.records import ENTRIES, FACT, FACTS, LEDGER, LEDGER_BODY, encode_parts
from milepost.storage.journal.records import Part as FactPart
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.storage.ledgers.log import Log
from milepost.storage.store import Store
from milepost.testing.clock import ManualClock
from milepost.testing.files import MemoryFiles

BAD, GOOD = "persistent://public/default/bad", "persistent://public/default/good"
NOW = 1_700_000_000_000


class Directory:
    """A store in memory that dies and is opened again."""

    def __init__(self) -> None:
        self.files, self._image = MemoryFiles(), None
        self._open()
        for name in (BAD, GOOD):
            topic = self.store.catalog.create_topic(name, {})
            self.store.catalog.create_state(topic.topic_id, "cursor", "s", {})
            publish(self.log(name), self.store)

    def _open(self) -> None:
        self.catalog = SqliteCatalog(None, image=self._image)
        self.store = Store(self.files, self.catalog, ManualClock())

    def log(self, name: str) -> Log:
        topic = self.store.catalog.topic(name)
        assert topic is not None
        return self.store.log(topic)

    def journal(self, kind: int, owner: int, body: bytes) -> None:
        self.store.submit(kind, owner, (body,), lambda error: None)
        self.store.pump()

    def restarted(self) -> None:
        self._image = self.catalog.image()
        self.store.journal.close()
        self.catalog.close()
        self.files = MemoryFiles(self.files.contents(), self.files.folders())
        self._open()


def publish(log: Log, store: Store, *counts: int) -> list[PersistenceError | None]:
    answers: list[PersistenceError | None] = []
    log.append([NewEntry(b"x", count) for count in counts or (1,)], NOW, answers.append)
    store.pump()
    return answers


def block(
    ledger_id: int, entry_id: int, first_index: int, *, count: int = 1, time_ms: int = NOW
) -> bytes:
    items = [NewEntry(b"x", 1), NewEntry(b"y", count)]
    return Block.encode(ledger_id, entry_id, first_index, time_ms, items).data


# What no row, struct or array can tell, in records whose checksums are right.
ENTRIES_OF_LIARS = {
    "more than 2^32 indexes": lambda ledger: block(ledger, 1, 1, count=2**32 - 1),
    "an index below the ledger's end": lambda ledger: block(ledger, 1, -1 + 1),
    "an index of 2^63": lambda ledger: block(ledger, 1, 2**63),
    "a time before the ledger's": lambda ledger: block(ledger, 1, 1, time_ms=NOW - 1),
    "a time 50 days behind the ledger's": lambda ledger: block(ledger, 1, 1, time_ms=NOW + 2**32),
    "half an entry": lambda ledger: block(ledger, 1, 1)[:-1],
    "no entry": lambda ledger: b"",
    "entries of another ledger": lambda ledger: block(ledger + 77, 1, 1),
    "a gap that no file fills": lambda ledger: block(ledger, 9, 1),
}


@pytest.mark.parametrize("name", ENTRIES_OF_LIARS)
def test_entries_that_cannot_be_admitted_close_their_topic_only(name: str) -> None:
    directory = Directory()
    ledger_id = directory.log(BAD).ledgers[-1].ledger_id
    directory.journal(ENTRIES, ledger_id, ENTRIES_OF_LIARS[name](ledger_id))
    for _ in range(2):  # also at the start behind a checkpoint that everybody else takes part in
        directory.restarted()
        bad, good = directory.log(BAD), directory.log(GOOD)
        assert bad.damage is not None
        assert bad.end_index == 1
        with pytest.raises(CorruptData, match="takes no messages"):
            publish(bad, directory.store)
        assert good.damage is None
        assert publish(good, directory.store) == [None]
        directory.store.checkpoint()


@pytest.mark.parametrize("name", ["more than 2^32 indexes", "half an entry"])
def test_the_reason_names_file_and_byte(name: str) -> None:
    directory = Directory()
    ledger_id = directory.log(BAD).ledgers[-1].ledger_id
    directory.journal(ENTRIES, ledger_id, ENTRIES_OF_LIARS[name](ledger_id))
    directory.restarted()
    damage = directory.log(BAD).damage
    assert damage is not None
    assert damage.startswith("journal/")
    assert ": byte " in damage


def test_a_topic_whose_ledgers_cannot_be_looked_at_is_refused_alone() -> None:
    """It takes no messages: without what the journal has of it, it would give positions again."""
    directory = Directory()
    directory.store.checkpoint()
    path = f"ledgers/{directory.log(BAD).ledgers[-1].ledger_id:016x}"
    for name in (BAD, GOOD):
        publish(directory.log(name), directory.store)
    files = MemoryFiles(directory.files.contents(), directory.files.folders())
    files.faults.fail("read", forever=True, error=errno.EIO, under=path)
    directory.files, directory._image = files, directory.catalog.image()
    directory._open()
    assert files.faults.fired
    with pytest.raises(CorruptData, match=r"bad takes no messages: journal/.*: byte \d+: OSError"):
        publish(directory.log(BAD), directory.store)
    good = directory.log(GOOD)
    assert good.end_index == 2
    assert publish(good, directory.store) == [None]


def test_a_beginning_of_a_ledger_that_does_not_follow_closes_its_topic_only() -> None:
    directory = Directory()
    topic = directory.store.catalog.topic(BAD)
    assert topic is not None
    body = LEDGER_BODY.pack(topic.topic_id, 2**63, 2**64 - 1)
    directory.journal(LEDGER, 1000, body)
    directory.restarted()
    assert "begins at" in str(directory.log(BAD).damage)
    assert publish(directory.log(GOOD), directory.store) == [None]


@pytest.mark.parametrize("kind", [LEDGER, FACTS])
def test_a_record_that_names_nobody_refuses_the_directory_in_its_own_words(kind: int) -> None:
    """It may be anybody's: to go on would be to guess."""
    directory = Directory()
    directory.journal(kind, 5, b"short")
    with pytest.raises(CorruptData, match=r"journal/.*: byte \d+"):
        directory.restarted()


def test_facts_of_an_unknown_state_refuse_the_directory() -> None:
    directory = Directory()
    directory.journal(FACTS, 0, encode_parts([FactPart(FACT, 2**40, b"x")]))
    with pytest.raises(CorruptData, match="state 1099511627776 is not in the catalog"):
        directory.restarted()


class TestAppending:
    """A ledger's span is checked for the block that comes, not for the one before."""

    def test_a_block_that_does_not_fit_begins_the_next_ledger(self) -> None:
        directory = Directory()
        log = directory.log(BAD)
        half = [2**30, 2**30]
        assert publish(log, directory.store, *half) == [None]
        assert publish(log, directory.store, *half, 2**30) == [None]
        assert [ledger.entries for ledger in log.ledgers] == [3, 3]
        assert log.ledgers[-1].first_index == 2**31 + 1
        assert log.end_index == 1 + 5 * 2**30
        directory.restarted()
        log = directory.log(BAD)
        assert (log.damage, log.end_index) == (None, 1 + 5 * 2**30)
        assert log.locate(5 * 2**30).position.entry_id == 2

    @pytest.mark.parametrize(("more", "ledgers"), [(0, 1), (1, 2)])
    def test_the_last_index_that_32_bits_tell_is_used(self, more: int, ledgers: int) -> None:
        directory = Directory()
        log = directory.log(BAD)
        publish(log, directory.store, 2**31 - 2)
        publish(log, directory.store, 2**31 + more)  # the ledger has 2^31 - 1 messages
        assert len(log.ledgers) == 1
        publish(log, directory.store, 1)
        assert len(log.ledgers) == 2  # more than half of it is used
        directory.restarted()
        assert directory.log(BAD).end_index == 2**32 + more

    def test_a_block_that_no_ledger_holds_is_refused_and_nothing_staged(self) -> None:
        directory = Directory()
        log = directory.log(BAD)
        with pytest.raises(NotAllowed, match="4294967297 messages"):
            log.append([NewEntry(b"x", 2**31), NewEntry(b"x", 2**31 + 1)], NOW, lambda error: None)
        assert log.next_index == 1
        assert publish(log, directory.store) == [None]
        assert log.end_index == 2

    def test_a_block_that_cannot_be_admitted_stops_the_log_and_fails_its_publishes(self) -> None:
        """It is durable: to number on would give its numbers to a second block."""
        directory = Directory()
        directory.store.checkpoint()
        directory.restarted()  # the mileposts are in their file, and are read by the first admission
        log = directory.log(BAD)
        directory.files.faults.fail("read", 1, error=errno.EIO, under="ledgers/", forever=True)
        (error,) = publish(log, directory.store)
        assert isinstance(error, PersistenceError)
        with pytest.raises(CorruptData, match="is durable and not admitted"):
            publish(log, directory.store)
