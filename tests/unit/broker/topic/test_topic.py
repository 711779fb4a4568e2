"""Topic: durable before visible, visible before receipt; receipts in order, whatever becomes of each."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples
from stage.frames import batch, chunk, marker, message, sends, spoiled
from stage.heard import answers, got
from stage.stage import Stage

from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.errors import LedgerNotFound, NotAllowed
from milepost.positions.ids import Position
from milepost.testing.peer import RecordingPeer

MakeStage = Callable[..., Stage]


@pytest.fixture
def topic(stage: Stage) -> Topic:
    return stage.topic()


@pytest.fixture
def producer(stage: Stage, topic: Topic) -> Producer:
    return stage.producer(topic)


# -- the order of effects ------------------------------------------------------------------------------


def test_nothing_is_visible_or_answered_before_it_is_durable(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.engine.holds_journal = True
    publication = stage.publish(producer, message(0), batch(1, 3))
    assert publication.count == 4
    assert (topic.log.end_index, topic.log.next_index) == (0, 4)
    assert consumer.subscription.cursor.end == 0
    assert got(consumer) == answers(producer.peer) == []
    assert (topic.messages_in, producer.messages_in) == (0, 0)
    stage.engine.holds_journal = False
    stage.turn()
    assert topic.log.end_index == consumer.subscription.cursor.end == 4
    assert got(consumer) == ["0", "1.0", "1.1", "1.2"]
    assert answers(producer.peer) == ["0 at 1:0", "1 at 1:1"]
    assert (topic.messages_in, producer.messages_in, topic.bytes_in) == (4, 4, producer.bytes_in)
    assert topic.bytes_in > 0


def test_it_is_visible_to_every_cursor_before_the_receipt_leaves(
    stage: Stage, topic: Topic
) -> None:
    subscriptions = [stage.subscription(topic, name) for name in ("a", "b")]
    seen: list[list[int]] = []

    class Watching(RecordingPeer):
        def write(self, buffers: object) -> None:
            seen.append([one.cursor.end for one in subscriptions])
            super().write(buffers)  # type: ignore[arg-type]

    stage.publish(stage.producer(topic, peer=Watching()), message(0))
    assert seen == [[1, 1]]


def test_what_has_a_receipt_is_there_after_a_crash(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    stage.publish(producer, message(0), batch(1, 2))
    stage.engine.holds_journal = True
    stage.publish(producer, message(2))
    receipts = answers(producer.peer)
    stage = stage.restarted()
    assert receipts == ["0 at 1:0", "1 at 1:1"]
    assert stage.topic().log.end_index == 3


# -- receipts in order ---------------------------------------------------------------------------------


def test_a_fault_is_answered_in_its_place(stage: Stage, producer: Producer) -> None:
    stage.engine.holds_journal = True
    stage.publish(producer, message(0), spoiled(1), message(2))
    stage.publish(producer, spoiled(3))
    assert answers(producer.peer) == []
    assert producer.peer.settled_count == 0
    stage.engine.holds_journal = False
    stage.turn()
    assert answers(producer.peer) == [
        "0 at 1:0",
        "1 ChecksumError",
        "2 at 1:1",
        "3 ChecksumError",
    ]
    assert producer.peer.settled_count == 4


def test_a_fault_alone_stores_nothing(stage: Stage, topic: Topic, producer: Producer) -> None:
    written = stage.store.journal.last_sequence
    stage.publish(producer, spoiled(0))
    assert answers(producer.peer) == ["0 ChecksumError"]
    assert stage.store.journal.last_sequence == written


def test_a_duplicate_waits_behind_what_is_on_its_way(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True)
    producer = stage.producer(stage.topic())
    stage.publish(producer, message(0))
    assert answers(producer.peer) == ["0 at 1:0"]
    stage.engine.holds_journal = True
    stage.publish(producer, message(1))
    stage.publish(producer, message(0))  # known at once, and yet it waits
    stage.publish(producer, message(1))  # on its way: nobody can say
    assert answers(producer.peer) == []
    stage.engine.holds_journal = False
    stage.turn()
    assert answers(producer.peer) == ["1 at 1:1", "0 at -1:-1", "1 PersistenceError"]


def test_producers_do_not_wait_for_each_other(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True)
    topic = stage.topic()
    first, second = stage.producer(topic, "p"), stage.producer(topic, "q")
    stage.publish(second, message(0, producer="q"))
    answers(second.peer)
    stage.engine.holds_journal = True
    stage.publish(first, message(0))
    stage.publish(second, message(0, producer="q"))
    assert answers(second.peer) == ["0 at -1:-1"]
    assert answers(first.peer) == []


def test_highest_sequence_ids_are_echoed(stage: Stage, producer: Producer) -> None:
    stage.publish(producer, batch(4, 3, highest=6))
    (receipt,) = producer.peer.take()
    assert (receipt.sequence_id, receipt.highest_sequence_id) == (4, 6)


def test_a_closed_producer_gets_no_receipts_and_its_sends_are_settled(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    stage.engine.holds_journal = True
    stage.publish(producer, message(0))
    producer.is_closed = True
    stage.engine.holds_journal = False
    stage.turn()
    assert producer.peer.take() == []
    assert producer.peer.settled_count == 1
    assert topic.log.end_index == 1


# -- the disk says no ----------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("call", ["append", "sync"])
def test_a_refused_publish_is_an_error_and_the_next_is_numbered_densely(
    stage: Stage, topic: Topic, producer: Producer, call: str, error: int
) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=20)
    stage.publish(producer, message(0), batch(1, 2))
    stage.files.faults.fail(call, under="journal", error=error)  # type: ignore[arg-type]
    stage.engine.holds_journal = True
    stage.publish(producer, message(2))
    stage.publish(producer, batch(3, 5), spoiled(4))
    stage.engine.holds_journal = False
    stage.turn()
    producer = stage.producer(topic, peer=producer.peer)  # its client has opened it again
    stage.publish(producer, message(5), batch(6, 2))
    assert answers(producer.peer) == [
        "0 at 1:0",
        "1 at 1:1",
        "2 PersistenceError",
        "3 PersistenceError",
        "4 ChecksumError",
        "5 at 2:0",
        "6 at 2:1",
    ]
    assert got(consumer) == ["0", "1.0", "1.1", "5", "6.0", "6.1"]
    assert topic.log.end_index == 6
    assert topic.lookup(2, 0)[:2] == (3, 4)  # behind 0, 1 and 2: nobody saw the lost numbers
    assert topic.messages_in == 6
    with pytest.raises(LedgerNotFound):
        topic.lookup(1, 2)


def test_what_is_sent_behind_a_failure_that_is_not_known_yet_is_refused_with_it(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    other = stage.producer(topic, "q")
    stage.files.faults.fail("sync", under="journal")
    stage.engine.holds_journal = True
    stage.publish(producer, message(0))
    topic.publish(other, sends(message(0, producer="q")))
    commits = stage.store.journal.commit()  # failed, and nobody knows
    stage.publish(producer, message(1))
    stage.store.journal.finish(commits)
    stage.engine.holds_journal = False
    stage.turn()
    assert answers(producer.peer) == ["0 PersistenceError", "1 PersistenceError"]
    assert answers(other.peer) == ["0 PersistenceError"]
    third = stage.producer(topic, "r")
    stage.publish(third, message(0, producer="r"))
    assert answers(third.peer) == ["0 at 2:0"]
    assert topic.lookup(2, 0)[0] == 0


@pytest.mark.parametrize("deduplication", [False, True])
@pytest.mark.parametrize("call", ["append", "sync"])
def test_nothing_is_stored_behind_a_refused_message_before_its_client_has_come_again(
    make_stage: MakeStage, call: str, deduplication: bool
) -> None:
    """The client resends the refused message: what was stored behind it would lie before it."""
    stage = make_stage(deduplication=deduplication)
    topic = stage.topic()
    producer, other = stage.producer(topic), stage.producer(topic, "q")
    stage.files.faults.fail(call, under="journal")  # type: ignore[arg-type]
    stage.publish(producer, message(0))
    stage.publish(producer, message(1), chunk(2, 0, 2), spoiled(3), marker(4))
    stage.publish(other, message(0, producer="q"))
    assert answers(producer.peer) == [f"{n} PersistenceError" for n in range(5)]
    assert producer.peer.settled_count == 5
    assert answers(other.peer) == ["0 at 2:0"]
    assert not other.must_resend
    again = stage.producer(topic, peer=producer.peer)
    stage.publish(again, message(0), message(1))
    assert answers(producer.peer) == ["0 at 2:1", "1 at 2:2"]


def test_a_producer_is_closed_when_all_that_it_sent_is_answered(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    stage.engine.holds_journal = True
    stage.publish(producer, message(0))
    topic.log.stall = "the bucket is away"
    stage.publish(producer, message(1))
    topic.log.stall = None
    stage.publish(producer, message(2))
    peer = producer.peer
    assert isinstance(peer, RecordingPeer)
    assert (answers_so_far(producer), peer.restarted) == ([], [])
    stage.engine.holds_journal = False
    stage.turn()
    assert answers(peer) == ["0 at 1:0", "1 PersistenceError", "2 PersistenceError"]
    assert peer.restarted == [producer]


def test_a_message_that_is_too_large_for_a_ledger_holds_up_nothing(
    stage: Stage, topic: Topic, producer: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No client sends it again, or it is refused again."""

    def refuse(*args: object) -> None:
        raise NotAllowed("too many messages in one go")

    with monkeypatch.context() as patch:
        patch.setattr(topic.log, "append", refuse)
        stage.publish(producer, batch(0, 3))
    stage.publish(producer, message(1))
    assert answers(producer.peer) == ["0 NotAllowedError", "1 at 1:0"]


