"""`milepost verify`: an intact directory, a torn tail, and damage in each kind of file."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

import google_crc32c
import pytest
from unit.cli.conftest import Line

from milepost.cli.server.verify import check
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.positions import IndexRanges
from milepost.storage.engine import open_store
from milepost.storage.journal.records import ENTRIES
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.storage.lock import DirectoryLock
from milepost.testing import ManualClock

TOPIC = "persistent://public/default/orders"
PAYLOAD = b"one coffee " * 20


def fill(data: Path, *, checkpoint: bool) -> None:
    """Ten batches of three, one subscription that has acked the first message of all."""
    store, lock = open_store(data, ManualClock())
    topic = store.catalog.create_topic(TOPIC, {})
    state_id = store.catalog.create_state(topic.topic_id, "cursor", "billing", {}).state_id
    cursor = Cursor(0, 0)
    store.open_state(state_id, lambda: snapshot.encode(cursor))
    log = store.log(topic)
    for _ in range(10):
        log.append([NewEntry(PAYLOAD, 3)], 1_700_000_000_000, lambda error: None)
        store.pump()
    cursor.extend(30)
    cursor.ack(IndexRanges([(0, 1)]))
    store.fact(state_id, facts.encode(facts.AckFact(0, IndexRanges([(0, 1)]))), lambda error: None)
    store.pump()
    if checkpoint:
        store.close()
    else:
        store.journal.close()  # as a crash leaves it
    store.catalog.close()
    lock.release()


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def digest(data: Path) -> dict[str, str]:
    return {
        str(path.relative_to(data)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture(params=[False, True], ids=["journal", "checkpoint"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    fill(tmp_path / "data", checkpoint=request.param)
    return tmp_path / "data"


def test_an_intact_directory(data: Path, line: Line) -> None:
    before = digest(data)
    shown = line("verify", str(data))
    assert (line.code, line.err) == (0, "")
    assert shown.splitlines()[-1] == f"{data}: 1 topics, 10 entries, 30 messages: all intact"
    assert digest(data) == before, "something was changed"
    shown = line("verify", str(data), "-o", "csv").splitlines()
    assert shown[1].startswith(f"{TOPIC},1,10,0,30,")
    assert shown[1].endswith(",1,0")


def test_a_torn_tail_is_no_damage(data: Path, line: Line) -> None:
    newest = max((data / "journal").iterdir())
    newest.write_bytes(newest.read_bytes() + b"MPR1 and then the lights went out")
    line("verify", str(data))
    assert line.code == 0
    assert "were never acknowledged: no damage" in line.err


def test_a_ledger_that_is_not_there_is_one_problem(tmp_path: Path, line: Line) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    (ledger,) = (data / "ledgers").glob("*.ledger")
    ledger.unlink()
    line("verify", str(data))
    assert line.code == 7
    assert f"ledgers/{ledger.name} is missing: 10 entries from index 0 on\n" in line.err
    assert "30 messages: 1 problem; " in line.err


def test_a_damaged_entry_is_named(tmp_path: Path, line: Line) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    (ledger,) = (data / "ledgers").glob("*.ledger")
    content = ledger.read_bytes()
    flip(ledger, content.index(PAYLOAD, content.index(PAYLOAD) + 1))
    line("verify", str(data))
    assert line.code == 7
    (named, last) = line.err.splitlines()
    assert named.startswith(f"damaged: {TOPIC}: ledgers/{ledger.name}: byte ")
    assert "entry 1:1" in named
    assert last.endswith("1 problem; keep the files, restore from a copy, and report it")


def test_a_ledger_that_is_cut_or_gone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    (ledger,) = (data / "ledgers").glob("*.ledger")
    ledger.write_bytes(ledger.read_bytes()[:-50])
    assert len(check(data).all_problems) == 1
    ledger.unlink()
    assert len(check(data).all_problems) == 1


def test_damage_in_the_journal(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=False)
    journal = next(
        one for one in sorted((data / "journal").iterdir()) if PAYLOAD in one.read_bytes()
    )
    flip(journal, journal.read_bytes().index(PAYLOAD))
    assert check(data).all_problems


def test_a_journal_record_whose_owner_is_lost_is_told_and_the_rest_is_looked_at(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=False)
    (journal,) = [one for one in (data / "journal").iterdir() if PAYLOAD in one.read_bytes()]
    content = journal.read_bytes()
    flip(journal, content.rindex(b"MPR1", 0, content.index(PAYLOAD)))
    report = check(data)
    assert report.all_problems
    assert [topic.name for topic in report.topics] == [TOPIC]


def test_an_entry_that_claims_other_indexes(tmp_path: Path) -> None:
    """Intact by its checksum, and not what its neighbours say."""
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    (ledger,) = (data / "ledgers").glob("*.ledger")
    content = bytearray(ledger.read_bytes())
    at = content.index(PAYLOAD, content.index(PAYLOAD) + 1) - 48
    content[at + 40] = 2  # messages in it: there are three
    end = at + 48 + len(PAYLOAD)
    content[at + 4 : at + 8] = google_crc32c.value(bytes(content[at + 8 : end])).to_bytes(
        4, "little"
    )
    ledger.write_bytes(content)
    (problem,) = check(data).all_problems
    assert problem == f"{TOPIC}: entry 1:1 begins at index 4, not at 3"


def test_a_ledger_that_begins_elsewhere(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    database = sqlite3.connect(data / "catalog.sqlite")
    with database:
        database.execute(
            "insert into ledgers select ledger_id + 1, topic_id, end_index + 5, first_time_ms, 0, "
            "end_index + 5, last_time_ms, 0, mileposts_crc, sealed from ledgers"
        )
    database.close()
    assert f"{TOPIC}: ledger 2 begins at index 35, not at 30" in check(data).all_problems


def test_a_broken_subscription(tmp_path: Path) -> None:
    data = tmp_path / "data"
    fill(data, checkpoint=True)
    store, lock = open_store(data, ManualClock())
    topic = store.catalog.topic(TOPIC)
    assert topic is not None
    (state,) = store.catalog.states(topic.topic_id)
    found = store.catalog.snapshot(state.state_id)
    assert found.data is not None
    store.catalog.put_snapshot(state.state_id, found._replace(data=found.data[:-1] + b"?"))
    store.close()
    store.catalog.close()
    lock.release()
    (problem,) = check(data).all_problems
    assert problem.startswith(f"{TOPIC}: subscription billing: a cursor snapshot with checksum")


def test_a_directory_in_use_is_left_alone(data: Path, line: Line) -> None:
    lock = DirectoryLock(data)
    line("verify", str(data))
    lock.release()
    assert line.code == 6
    assert "is in use by process" in line.err
    assert line.err.endswith("; stop it, or verify a copy\n")


def test_what_is_no_data_directory(tmp_path: Path, line: Line) -> None:
    line("verify", str(tmp_path))
    assert line.code == 5
    (tmp_path / "catalog.sqlite").write_text("not a database, surely", "utf-8")
    line("verify", str(tmp_path))
    assert line.code == 7
    assert line.err.count("\n") == 1


def test_a_record_that_cannot_be_applied_is_one_problem_of_its_topic(
    tmp_path: Path, line: Line
) -> None:
    """A block of more indexes than 32 bits tell, in a record whose checksum is right."""
    fill(tmp_path, checkpoint=False)
    store, lock = open_store(tmp_path, ManualClock())
    other = store.log(store.catalog.create_topic(f"{TOPIC}-other", {}))
    other.append([NewEntry(PAYLOAD)], 1_700_000_000_000, lambda error: None)
    topic = store.catalog.topic(TOPIC)
    assert topic is not None
    log = store.log(topic)
    ledger_id = log.ledgers[-1].ledger_id
    liar = Block.encode(ledger_id, 10, 30, 1_700_000_000_000, [NewEntry(b"x", 2**32 - 1)] * 2)
    store.submit(ENTRIES, ledger_id, (liar.data,), lambda error: None)
    store.pump()
    store.journal.close()
    store.catalog.close()
    lock.release()
    report = check(tmp_path)
    assert [len(topic.problems) for topic in report.topics] == [1, 0]
    assert "journal/" in report.all_problems[0]
    assert "32 bits cannot tell" in report.all_problems[0]
    line("verify", str(tmp_path))
    assert line.code == 7
