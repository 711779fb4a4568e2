"""Subscription and chunks: a chunked message is delivered whole, at the place of its last chunk."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.calls import counted
from stage.frames import chunk, marker, message, sends
from stage.heard import answers, deliveries, got, id_of
from stage.stage import Stage

from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.dispatch.key_shared import KeySharedAssignment
from milepost.broker.operations import transactions
from milepost.broker.subscription.shared_reads import SharedReads
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.positions.transactions import TxnId
from milepost.storage.ledgers.ledger import ledger_path
from milepost.testing.peer import RecordingPeer
from milepost.wire.events import Send, WireId

MakeStage = Callable[..., Stage]
TYPES = [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED]


@pytest.fixture
def topic(stage: Stage) -> Topic:
    return stage.topic()


def at(topic: Topic, index: int) -> WireId:
    return WireId(*topic.log.locate(index).position)


@pytest.mark.parametrize("sub_type", TYPES)
@pytest.mark.parametrize("tail_size", [0, 1 << 20], ids=["disk", "memory"])
def test_messages_come_in_the_order_of_their_ends(
    make_stage: MakeStage, sub_type: int, tail_size: int
) -> None:
    stage = make_stage(tail_size=tail_size)
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), sub_type, permits=100)
    a, b = stage.producer(topic, "a"), stage.producer(topic, "b")
    heard = []
    for producer, frame in (
        (a, chunk(1, 0, 2, producer="a")),
        (b, chunk(2, 0, 2, producer="b")),
        (a, message(3)),
        (b, chunk(2, 1, 2, producer="b")),
        (a, chunk(1, 1, 2, producer="a")),
    ):
        stage.publish(producer, frame)
        heard.append(got(consumer))
    assert heard == [[], [], ["3"], ["2/0", "2/1"], ["1/0", "1/1"]]


@pytest.mark.parametrize("sub_type", TYPES)
@pytest.mark.parametrize("tail_size", [0, 1 << 20], ids=["disk", "memory"])
def test_a_late_subscriber_gets_them_in_the_same_order(
    make_stage: MakeStage, sub_type: int, tail_size: int
) -> None:
    stage = make_stage(tail_size=tail_size)
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 2), chunk(2, 0, 2), message(3))
    stage.publish(producer, chunk(2, 1, 2), chunk(1, 1, 2), message(4))
    stage.checkpoint()
    subscription = stage.subscription(topic)
    # With room for one at a time nothing may be passed by.
    consumer = stage.consumer(subscription, sub_type)
    heard: list[str] = []
    for _ in range(6):
        stage.flow(consumer, 1)
        heard += got(consumer)
    assert heard == ["3", "2/0", "2/1", "1/0", "1/1", "4"]


def test_what_is_held_is_ready_and_not_read_again(stage: Stage, topic: Topic) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    stage.publish(stage.producer(topic), chunk(1, 0, 3), chunk(1, 1, 3))
    subscription = consumer.subscription
    assert subscription.cursor.counts().ready == 2
    assert subscription.demand() is None


def test_an_orphan_is_done_with_for_everybody(stage: Stage, topic: Topic) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    stage.publish(stage.producer(topic), chunk(1, 1, 3), message(2))
    assert got(consumer) == ["2"]
    assert consumer.subscription.cursor.mark_delete_index == 0
    assert consumer.permits == 99
    again = stage.restarted()
    assert again.subscription(again.topic()).cursor.mark_delete_index == 0


def test_what_was_passed_over_is_passed_over_again_behind_a_seek(
    stage: Stage, topic: Topic
) -> None:
    """An ack without a delivery would be taken for one from before the seek."""
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    stage.publish(producer, marker(0), message(1), chunk(2, 1, 3), message(3))
    for _ in range(3):
        consumer = stage.consumer(subscription)
        heard: list[str] = []
        for _ in range(2):  # one at a time: what is not passed over stops everything
            stage.flow(consumer, 1)
            heard += got(consumer)
        assert heard == ["1", "3"]
        stage.ack(consumer, at(topic, 1), at(topic, 3))
        assert subscription.cursor.backlog == 0
        stage.seek(subscription, 0)


def test_a_seek_into_the_middle_of_a_message_gets_nothing_of_it(stage: Stage, topic: Topic) -> None:
    """By index, as an operator may: whoever seeks by an id or a time gets its first chunk."""
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, permits=100)
    stage.publish(stage.producer(topic), *(chunk(1, n, 3) for n in range(3)), message(2))
    assert got(consumer) == ["1/0", "1/1", "1/2", "2"]
    stage.seek(subscription, 1)
    assert got(stage.consumer(subscription, permits=100)) == ["2"]
    stage.seek(subscription, 0)
    assert got(stage.consumer(subscription, permits=100)) == ["1/0", "1/1", "1/2", "2"]


def test_an_older_attempt_is_given_up(stage: Stage, topic: Topic) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 3), chunk(1, 1, 3))
    stage.publish(producer, chunk(1, 0, 3), chunk(1, 1, 3), chunk(1, 2, 3))
    assert [one.entry_id for one in deliveries(consumer)] == [2, 3, 4]
    assert consumer.subscription.cursor.mark_delete_index == 1


def test_a_cumulative_ack_leaves_what_ends_later(stage: Stage, topic: Topic) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 2), message(2), message(3))
    assert stage.ack(consumer, at(topic, 2), cumulative=True) == [None]
    stage.publish(producer, chunk(1, 1, 2), message(4))
    got(consumer)
    assert stage.ack(consumer, at(topic, 2), cumulative=True) == [None]
    stage = stage.restarted()
    consumer = stage.consumer(stage.subscription(stage.topic()), permits=100)
    assert got(consumer) == ["1/0", "1/1", "4"]
    stage.ack(consumer, at(stage.topic(), 4), cumulative=True)
    assert consumer.subscription.cursor.backlog == 0


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_a_released_message_comes_back_whole(stage: Stage, topic: Topic, sub_type: int) -> None:
    consumer = stage.consumer(stage.subscription(topic), sub_type, permits=100)
    stage.publish(stage.producer(topic), chunk(1, 0, 2), message(2), chunk(1, 1, 2))
    first = deliveries(consumer)
    consumer.subscription.redeliver(consumer, [id_of(first[-1])], -1)
    stage.turn()
    again = deliveries(consumer)
    assert [one.entry_id for one in again] == [0, 2]
    assert [one.redelivery_count for one in again] == [1, 1]
    assert stage.ack(consumer, id_of(again[-1])) == [None]
    assert consumer.subscription.cursor.backlog == 1


def test_a_message_that_is_acked_in_part_is_no_message(stage: Stage, topic: Topic) -> None:
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), chunk(1, 0, 3), chunk(1, 1, 3), chunk(1, 2, 3), message(2))
    subscription.cursor.ack([(1, 2)])
    consumer = stage.consumer(subscription, permits=100)
    assert got(consumer) == ["2"]
    assert subscription.cursor.mark_delete_index == 2


def test_shared_consumers_get_whole_messages(stage: Stage, topic: Topic) -> None:
    subscription = stage.subscription(topic)
    consumers = [stage.consumer(subscription, SHARED, name=name) for name in "ab"]
    stage.publish(stage.producer(topic), *(chunk(1, n, 4) for n in range(4)), message(2))
    for _ in range(4):
        for consumer in consumers:
            stage.flow(consumer, 1)
    heard = [[one for one in got(consumer) if "/" in one] for consumer in consumers]
    assert sorted(heard) == [[], ["1/0", "1/1", "1/2", "1/3"]]


def test_a_consumer_that_leaves_in_the_middle_hands_over_the_whole(
    stage: Stage, topic: Topic
) -> None:
    subscription = stage.subscription(topic)
    peer = RecordingPeer(writes_max=2)
    first = stage.consumer(subscription, SHARED, name="a", peer=peer, permits=2)
    stage.publish(stage.producer(topic), *(chunk(1, n, 4) for n in range(4)))
    assert got(first) == ["1/0", "1/1"]
    second = stage.consumer(subscription, SHARED, name="b", permits=100)
    assert got(second) == []
    subscription.remove_consumer(first)
    stage.turn()
    assert got(second) == ["1/0", "1/1", "1/2", "1/3"]


def test_refused_chunks_come_again_and_make_one_message(stage: Stage, topic: Topic) -> None:
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 4), chunk(1, 1, 4))
    stage.files.faults.fail("sync", under="journal")
    stage.publish(producer, chunk(1, 2, 4), chunk(1, 3, 4))
    assert got(consumer) == []
    producer = stage.producer(topic, peer=producer.peer)  # its client has opened it again
    stage.publish(producer, chunk(1, 2, 4), chunk(1, 3, 4))
    assert got(consumer) == ["1/0", "1/1", "1/2", "1/3"]
    assert [answer.rpartition(" ")[2] for answer in answers(producer.peer)] == [
        "1:0",
        "1:1",
        "PersistenceError",
        "PersistenceError",
        "2:0",
        "2:1",
    ]


def test_the_last_message_is_not_an_unfinished_one(stage: Stage, topic: Topic) -> None:
    producer = stage.producer(topic)
    assert topic.last_dispatchable() is None
    stage.publish(producer, chunk(1, 0, 2))
    assert topic.last_dispatchable() is None
    stage.publish(producer, message(2), chunk(3, 1, 2), chunk(4, 0, 2))
    assert topic.last_dispatchable() == (topic.log.locate(1).position, -1)
    stage.publish(producer, chunk(1, 1, 2), marker(5))
    assert topic.last_dispatchable() == (topic.log.locate(4).position, -1)


@pytest.mark.parametrize("sub_type", TYPES)
def test_a_chunk_that_is_damaged_costs_its_own_message_only(
    make_stage: MakeStage, sub_type: int
) -> None:
    stage = make_stage(tail_size=0)
    producer = stage.producer(stage.topic())
    frames = [chunk(1, number, 3) for number in range(3)]
    stage.publish(producer, message(0), *frames, message(4))
    stage.subscription(stage.topic())
    stage = stage.restarted(checkpoint=True)  # nobody remembers where the chunks lie
    path = ledger_path(1)
    stage.files.damage(path, stage.files.contents()[path].replace(b"1/1", b"???"))
    consumer = stage.consumer(stage.topic().subscriptions["s"], sub_type, permits=100)
    assert got(consumer) == ["0", "4"]
    stage.ack(consumer, at(stage.topic(), 0), at(stage.topic(), 4))
    assert consumer.subscription.cursor.mark_delete_index == 0


def test_a_message_that_nobody_finishes_is_given_up_also_if_no_other_chunk_comes(
    stage: Stage, topic: Topic
) -> None:
    """Or it would keep everything behind it from being trimmed."""
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    stage.publish(stage.producer(topic), chunk(1, 0, 3), chunk(1, 1, 3), message(2))
    stage.ack(consumer, at(topic, 2))
    assert got(consumer) == ["2"]
    stage.clock.advance(3590)
    stage.tick(1)
    assert consumer.subscription.cursor.backlog == 2
    stage.tick(10)
    assert consumer.subscription.cursor.backlog == 0
    assert stage.restarted().topic().subscriptions["s"].cursor.backlog == 0


def test_after_a_restart_a_producer_has_its_time_to_go_on(stage: Stage, topic: Topic) -> None:
    stage.subscription(topic)
    stage.publish(stage.producer(topic), chunk(1, 0, 2))
    stage.clock.advance(24 * 3600)
    stage = stage.restarted()
    consumer = stage.consumer(stage.topic().subscriptions["s"], permits=100)
    stage.tick(10)
    stage.publish(stage.producer(stage.topic()), chunk(1, 1, 2))
    assert got(consumer) == ["1/0", "1/1"]


# -- what has begun is finished ------------------------------------------------------------------------


def taker_of(slot_key: str) -> str:
    """The name of a consumer that takes a key's slot from one called `a`."""
    for number in range(1000):
        assignment = KeySharedAssignment()
        assignment.join(1, "a")
        assignment.join(2, f"b{number}")
        if assignment.owner_of(assignment.slot_of(slot_key.encode())) == 2:
            return f"b{number}"
    raise AssertionError(slot_key)


