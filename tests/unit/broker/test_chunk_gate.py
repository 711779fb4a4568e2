"""ChunkGate: whole messages go, in the order of their last chunks; everything else stays or is given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.broker import chunk_gate as module
from milepost.broker.chunk_gate import PATIENCE_MS, ChunkGate, Met, OpenGate
from milepost.broker.chunked import ChunkedMessages
from milepost.cursor.cursor import Cursor
from milepost.storage.entry import Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.encode import encode_entry_head
from milepost.wire.events import ChunkInfo


class Log:
    """Chunks as a topic stores them, by index, with a cursor and a gate in front of them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._chunked = ChunkedMessages()
        self.cursor = Cursor(0, 0)
        self.found: list[int] = []
        self.gate = ChunkGate(self.cursor, self._find)

    def put(self, uuid: str, chunk_id: int, count: int = 3, time_ms: int = 0) -> int:
        chunk, index = ChunkInfo(uuid, chunk_id, count, 10), len(self.entries)
        flags, beside = self._chunked.tie(chunk, index)
        self._chunked.stored(chunk, index)
        metadata = pb.MessageMetadata(
            producer_name="p",
            sequence_id=1,
            publish_time=1,
            uuid=uuid,
            chunk_id=chunk_id,
            num_chunks_from_msg=count,
            total_chunk_msg_size=10,
        ).SerializeToString()
        payload = memoryview(encode_entry_head(metadata, b"x") + b"x")
        self.entries.append(Entry(1, index, index, 1, time_ms, flags, beside, payload))
        self.cursor.extend(index + 1)
        return index

    def meet(self, index: int) -> Met:
        return self.gate.meet(self.entries[index])

    def _find(self, ledger_id: int, entry_id: int) -> tuple[int, ...]:
        self.found.append(entry_id)
        indexes = self._chunked.indexes_of(entry_id)
        assert indexes is not None
        return indexes

    @property
    def held(self) -> list[int]:
        return [index for first, end in self.gate.held for index in range(first, end)]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_message_goes_when_its_last_chunk_is_there(log: Log) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    assert log.meet(0) == Met(1)
    assert log.meet(1) == Met(2)
    assert log.held == [0, 1]
    assert log.meet(2) == Met(0)
    assert log.held == []
    assert [log.meet(index) for index in range(3)] == [Met(0), Met(1), Met(2)]


def test_meeting_a_chunk_again_changes_nothing(log: Log) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    for index in (0, 1, 0, 1, 1):
        assert log.meet(index) == Met(index + 1)
    assert log.meet(2) == Met(0)
    assert log.found == []


def test_interleaved_messages_go_in_the_order_of_their_ends(log: Log) -> None:
    for uuid, chunk_id in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)):
        log.put(uuid, chunk_id)
    assert [log.meet(index).goes_on for index in range(4)] == [1, 2, 3, 4]
    assert log.meet(4) == Met(1)
    assert log.held == [0, 2]
    assert log.meet(5) == Met(0)
    assert log.held == []


def test_a_message_of_one_chunk_goes_at_once(log: Log) -> None:
    log.put("a", 0, 1)
    assert log.meet(0) == Met(0)


def test_an_orphan_is_given_up(log: Log) -> None:
    log.put("a", 1)
    log.put("b", 2)
    assert log.meet(0) == Met(1, (0,))
    assert log.meet(1) == Met(2, (1,))
    assert log.held == []


def test_a_newer_beginning_gives_the_older_attempt_up(log: Log) -> None:
    log.put("a", 0)
    log.put("a", 1)
    for chunk_id in range(3):
        log.put("a", chunk_id)
    log.meet(0)
    log.meet(1)
    assert log.meet(2) == Met(3, (0, 1))
    assert log.held == [2]
    log.meet(3)
    assert log.meet(4) == Met(2)


def test_what_waits_too_long_is_given_up(log: Log) -> None:
    log.put("a", 0, time_ms=1000)
    log.put("b", 0, time_ms=2000)
    assert [log.meet(index) for index in range(2)] == [Met(1), Met(2)]
    assert log.gate.expired(1000 + PATIENCE_MS - 1) == ()
    assert log.gate.expired(1000 + PATIENCE_MS) == (0,)
    assert log.held == [1]


