"""ChunkGate: whole messages go, in the order of their last chunks; everything else stays or is given up."""

from __future__ import annotations

import pytest

from milepost.broker.dispatch import chunk_gate as module
from milepost.broker.dispatch.chunk_gate import (
    PATIENCE_MS,
    ChunkedMessage,
    ChunkGate,
    Met,
    OpenGate,
)
from milepost.broker.messages.chunked import ChunkedMessages
from milepost.cursor.cursor import Cursor
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import ChunkInfo
from milepost.wire.scanners.encode import encode_entry_head

HELD = Met(given_up=[])


class Log:
    """Chunks as a topic stores them, by index, with a cursor and a gate in front of them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._chunked = ChunkedMessages()
        self.cursor = Cursor(0, 0)
        self.gate = ChunkGate(self.cursor)

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

    def put_all(self, script: str) -> None:
        """`a0 b0`: chunks of three."""
        for step in script.split():
            self.put(step[0], int(step[1]))

    def meet(self, index: int) -> Met:
        """Meet a chunk, and ack what is given up, as a subscription does."""
        met = self.gate.meet(self.entries[index])
        met = met._replace(given_up=list(met.given_up))
        for one in met.given_up:
            self.cursor.ack([(one, one + 1)])
        return met

    def meet_all(self) -> ChunkedMessage | None:
        """Meet what is ready; the message of the last one."""
        message = None
        for index in range(len(self.entries)):
            message = self.meet(index).message
        return message

    def begin(self, index: int) -> ChunkedMessage:
        """Give the message that ends here to a consumer."""
        message = self.meet(index).message
        assert message is not None
        assert self.gate.begin(message)
        for first, end in message.ranges:
            self.cursor.deliver(first, end, holder=1)
        return message

    @property
    def withheld(self) -> list[int]:
        return [index for index in range(len(self.entries)) if self.cursor.is_withheld(index)]


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_message_goes_when_its_last_chunk_is_there(log: Log) -> None:
    log.put_all("a0 a1 a2")
    assert log.meet(0) == log.meet(1) == HELD
    assert log.withheld == [0, 1]
    message = log.meet(2).message
    assert message is not None
    assert message.ranges == [(0, 3)]
    # It stays whole until a consumer has room for it.
    assert log.withheld == [0, 1]
    assert log.cursor.next_ready() == (2, 3)
    assert log.begin(2) is message
    assert log.withheld == []


def test_a_chunk_that_is_withheld_is_not_met_again(log: Log) -> None:
    log.put_all("a0 a1 a2")
    for index in (0, 1, 0, 1, 1):
        assert log.meet(index) == HELD
    message = log.meet(2).message
    assert message is not None
    assert message.indexes == [0, 1, 2]


def test_interleaved_messages_go_in_the_order_of_their_ends(log: Log) -> None:
    log.put_all("a0 b0 a1 b1 b2 a2")
    assert [log.meet(index).message for index in range(4)] == [None] * 4
    assert log.begin(4).indexes == [1, 3, 4]
    assert log.withheld == [0, 2]
    assert log.begin(5).indexes == [0, 2, 5]
    assert log.withheld == []


def test_a_message_of_one_chunk_goes_at_once(log: Log) -> None:
    log.put("a", 0, 1)
    assert log.begin(0).indexes == [0]


def test_an_orphan_is_given_up(log: Log) -> None:
    log.put_all("a1 b2")
    assert log.meet(0) == Met(given_up=[0])
    assert log.meet(1) == Met(given_up=[1])
    assert log.withheld == []


def test_a_newer_beginning_gives_the_older_attempt_up(log: Log) -> None:
    log.put_all("a0 a1 a0 a1 a2")
    log.meet(0)
    log.meet(1)
    assert log.meet(2).given_up == [0, 1]
    assert log.withheld == [2]
    log.meet(3)
    assert log.begin(4).indexes == [2, 3, 4]


def test_what_waits_too_long_is_given_up(log: Log) -> None:
    log.put("a", 0, time_ms=1000)
    log.put("b", 0, time_ms=2000)
    log.meet_all()
    assert log.gate.expired(1000 + PATIENCE_MS - 1) == []
    assert log.gate.expired(1000 + PATIENCE_MS) == [0]
    assert log.gate.unfinished_count == 1


def test_very_many_that_wait_too_long_are_given_up_in_parts(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXPIRED_CHUNKS_MAX", 4)
    for number in range(5):
        log.put(f"u{number}", 0)
        log.put(f"u{number}", 1)
    log.meet_all()
    parts = []
    while part := log.gate.expired(PATIENCE_MS):
        parts.append(part)
    assert parts == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_every_new_chunk_renews_the_patience(log: Log) -> None:
    log.put("a", 0, time_ms=0)
    log.put("a", 1, time_ms=PATIENCE_MS - 1)
    log.put("a", 2, time_ms=3 * PATIENCE_MS)
    log.meet(0)
    log.meet(1)
    assert log.gate.expired(PATIENCE_MS + 1) == []
    assert log.begin(2).indexes == [0, 1, 2]  # however late it comes


def test_a_message_that_goes_on_keeps_no_older_one_from_being_given_up(log: Log) -> None:
    log.put("a", 0, time_ms=0)
    log.put("b", 0, time_ms=1)
    log.put("a", 1, time_ms=PATIENCE_MS)
    log.meet_all()
    assert log.gate.expired(PATIENCE_MS + 1) == [1]


@pytest.mark.parametrize("acked", [0, 1])
def test_a_message_with_an_acked_chunk_is_no_message_any_more(log: Log, acked: int) -> None:
    log.put_all("a0 a1 a2")
    log.cursor.ack([(acked, acked + 1)])
    assert log.meet_all() is None
    assert log.cursor.backlog == 0


@pytest.mark.parametrize("end", [1, 2])
def test_what_was_skipped_in_part_before_its_end_came_is_given_up(log: Log, end: int) -> None:
    log.put_all("a0 a1")
    log.meet_all()
    log.cursor.skip(end)
    log.put("a", 2)
    assert log.meet(2).message is None
    assert log.cursor.backlog == 0
    assert log.gate.unfinished_count == 0


@pytest.mark.parametrize("end", [1, 2])
def test_what_was_skipped_in_part_while_it_waited_is_given_up(log: Log, end: int) -> None:
    log.put_all("a0 a1 a2")
    assert log.meet_all() is not None
    log.cursor.skip(end)
    assert log.meet(2).message is None
    assert log.cursor.backlog == 0


def test_what_lost_a_chunk_in_the_middle_does_not_begin(log: Log) -> None:
    log.put_all("a0 a1 a2")
    message = log.meet_all()
    log.cursor.ack([(1, 2)])
    assert message is not None
    assert not log.gate.begin(message)
    assert log.gate.end(message) == [0, 2]


def test_a_chunk_that_is_not_ready_is_not_the_gates_business(log: Log) -> None:
    log.put_all("a0 a1 a2")
    log.cursor.ack([(0, 1)])
    assert log.meet(0) == HELD
    log.cursor.deliver(1, 2, holder=1)
    assert log.meet(1) == HELD
    assert log.withheld == []


def test_a_message_that_comes_back_waits_for_its_last_chunk(log: Log) -> None:
    log.put_all("a0 b0 a1 b1 b2 a2")
    for index in range(4):
        log.meet(index)
    assert log.begin(4).indexes == [1, 3, 4]
    log.begin(5)
    log.cursor.release_holder(1, count=False)
    assert log.meet(0) == HELD
    assert log.withheld == [0, 2]
    assert log.meet(1) == HELD
    assert log.withheld == [0, 1, 2, 3]
    assert log.begin(4).indexes == [1, 3, 4]


def test_of_a_message_that_comes_back_without_a_chunk_nothing_goes(log: Log) -> None:
    log.put_all("a0 a1 a2")
    log.meet(0)
    log.meet(1)
    log.begin(2)
    log.cursor.skip(1)
    log.cursor.release_holder(1, count=False)
    assert log.meet(1).given_up == [1, 2]
    assert log.cursor.backlog == 0


def test_a_message_waits_for_a_chunk_that_is_due_later(log: Log) -> None:
    log.put_all("a0 a1 a2")
    log.cursor.delay(1, 2, 500)
    assert log.meet_all() is None
    assert log.withheld == [0, 2]
    log.cursor.due(500)
    assert log.meet(1) == Met(given_up=[], looks_again=True)
    assert log.begin(2).indexes == [0, 1, 2]


def test_after_a_seek_all_is_met_anew(log: Log) -> None:
    log.put_all("a0 a1 a2 b0")
    log.meet_all()
    log.cursor.seek(0)
    log.gate.clear()
    assert log.withheld == []
    assert log.meet(0) == HELD
    assert log.withheld == [0]


# -- cumulative acks -------------------------------------------------------------------------------


def test_a_cumulative_ack_covers_everything_where_there_are_no_chunks(log: Log) -> None:
    assert log.gate.ack_ranges(3) is None


def test_a_cumulative_ack_covers_messages_that_end_before(log: Log) -> None:
    log.put_all("a0 a1 a2")
    log.meet_all()
    assert log.gate.ack_ranges(3) == [(2, 3), (0, 3)]


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_cumulative_ack_leaves_messages_that_end_later(log: Log, is_whole: bool) -> None:
    """Up to the end of b; whether a's end was met by then or not."""
    log.put_all("a0 b0 a1 b1 b2 a2")
    for index in range(6 if is_whole else 5):
        log.meet(index)
    log.cursor.skip_ranges(log.gate.ack_ranges(5) or ())
    assert [index for index in range(6) if log.cursor.is_acked(Span(index, 1))] == [1, 3, 4]
    assert log.gate.ack_ranges(1) == []
    log.meet(5)
    log.cursor.skip_ranges(log.gate.ack_ranges(6) or ())
    assert log.cursor.backlog == 0