def test_a_consumer_that_takes_the_keys_slot_gets_nothing_of_a_message_that_has_begun(
    stage: Stage, topic: Topic
) -> None:
    """A's queue is full in the middle of a message when B joins: the rest is A's."""
    subscription = stage.subscription(topic)
    peer = RecordingPeer(writes_max=2)
    a = stage.consumer(subscription, KEY_SHARED, name="a", peer=peer, permits=2)
    frames = [chunk(1, number, 4, partition_key="k") for number in range(4)]
    stage.publish(stage.producer(topic), *frames, message(2, partition_key="k"))
    assert got(a) == ["1/0", "1/1"]
    b = stage.consumer(subscription, KEY_SHARED, name=taker_of("k"), permits=100)
    peer.is_writable, peer.writes_left = True, None
    subscription.rescan()
    stage.turn()
    assert (got(a), got(b)) == (["1/2", "1/3"], [])
    stage.ack(a, at(topic, 3))
    assert (got(a), got(b)) == ([], ["2"])


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
@pytest.mark.parametrize(
    "limit", ["max_unacked_messages_per_consumer", "max_unacked_messages_per_subscription"]
)
def test_a_message_of_more_chunks_than_may_be_unacked_goes_whole(
    make_stage: MakeStage, sub_type: int, limit: str
) -> None:
    stage = make_stage(**{limit: 3})
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), sub_type, permits=100)
    stage.publish(stage.producer(topic), *(chunk(1, n, 10) for n in range(10)), message(2))
    assert got(consumer) == [f"1/{number}" for number in range(10)]
    stage.ack(consumer, at(topic, 9))
    assert got(consumer) == ["2"]