def test_what_follows_a_message_that_is_not_encrypted_waits_for_it(
    make_stage: MakeStage,
) -> None:
    """Clients ask again, as the policy may be taken back."""
    stage = make_stage()
    topic = stage.topic()
    producer = stage.producer(topic)
    topic.policies = replace(topic.policies, encryption_required=True, judges_sends=True)
    stage.publish(producer, message(0))
    topic.policies = replace(topic.policies, encryption_required=False)
    stage.publish(producer, message(1))
    assert answers(producer.peer) == ["0 MetadataError", "1 PersistenceError"]


def test_what_follows_a_chunk_that_is_to_come_again_is_not_stored(
    stage: Stage, producer: Producer
) -> None:
    """The chunk is on its way already, and plain messages of the same read stand behind it."""
    stage.engine.holds_journal = True
    stage.publish(producer, chunk(0, 0, 3), chunk(0, 1, 3))
    stage.publish(producer, chunk(0, 1, 3), message(1), message(2))
    stage.engine.holds_journal = False
    stage.turn()
    assert answers(producer.peer) == [
        "0 at 1:0",
        "0 at 1:1",
        "0 PersistenceError",
        "1 PersistenceError",
        "2 PersistenceError",
    ]


@pytest.mark.parametrize("deduplication", [False, True])
def test_what_is_sent_when_a_failure_is_known_is_not_refused_with_what_stood_behind_it(
    make_stage: MakeStage, deduplication: bool
) -> None:
    stage = make_stage(deduplication=deduplication)
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    unlucky, other = stage.producer(topic, "a"), stage.producer(topic, "b")
    stage.publish(other, chunk(1, 0, 3, producer="b"))
    stage.engine.holds_journal = True
    journal = stage.store.journal
    stage.files.faults.fail("sync", under="journal")
    stage.publish(unlucky, message(0, producer="a"))
    failed = journal.commit()
    stage.publish(unlucky, message(1, producer="a"))  # the failure is not known yet
    journal.finish(failed)
    stage.publish(other, chunk(1, 1, 3, producer="b"))  # now it is
    stage.engine.holds_journal = False
    stage.turn()
    stage.publish(other, chunk(1, 2, 3, producer="b"))
    assert len(answers(other.peer)) == 3
    assert got(consumer) == ["1/0", "1/1", "1/2"]