def test_every_new_chunk_renews_the_patience(log: Log) -> None:
    log.put("a", 0, time_ms=0)
    log.put("a", 1, time_ms=PATIENCE_MS - 1)
    log.put("a", 2, time_ms=3 * PATIENCE_MS)
    assert [log.meet(index) for index in range(2)] == [Met(1), Met(2)]
    assert log.gate.expired(PATIENCE_MS + 1) == ()
    assert log.meet(2) == Met(0)  # however late it comes


def test_a_message_that_goes_on_keeps_no_older_one_from_being_given_up(log: Log) -> None:
    log.put("a", 0, time_ms=0)
    log.put("b", 0, time_ms=1)
    log.put("a", 1, time_ms=PATIENCE_MS)
    for index in range(3):
        log.meet(index)
    assert log.gate.expired(PATIENCE_MS + 1) == (1,)


@pytest.mark.parametrize("acked", [0, 1])
def test_a_message_with_an_acked_chunk_is_no_message_any_more(log: Log, acked: int) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    log.cursor.ack([(acked, acked + 1)])
    other = 1 - acked
    log.meet(other)
    assert log.meet(2) == Met(3, (other, 2))
    assert log.held == []


def test_a_chunk_that_is_not_ready_is_not_the_gates_business(log: Log) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    log.cursor.ack([(0, 1)])
    assert log.meet(0) == Met(0)
    log.cursor.deliver(1, 2, holder=1)
    assert log.meet(1) == Met(1)
    assert log.held == []


def test_a_message_of_which_only_the_end_was_met_is_looked_up(log: Log) -> None:
    """It was met before and forgotten since; nothing of it is acked."""
    for chunk_id in range(3):
        log.put("a", chunk_id)
    assert log.meet(2) == Met(0)
    assert log.found == [2]


def test_after_a_seek_all_is_met_anew(log: Log) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    log.put("b", 0)
    for index in range(4):
        log.meet(index)
    log.gate.clear()
    assert log.held == []
    assert log.meet(0) == Met(1)


# -- cumulative acks -------------------------------------------------------------------------------


def test_a_cumulative_ack_covers_everything_where_no_message_ends_later(log: Log) -> None:
    for chunk_id in range(3):
        log.put("a", chunk_id)
    for index in range(3):
        log.meet(index)
    assert log.gate.ack_ranges(3) is None


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_cumulative_ack_leaves_messages_that_end_later(log: Log, is_whole: bool) -> None:
    """a0 b0 a1 b1 b2 (a2): up to the end of b. Whether a's end was met by then or not."""
    for uuid, chunk_id in (("a", 0), ("b", 0), ("a", 1), ("b", 1), ("b", 2), ("a", 2)):
        log.put(uuid, chunk_id)
    for index in range(6 if is_whole else 5):
        log.meet(index)
    assert log.gate.ack_ranges(5) == [(1, 2), (3, 5)]
    assert log.gate.ack_ranges(1) == []
    if is_whole:
        assert log.gate.ack_ranges(6) is None


def test_what_is_done_with_is_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    for uuid in "ab":
        for chunk_id in range(3):
            log.put(uuid, chunk_id)
    for index in range(6):
        log.meet(index)
    log.cursor.ack([(0, 3)])
    log.gate.settled()
    assert list(log.gate._open) == [3]
    monkeypatch.setattr(module, "OPEN_MAX", 1)
    for chunk_id in range(3):
        log.put("c", chunk_id)
    for index in range(6, 9):
        log.meet(index)
    assert list(log.gate._open) == [6]


def test_held_is_what_is_unfinished(log: Log) -> None:
    """The invariant, through a long mixture."""
    script = ["a0", "b0", "a1", "c1", "a0", "b1", "a1", "b2", "d0", "a2", "d1"]
    steps: list[Callable[[], object]] = []
    for step in script:
        index = log.put(step[0], int(step[1]))
        steps.append(lambda index=index: log.meet(index))  # type: ignore[misc]
    for step_done in steps:
        step_done()
        unfinished = [i for message in log.gate._unfinished.values() for i in message.indexes]
        assert sorted(unfinished) == log.held
    assert log.held == [8, 10]


def test_an_open_gate_lets_every_chunk_through_where_it_lies(log: Log) -> None:
    log.gate = OpenGate(log.cursor, log._find)
    orphan = log.put("b", 1)
    for chunk_id in range(2):
        log.put("a", chunk_id)
    assert [log.meet(index) for index in range(3)] == [Met(orphan), Met(1), Met(2)]
    assert log.held == []
    assert log.found == []