@pytest.mark.parametrize("sub_type", TYPES)
def test_of_a_message_that_was_skipped_before_its_end_came_nothing_is_delivered(
    stage: Stage, topic: Topic, sub_type: int
) -> None:
    consumer = stage.consumer(stage.subscription(topic), sub_type, permits=100)
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 3), chunk(1, 1, 3))
    assert consumer.subscription.skip(2) == 2
    stage.publish(producer, chunk(1, 2, 3), message(2))
    assert got(consumer) == ["2"]
    assert consumer.subscription.cursor.mark_delete_index == 2


def test_a_client_that_acks_its_half_has_not_acked_the_message(stage: Stage, topic: Topic) -> None:
    """What official clients do with a message whose rest does not come for a minute."""
    subscription = stage.subscription(topic)
    first = stage.consumer(subscription, SHARED, peer=RecordingPeer(writes_max=2), permits=10)
    stage.publish(stage.producer(topic), *(chunk(1, n, 3) for n in range(3)))
    assert stage.ack(first, at(topic, 0), at(topic, 1)) == [None]
    subscription.remove_consumer(first)
    second = stage.consumer(subscription, SHARED, permits=10)
    assert got(second) == ["1/0", "1/1", "1/2"]


def test_a_message_on_its_way_to_the_disk_is_not_stopped_by_an_older_negative_ack(
    stage: Stage, topic: Topic
) -> None:
    """Behind a seek it waits until its delivery is on disk; the client cannot mean that one yet."""
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, SHARED, permits=10, epoch=0)
    stage.publish(stage.producer(topic), *(chunk(1, n, 3) for n in range(3)))
    assert got(consumer) == ["1/0", "1/1", "1/2"]
    stage.engine.holds_journal = True
    subscription.seek_in_place(consumer, 0, 1, lambda error: None)
    stage.flow(consumer, 10)
    subscription.redeliver(consumer, [at(topic, 2)], NO_EPOCH)
    stage.turn()
    assert got(consumer) == []
    stage.engine.holds_journal = False
    stage.turn()
    assert got(consumer) == ["1/0", "1/1", "1/2"]