def test_cumulative_acks_look_at_what_was_left_once(log: Log) -> None:
    """Unfinished messages in front of a consumer that acks one by one cost it nothing."""
    for number in range(200):
        log.put(f"u{number}", 0)
        log.put("x", 1)  # an orphan
    log.meet_all()
    assert log.gate.ack_ranges(200) is not None
    for end in range(201, 400):
        assert len(log.gate.ack_ranges(end) or ()) <= 1


def test_what_is_done_with_is_forgotten(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put_all("a0 a1 a2 b0 b1 b2 c0 c1 c2")
    log.meet_all()
    log.cursor.ack([(3, 6)])
    log.gate.settled([(3, 6)])
    assert log.gate.message_of(4) is None
    assert log.gate.message_of(1) is not None
    monkeypatch.setattr(module, "FORGOTTEN_MAX", 1)
    log.cursor.skip(9)
    log.gate.settled([(0, 9)])
    assert [log.gate.message_of(index) is None for index in (1, 7)] == [True, False]
    log.gate.settled([])
    assert log.gate.message_of(7) is None
    assert log.gate.ack_ranges(9) is None


def test_what_is_withheld_is_what_is_unfinished(log: Log) -> None:
    """The invariant, through a long mixture."""
    log.put_all("a0 b0 a1 c1 a0 b1 a1 b2 d0 a2 d1")
    for index in range(11):
        if log.meet(index).message is not None:
            log.cursor.deliver(index, index + 1, holder=1)
    assert log.gate.unfinished_count == 1
    unfinished = [i for message in log.gate._unfinished.values() for i in message.indexes]
    assert unfinished == [8, 10]


def test_an_open_gate_lets_every_chunk_through_where_it_lies(log: Log) -> None:
    log.gate = OpenGate(log.cursor)
    log.put_all("b1 a0 a1")
    assert [log.meet(index) for index in range(3)] == [Met(is_entry=True, given_up=[])] * 3
    assert log.withheld == []