def test_an_unknown_outcome_ends_the_connection(stage: Stage, producer: Producer) -> None:
    stage.files.faults.fail("sync", under="journal")
    stage.files.faults.fail("create", forever=True, under="journal")
    stage.publish(producer, message(0))
    assert len(producer.peer.failures) == 1
    assert "unknown" in producer.peer.failures[0]


def test_refused_sequence_ids_may_come_again_once_the_producer_is_opened_anew(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(deduplication=True)
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.files.faults.fail("sync", under="journal")
    stage.publish(producer, message(0))
    stage.publish(producer, message(1))  # must not pass the lost one by
    assert answers(producer.peer) == ["0 PersistenceError", "1 PersistenceError"]
    producer = stage.producer(topic)
    stage.publish(producer, message(0), message(1), message(1))
    assert answers(producer.peer) == ["0 at 2:0", "1 at 2:1", "1 PersistenceError"]


def test_a_damaged_log_refuses_and_goes_on_answering(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(deduplication=True)
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, message(0))
    topic.log.damage = "bytes are missing"
    stage.publish(producer, message(1), spoiled(2))
    topic.log.damage = None  # mended
    stage.publish(stage.producer(topic, peer=producer.peer), message(1))
    assert answers(producer.peer) == [
        "0 at 1:0",
        "1 PersistenceError",
        "2 PersistenceError",
        "1 at 1:1",
    ]
    assert producer.peer.settled_count == 4


# -- any mixture ---------------------------------------------------------------------------------------

SEND = st.sampled_from(["message", "batch", "marker", "spoiled", "again"])
STEP = st.one_of(
    st.tuples(st.just("publish"), st.lists(SEND, min_size=1, max_size=4)),
    st.tuples(st.just("commit"), st.just([])),
    st.tuples(st.just("fail"), st.just([])),
)


@settings(max_examples=examples(60))
@given(steps=st.lists(STEP, max_size=14), deduplication=st.booleans())
def test_every_send_is_answered_once_and_in_order(
    steps: list[tuple[str, list[str]]], deduplication: bool
) -> None:
    """Against a twin that only counts: answers come in order, receipts name what is stored, indexes
    have no gaps."""
    with Stage(deduplication=deduplication) as stage:
        topic = stage.topic()
        producer = stage.producer(topic)
        stage.engine.holds_journal = True
        sent: list[int] = []
        next_id = 0
        for verb, kinds in [*steps, ("commit", [])]:
            if verb == "fail":
                stage.files.faults.fail("sync", under="journal")
                continue
            if verb == "commit":
                stage.engine.holds_journal = False
                stage.turn()
                stage.engine.holds_journal = True
                # The client came back after its errors.
                producer = stage.producer(topic, peer=producer.peer)
                continue
            frames = []
            for kind in kinds:
                sequence_id = max(next_id - 1, 0) if kind == "again" else next_id
                next_id = sequence_id + 1
                sent.append(sequence_id)
                make = {"batch": lambda n: batch(n, 3), "marker": marker, "spoiled": spoiled}
                frames.append(make.get(kind, message)(sequence_id))
            stage.publish(producer, *frames)
            heard = [int(one.split()[0]) for one in answers_so_far(producer)]
            assert heard == sent[: len(heard)]
        found = answers_so_far(producer)
        assert [int(one.split()[0]) for one in found] == sent
        assert producer.peer.settled_count == len(sent)
        places = [one.split(" at ")[1] for one in found if " at " in one and " at -1" not in one]
        positions = [Position.parse(place) for place in places]
        assert positions == sorted(set(positions))
        assert len(positions) == topic.log.entry_count
        end = 0
        for position in positions:
            first, following, _ = topic.lookup(*position)
            assert first == end
            end = following
        assert end == topic.log.end_index == topic.messages_in


def answers_so_far(producer: Producer) -> list[str]:
    """Everything answered, without taking it away."""
    peer = producer.peer
    assert isinstance(peer, RecordingPeer)
    kept = list(peer._heard)
    found = answers(peer)
    peer._heard = kept
    return found


# -- addresses -----------------------------------------------------------------------------------------


def test_the_last_acked_entry(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    assert topic.acked_position(-1) == (-1, -1)
    producer = stage.producer(topic)
    for frame in (message(0), batch(1, 3), batch(2, 2), message(3)):
        stage.publish(producer, frame)
    found = [tuple(topic.acked_position(index)) for index in range(-1, 7)]
    assert found == [
        (1, -1),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 1),
        (1, 1),
        (2, 0),
        (2, 1),
    ]


def test_the_last_message_is_no_marker(stage: Stage, topic: Topic, producer: Producer) -> None:
    assert topic.last_dispatchable() is None
    stage.publish(producer, marker(0))
    assert topic.last_dispatchable() is None
    stage.publish(producer, batch(1, 4), marker(2))
    assert topic.last_dispatchable() == (Position(1, 1), 3)
    stage.publish(producer, message(3))
    assert topic.last_dispatchable() == (Position(1, 3), -1)


def test_the_first_index_of_a_ledger_or_of_what_followed(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=1)
    topic = stage.topic()
    producer = stage.producer(topic)
    for number in range(3):
        stage.publish(producer, batch(number, 2))
    assert [topic.first_index_of(ledger_id) for ledger_id in (0, 1, 2, 3, 4)] == [0, 0, 2, 4, 6]


def test_who_is_here(stage: Stage, topic: Topic, producer: Producer) -> None:
    peer = RecordingPeer("both")
    stage.producer(topic, "q", peer)
    consumer = stage.consumer(stage.subscription(topic), peer=peer)
    assert topic.peers() == {producer.peer, peer}
    consumer.subscription.remove_consumer(consumer)
    assert topic.peers() == {producer.peer, peer}


def test_a_chunk_behind_a_batch_of_the_same_read_is_found_by_its_own_index(
    stage: Stage, topic: Topic, producer: Producer
) -> None:
    """Its index counts the messages before it, not the entries; also for a process that has only the
    disk."""
    stage.publish(producer, batch(1, 3), chunk(2, 0, 2), batch(3, 4), chunk(2, 1, 2))
    last = topic.log.locate(8).position
    assert topic.chunk_indexes(*last) == (3, 8)
    assert topic.first_chunk_index(*last) == 3
    again = stage.restarted().topic()
    assert again.chunk_indexes(*last) == (3, 8)
    assert again.first_chunk_index(*last) == 3