def test_a_chunk_that_cannot_be_read_any_more_ends_the_handover(make_stage: MakeStage) -> None:
    """It was there when the message began: its owner gives it back, and others are served."""
    stage = make_stage(tail_size=0)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *(chunk(1, n, 3) for n in range(3)), message(2))
    stage.checkpoint()
    stage.broker.read_entries_max = 1
    peer = RecordingPeer(writes_max=1)
    consumer = stage.consumer(subscription, SHARED, peer=peer, permits=10)
    assert got(consumer) == ["1/0"]
    stage.broker.reads = SharedReads(stage.engine)
    path = ledger_path(1)
    stage.files.damage(path, stage.files.contents()[path].replace(b"1/1", b"???"))
    peer.is_writable, peer.writes_left = True, None
    subscription.rescan()
    stage.turn()
    assert got(consumer) == ["2"]
    assert consumer.handover is None
    assert consumer.unacked == 1


class Deaf(RecordingPeer):
    """A client that does not read from the moment a chunked message begins."""

    consumer: Consumer | None = None

    @property
    def is_writable(self) -> bool:
        return self.consumer is None or self.consumer.handover is None

    @is_writable.setter
    def is_writable(self, value: bool) -> None:
        """It is as it is."""


@pytest.mark.parametrize("how", ["skip all", "skip a part", "ack"])
def test_a_message_that_is_done_before_its_first_chunk_went_out_is_not_sent(
    stage: Stage, topic: Topic, how: str
) -> None:
    subscription = stage.subscription(topic)
    peer = Deaf()
    consumer = peer.consumer = stage.consumer(subscription, SHARED, peer=peer, permits=10)
    stage.publish(stage.producer(topic), *(chunk(1, number, 3) for number in range(3)), message(2))
    assert consumer.handover is not None
    assert (got(consumer), consumer.unacked) == ([], 3)
    if how == "ack":
        stage.ack(consumer, at(topic, 2))
    else:
        assert subscription.skip(3 if how == "skip all" else 2) == (3 if how == "skip all" else 2)
    stage.turn()
    assert consumer.handover is None
    assert got(consumer) == ["2"]
    assert (consumer.unacked, subscription.unacked) == (1, 1)
    assert subscription.cursor.mark_delete_index == 2
    peer.consumer = None
    stage.publish(stage.producer(topic, "q"), *(chunk(5, number, 2) for number in range(2)))
    assert got(consumer) == ["5/0", "5/1"]


def test_of_a_message_with_a_chunk_that_cannot_be_read_the_rest_is_not_acked(
    make_stage: MakeStage,
) -> None:
    """It is shown as backlog, also after the hour in which a producer could have gone on."""
    stage = make_stage(tail_size=0)
    topic = stage.topic()
    stage.subscription(topic)
    stage.publish(stage.producer(topic), *(chunk(1, number, 3) for number in range(3)), message(2))
    stage = stage.restarted(checkpoint=True)
    path = ledger_path(1)
    stage.files.damage(path, stage.files.contents()[path].replace(b"1/1", b"???"))
    topic = stage.topic()
    consumer = stage.consumer(topic.subscriptions["s"], permits=100)
    assert got(consumer) == ["2"]
    stage.ack(consumer, at(topic, 3))
    stage.clock.advance(3 * 3600)
    for _ in range(3):
        stage.tick(10)
        stage.clock.advance(3600)
    assert list(consumer.subscription.cursor.backlog_ranges()) == [(0, 3)]


@pytest.mark.parametrize("cold", [False, True])
def test_a_cumulative_ack_behind_an_end_that_was_not_met_acks_the_whole_message(
    make_stage: MakeStage, cold: bool
) -> None:
    """The consumer has the message from before a restart. Its beginning was met again, its end was not."""
    stage = make_stage(tail_size=0)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    frames = [chunk(1, 0, 2), message(2), chunk(1, 1, 2), message(3)]
    for frame in frames:
        stage.publish(producer, frame)
    stage = stage.restarted(checkpoint=cold)
    topic = stage.topic()
    subscription = topic.subscriptions["s"]
    stage.broker.read_entries_max = 1
    consumer = stage.consumer(subscription, permits=1)
    assert got(consumer) == ["2"]
    stage.ack(consumer, at(topic, 3), cumulative=True)
    assert subscription.cursor.backlog == 0


@pytest.mark.parametrize("cold", [False, True])
def test_a_cumulative_ack_leaves_what_ends_later_though_nothing_was_met(
    make_stage: MakeStage, cold: bool
) -> None:
    """The consumer has what it acks from before a restart, and nothing has come again since."""
    stage = make_stage(tail_size=0)
    topic = stage.topic()
    stage.subscription(topic)
    producer = stage.producer(topic)
    frames = [
        chunk(0, 0, 2),
        chunk(1, 0, 2),
        message(2),
        chunk(0, 1, 2),
        chunk(1, 1, 2),
        message(3),
    ]
    for frame in frames:
        stage.publish(producer, frame)
    stage = stage.restarted(checkpoint=cold)
    topic = stage.topic()
    consumer = stage.consumer(topic.subscriptions["s"])
    stage.ack(consumer, WireId(1, 2), cumulative=True)
    assert list(consumer.subscription.cursor.backlog_ranges()) == [(0, 2), (3, 6)]
    stage.ack(consumer, WireId(1, 3), cumulative=True)
    assert list(consumer.subscription.cursor.backlog_ranges()) == [(1, 2), (4, 6)]
    stage.flow(consumer, 100)
    assert got(consumer) == ["1/0", "1/1", "3"]
    stage.ack(consumer, WireId(1, 5), cumulative=True)
    assert consumer.subscription.cursor.backlog == 0


@pytest.mark.parametrize("is_stale", [True, False])
def test_a_cumulative_ack_that_changes_nothing_leaves_the_next_one_all_to_ack(
    stage: Stage, topic: Topic, is_stale: bool
) -> None:
    """It was sent for what came before a seek, or names what no consumer can see yet."""
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, permits=100, epoch=0)
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 2), *map(message, range(2, 12)))
    if is_stale:
        subscription.seek_in_place(consumer, 0, 1, lambda error: None)
        stage.flow(consumer, 3)
    else:
        stage.run(transactions.begin(topic, stage.broker))
        assert topic.transactions is not None
        topic.transactions.wrote(TxnId(0, 1), 11, 12)
        stage.publish(producer, message(12))
    (answer,) = stage.ack(consumer, at(topic, 8 if is_stale else 11), cumulative=True)
    assert (answer is None) is is_stale
    stage.flow(consumer, 100)
    assert stage.ack(consumer, at(topic, 5), cumulative=True) == [None]
    assert list(subscription.cursor.backlog_ranges()) == [(0, 1), (6, 11)]


# -- how many may be unfinished ------------------------------------------------------------------------


def test_a_producer_that_finishes_nothing_is_refused_and_served_on(make_stage: MakeStage) -> None:
    stage = make_stage(max_pending_chunked_messages_per_producer=2, max_chunks_per_message=10)
    topic = stage.topic()
    producer = stage.producer(topic)
    consumer = stage.consumer(stage.subscription(topic), permits=100)
    stage.publish(producer, *(chunk(number, 0, 2) for number in range(3)), chunk(7, 0, 11))
    stage.publish(producer, message(4), chunk(0, 1, 2), chunk(3, 0, 2), chunk(3, 1, 2))
    assert answers(producer.peer) == [
        "0 at 1:0",
        "1 at 1:1",
        "2 NotAllowedError",
        "7 NotAllowedError",
        "4 at 1:2",
        "0 at 1:3",
        "3 at 1:4",
        "3 at 1:5",
    ]
    assert got(consumer) == ["4", "0/0", "0/1", "3/0", "3/1"]
    assert topic.chunked.unfinished_count == 1


def test_the_cost_of_a_step_does_not_grow_with_what_is_unfinished(make_stage: MakeStage) -> None:
    """Counted, not timed: what the interpreter does for one more message behind very many halves."""
    stage = make_stage(
        max_pending_chunked_messages_per_producer=0, max_pending_chunked_messages_per_topic=0
    )
    topic = stage.topic()
    producer = stage.producer(topic)
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, permits=1_000_000)
    costs = []
    for unfinished in (100, 1500):
        first = topic.chunked.unfinished_count
        for start in range(first, unfinished, 10):
            # With a message between, so that what waits does not lie side by side.
            stage.publish(
                producer,
                *(
                    frame
                    for number in range(start, start + 10)
                    for frame in (chunk(number, 0, 2), message(100_000 + number))
                ),
            )
            end = topic.log.end_index
            stage.ack(consumer, at(topic, end - 1), cumulative=True)
        assert topic.chunked.unfinished_count == unfinished
        read = sends(chunk(99_999, 0, 2), chunk(99_999, 1, 2))
        got(consumer)
        costs.append(counted(lambda read=read: publish_unchecked(stage, producer, read)))  # type: ignore[misc]
        assert got(consumer) == ["99999/0", "99999/1"]
        stage.ack(consumer, at(topic, topic.log.end_index - 1), cumulative=True)
    assert costs[1] <= 1.5 * costs[0], costs


def publish_unchecked(stage: Stage, producer: Producer, read: list[Send]) -> None:
    """Publish, and let everything happen; without the stage's own look at all that there is."""
    producer.topic.publish(producer, read)
    while stage.loop.turn() or stage.engine.work():
        pass
