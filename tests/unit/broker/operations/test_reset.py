"""Reset: what each kind of target means, what is refused, and that all partitions move or none."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from stage.frames import batch, chunk, message
from stage.heard import got
from stage.stage import TOPIC, Stage

from milepost.broker.dispatch.consumer import IN_PLACE, RESET_PROPERTY, Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, SHARED
from milepost.broker.operations import topic_lifecycle
from milepost.broker.operations.reset import Move, Reset, Target, decide, obeyed, reset
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import (
    IndexNotFound,
    InvalidInput,
    MilepostError,
    NotAllowed,
    PersistenceError,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
    UnexpectedPosition,
)
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName
from milepost.testing.files import MemoryFiles
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId

NAME = TopicName.parse(TOPIC)
PARTS = TopicName.parse("persistent://public/default/parts")


@pytest.fixture
def subscription(stage: Stage) -> Subscription:
    """Index 0, the batch 1 to 5, 6; a second apart. Two chunks 7 and 8. All acked but 2."""
    topic = stage.topic()
    found = stage.subscription(topic)
    producer = stage.producer(topic)
    for frames in ([message(0)], [batch(1, 5)], [message(2)], [chunk(3, 0, 2), chunk(3, 1, 2)]):
        stage.publish(producer, *frames)
        stage.clock.advance(1)
    found.cursor.ack([(0, 2), (3, 9)])
    return found


def move(subscription: Subscription, target: Target, **options: Any) -> Move:
    (found,) = decide([subscription], Reset(target, **options))
    return found


def at(text: str) -> Target:
    return Target(id=MessageId.parse(text))


@pytest.mark.parametrize(
    ("target", "after", "index"),
    [
        (Target(index=0), False, 0),
        (Target(index=3), False, 3),
        (Target(index=3), True, 4),
        (Target(index=9), False, 9),
        (Target(index=8), True, 9),
        (Target(edge="earliest"), False, 0),
        (Target(edge="latest"), False, 9),
        (Target(by=0), False, 2),
        (Target(by=-2), False, 0),
        (Target(by=7), False, 9),
        (at("1:0"), False, 0),
        (at("1:0"), True, 1),
        (at("1:1"), False, 1),
        (at("1:1"), True, 6),
        (at("1:1:-1:3"), False, 4),
        (at("1:1:-1:3"), True, 5),
        (at("1:4"), False, 7),  # the last chunk: where the message begins
        (at("1:4"), True, 9),
        (at("1:3"), False, 7),  # and so the first
        (at("1:3"), True, 9),
        (Target(index=7), True, 9),
        (at("-1:-1"), False, 0),
    ],
)
def test_a_target_means_an_index(
    subscription: Subscription, target: Target, after: bool, index: int
) -> None:
    found = move(subscription, target, after=after)
    assert (found.to, found.note) == (index, "") or target == at("-1:-1")


def test_a_time_means_the_first_message_not_before_it(
    stage: Stage, subscription: Subscription
) -> None:
    arrived = subscription.topic.log.locate(6).timestamp_ms
    for time_ms, after, index in (
        (0, False, 0),
        (arrived, False, 6),
        (arrived, True, 7),
        (arrived - 1, False, 6),
        (arrived - 1, True, 6),
        (2**52, False, 9),
    ):
        assert move(subscription, Target(time_ms=time_ms), after=after).to == index


def test_an_index_in_a_chunked_message_means_its_beginning(subscription: Subscription) -> None:
    found = move(subscription, Target(index=8))
    assert found.to == 7
    assert "index 8" in found.note


@pytest.mark.parametrize("target", [Target(last=1), Target(by=6)])
def test_an_amount_that_ends_in_a_chunked_message_means_its_beginning(
    subscription: Subscription, target: Target
) -> None:
    found = move(subscription, target)
    assert (found.to, found.note) == (7, "index 8 is part of a chunked message")


def test_behind_a_chunk_is_behind_its_message_also_where_others_lie_between(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    one, other = stage.producer(topic, "one"), stage.producer(topic, "other")
    stage.publish(one, chunk(0, 0, 2))
    stage.publish(other, message(0))
    stage.publish(one, chunk(0, 1, 2))
    stage.publish(other, chunk(1, 0, 2))  # never finished
    stage.publish(other, message(2))
    # Behind 1 a message goes on that began at 0: it is delivered whole, and 1 again.
    for index, behind in ((0, 3), (1, 0), (2, 3), (3, 4), (4, 5)):
        assert move(subscription, Target(index=index), after=True).to == behind
        target = at(str(topic.log.locate(index).position))
        assert move(subscription, target, after=True).to == behind


def test_an_id_in_an_empty_topic_is_refused_with_what_is_there(stage: Stage) -> None:
    subscription = stage.subscription(stage.topic())
    with pytest.raises(IndexNotFound, match="id 1:0:-1 is not there; it has no messages"):
        move(subscription, at("1:0"))


def test_a_move_counts_what_comes_again_and_what_is_skipped(
    stage: Stage, subscription: Subscription
) -> None:
    back = move(subscription, Target(index=0))
    assert (back.was, back.redelivered, back.skipped) == (2, 8, 0)
    on = move(subscription, Target(edge="latest"))
    assert (on.redelivered, on.skipped, on.epoch) == (0, 1, 1)
    stage.consumer(subscription, permits=5)
    assert move(subscription, Target(index=3)).released == 1
    assert move(subscription, Target(index=3)).skipped == 1
    assert (back.first, back.end, back.partition) == (0, 9, -1)


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (Target(index=10), False),
        (Target(index=9), True),
        (Target(by=-3), False),
        (Target(by=8), False),
        (at("1:5"), False),  # never there
        (at("7:0"), False),
        (at("1:1:-1:5"), False),  # the batch has five
    ],
)
def test_what_is_out_of_range_is_refused(
    subscription: Subscription, target: Target, after: bool
) -> None:
    with pytest.raises(IndexNotFound):
        move(subscription, target, after=after)


@pytest.mark.parametrize("fields", [{}, {"index": 1, "by": 2}, {"edge": "somewhere"}])
def test_a_target_is_one_thing(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        Target(**fields)


def test_a_time_before_all_time_is_refused(subscription: Subscription) -> None:
    with pytest.raises(InvalidInput, match="-1"):
        move(subscription, Target(time_ms=-1))


def test_what_is_not_retained_says_what_it_became(make_stage: Any) -> None:
    """R12: below the retained head it goes to the head, and says so."""
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(6):
        stage.publish(producer, message(number))
    stage.checkpoint()
    stage.store.trim(topic.log, 4)
    subscription.trim(topic.log.first_index)
    first = topic.log.first_index
    assert first == 4
    for target in (Target(index=0), at("1:0"), at("1:1")):
        found = move(subscription, target)
        assert found.to == first
        assert str(first) in found.note
    assert move(subscription, Target(edge="earliest")) == found._replace(note="")
    with pytest.raises(IndexNotFound):
        move(subscription, Target(by=-5))
    assert move(subscription, Target(by=-1)).to == first


def test_the_position_expected_must_be_the_one_there_is(subscription: Subscription) -> None:
    assert move(subscription, Target(index=0), expected=2).to == 0
    with pytest.raises(UnexpectedPosition, match="at index 2, not at 3"):
        move(subscription, Target(index=0), expected=3)


def test_an_exact_reset_goes_to_no_other_message(make_stage: Any) -> None:
    """What was trimmed, and a time behind the last message, are refused with what is there."""
    stage = make_stage(ledger_entries_max=1)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(6):
        stage.publish(producer, message(number))
        stage.clock.advance(1)
    stage.checkpoint()
    stage.store.trim(topic.log, 4)
    subscription.trim(topic.log.first_index)
    first_id = stage.here(lambda: topic.log.locate(4)).position
    stage.engine.loop_files.is_forbidden = False  # `reset` awaits what `decide` lacks
    with pytest.raises(
        IndexNotFound, match=r"index 0 is no longer retained; indexes 4 to 5 are kept"
    ):
        move(subscription, Target(index=0), exact=True)
    with pytest.raises(IndexNotFound, match=rf"id 1:0:-1 is not there; there are {first_id} to"):
        move(subscription, at("1:0"), exact=True)
    later = topic.log.locate(5).timestamp_ms + 1
    assert move(subscription, Target(time_ms=later)).to == 6
    moment = datetime.fromtimestamp((later - 1) / 1000, UTC)
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = rf"no message came at 20[-\d]+T[:.\d]+Z or later; the last came at {text}"
    with pytest.raises(IndexNotFound, match=told):
        move(subscription, Target(time_ms=later), exact=True)
    assert move(subscription, Target(time_ms=later - 1), exact=True).to == 5
    assert move(subscription, Target(index=6), exact=True).to == 6


def test_an_id_of_another_topic_is_refused(stage: Stage, subscription: Subscription) -> None:
    """Its ledger never was this topic's: the next message of this topic has nothing to do with it."""
    other = stage.topic("persistent://public/default/other")
    stage.publish(stage.producer(other), message(0))
    (foreign,) = other.log.ledger_ids
    late = stage.topic("persistent://public/default/late")
    found = stage.subscription(late)
    stage.publish(stage.producer(late), message(0))
    assert foreign < late.log.ledger_ids[0]
    with pytest.raises(IndexNotFound, match="is not there; there are"):
        move(found, at(f"{foreign}:0"))
    assert move(found, at("-1:-1")).to == 0


# -- performing --------------------------------------------------------------------------------------


def run(stage: Stage, asked: Reset, name: str = "s", topic: TopicName = NAME) -> list[Move]:
    return stage.run(reset(stage.broker, topic, name, asked, by="ann"))


def following(stage: Stage, subscription: Subscription, sub_type: int = EXCLUSIVE) -> Consumer:
    consumer = stage.consumer(subscription, sub_type, epoch=0)
    consumer.metadata[RESET_PROPERTY] = IN_PLACE
    return consumer


def test_a_dry_run_changes_nothing(stage: Stage, subscription: Subscription) -> None:
    before = subscription.cursor.state()
    consumer = stage.consumer(subscription)
    (found,) = run(stage, Reset(Target(index=0), dry_run=True))
    assert (found.to, found.epoch) == (0, 1)
    assert subscription.cursor.state() == before
    assert not consumer.is_closed
    assert subscription.resets.last is None


@pytest.mark.parametrize("held", ["holds_journal", "holds_catalog"])
def test_a_reset_is_on_disk_when_it_is_answered(
    stage: Stage, subscription: Subscription, held: str
) -> None:
    setattr(stage.engine, held, True)
    task = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=4)), by="ann"))
    stage.turn()
    assert not task.done()
    setattr(stage.engine, held, False)
    stage.turn()
    assert task.done()
    again = stage.restarted()
    found = again.subscription(again.topic())
    assert (found.cursor.mark_delete_index, found.cursor.epoch) == (3, 1)
    last = found.resets.last
    assert last is not None
    assert (last.by, last.asked, last.was, last.to, last.epoch) == ("ann", "index 4", 2, 4, 1)
    assert (last.redelivered, last.skipped) == (5, 1)


def test_official_clients_are_closed_and_followers_stay(
    stage: Stage, subscription: Subscription
) -> None:
    follower = following(stage, subscription, SHARED)
    stage.flow(follower, 9)
    old = stage.consumer(subscription, SHARED, name="old")
    assert got(follower) == ["1.1"]
    run(stage, Reset(Target(index=6)))
    assert old.is_closed
    assert [type(one).__name__ for one in old.peer.take()] == ["CommandCloseConsumer"]  # type: ignore[attr-defined]
    told, *rest = follower.peer.take()  # type: ignore[attr-defined]
    assert (type(told).__name__, told.consumer_epoch) == ("CommandSeek", 1)
    assert [one.consumer_epoch for one in rest] == [1, 1, 1]
    last = subscription.resets.last
    assert last is not None
    assert sorted(last.waiting) == ["c", "old"]


def test_the_second_of_two_resets_wins(stage: Stage, subscription: Subscription) -> None:
    follower = following(stage, subscription)
    stage.engine.holds_journal = True
    one = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=0)), by="a"))
    two = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=6)), by="b"))
    stage.turn()
    stage.engine.holds_journal = False
    stage.turn()
    assert one.done()
    assert two.done()
    assert subscription.cursor.mark_delete_index == 5
    assert (subscription.cursor.epoch, follower.epoch) == (2, 2)
    assert [record.by for record in subscription.resets.records] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "topic", "error"),
    [
        ("other", TOPIC, SubscriptionNotFound),
        ("s", "persistent://public/default/none", TopicNotFound),
        ("s", "persistent://public/none/t", MilepostError),
        ("s", f"{TOPIC}-partition-3", TopicNotFound),
    ],
)
def test_what_is_not_there_is_an_error_and_is_not_made(
    stage: Stage, subscription: Subscription, name: str, topic: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        run(stage, Reset(Target(index=0)), name, TopicName.parse(topic))
    assert list(stage.broker.topics) == [TOPIC]
    assert subscription.cursor.epoch == 0


def test_a_readers_subscription_can_be_reset(stage: Stage, subscription: Subscription) -> None:
    reader = stage.subscription(subscription.topic, "r", durable=False)
    run(stage, Reset(Target(index=6)), "r")
    assert reader.cursor.mark_delete_index == 5


# -- partitions --------------------------------------------------------------------------------------


def partitioned(stage: Stage, counts: tuple[int, ...] = (4, 4)) -> list[Subscription]:
    name = TopicName.parse("persistent://public/default/p")
    stage.run(stage.broker.create_partitioned_topic(name, len(counts)))
    found = []
    for partition, count in enumerate(counts):
        topic = stage.topic(str(name.partition_name(partition)))
        found.append(stage.subscription(topic))
        producer = stage.producer(topic)
        stage.publish(producer, *(message(number) for number in range(count)))
    return found


PARTITIONED = TopicName.parse("persistent://public/default/p")


def test_all_partitions_move(stage: Stage) -> None:
    subscriptions = partitioned(stage)
    moves = run(stage, Reset(Target(index=3)), topic=PARTITIONED)
    assert [(one.partition, one.to, one.skipped) for one in moves] == [(0, 3, 3), (1, 3, 3)]
    assert [one.cursor.mark_delete_index for one in subscriptions] == [2, 2]


def test_one_partition_that_cannot_move_keeps_all_where_they_are(stage: Stage) -> None:
    subscriptions = partitioned(stage, (4, 2))
    with pytest.raises(IndexNotFound, match="p-partition-1"):
        run(stage, Reset(Target(index=3)), topic=PARTITIONED)
    assert [one.cursor.epoch for one in subscriptions] == [0, 0]
    stage.run(stage.broker.delete_subscription(subscriptions[1]))
    with pytest.raises(SubscriptionNotFound):
        run(stage, Reset(Target(index=0)), topic=PARTITIONED)
    assert subscriptions[0].cursor.epoch == 0


def test_an_id_of_another_partition_is_refused(stage: Stage) -> None:
    partitioned(stage)
    with pytest.raises(IndexNotFound, match="partition 1"):
        run(stage, Reset(Target(id=MessageId(1, 0, 1))), topic=PARTITIONED.partition_name(0))


def test_a_crash_leaves_all_partitions_moved_or_none(stage: Stage) -> None:
    """The reset is one record: cut the journal at every byte of it."""
    partitioned(stage)
    stage.turn()
    (path,) = [name for name in stage.files.contents() if name.startswith("journal/")][-1:]
    before = len(stage.files.contents()[path])
    run(stage, Reset(Target(index=2)), topic=PARTITIONED)
    image, contents = stage.store.catalog.image(), stage.files.contents()  # type: ignore[attr-defined]
    seen = set()
    for size in range(before, len(contents[path]) + 1):
        files = MemoryFiles({**contents, path: contents[path][:size]}, stage.files.folders())
        with Stage(files=files, catalog_image=image) as again:
            topics = [again.topic(str(PARTITIONED.partition_name(n))) for n in (0, 1)]
            cursors = [topic.subscriptions["s"].cursor for topic in topics]
            seen.add(tuple((cursor.mark_delete_index, cursor.epoch) for cursor in cursors))
    assert seen == {((-1, 0), (-1, 0)), ((1, 1), (1, 1))}


def test_a_reset_that_cannot_be_stored_is_an_error(
    stage: Stage, subscription: Subscription
) -> None:
    stage.files.faults.fail("sync", under="journal")
    with pytest.raises(PersistenceError):
        run(stage, Reset(Target(index=0)))


# -- who has obeyed ----------------------------------------------------------------------------------


def test_who_comes_back_has_obeyed_and_the_history_is_kept(
    stage: Stage, subscription: Subscription
) -> None:
    stage.consumer(subscription, name="c-1")
    run(stage, Reset(Target(index=0)))
    assert subscription.resets.waiting == ["c-1"]
    back = stage.consumer(subscription, name="c-1")
    stage.loop.do(lambda: obeyed(stage.broker, back))
    stage.turn()
    assert subscription.resets.waiting == []
    again = stage.restarted()
    last = again.subscription(again.topic()).resets.last
    assert last is not None
    assert last.obeyed == ["c-1"]


def test_a_restart_leaves_nobody_waiting(stage: Stage, subscription: Subscription) -> None:
    stage.consumer(subscription, name="c-1")
    run(stage, Reset(Target(index=0)))
    again = stage.restarted()
    assert again.subscription(again.topic()).resets.waiting == []


def test_an_ack_from_before_a_reset_changes_nothing(stage: Stage) -> None:
    """Whoever held messages when it was reset may ack them; they are not what it gets now."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *(message(number) for number in range(5)))
    follower = following(stage, subscription)
    stage.flow(follower, 5)
    assert got(follower) == ["0", "1", "2", "3", "4"]
    run(stage, Reset(Target(index=1)))
    assert stage.ack(follower, WireId(1, 4), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == 0
    assert follower.permits == 0  # none were given back, so nothing comes
    stage.flow(follower, 5)
    assert [one.consumer_epoch for one in follower.peer.take()] == [1] * 5  # type: ignore[attr-defined]
    assert follower.owes_echo == 1
    follower.owes_echo = None  # it says that it has obeyed
    assert stage.ack(follower, WireId(1, 4), cumulative=True) == [None]
    assert subscription.cursor.mark_delete_index == 4


def test_standbys_obey_too(stage: Stage) -> None:
    """They may hold messages from when they were active. A client's own seek leaves them alone."""
    subscription = stage.subscription(stage.topic())
    stage.publish(stage.producer(stage.topic()), message(0))
    everyone = [stage.consumer(subscription, FAILOVER, name=name) for name in "abcd"]
    follower = everyone[3]
    follower.epoch, follower.metadata[RESET_PROPERTY] = 0, IN_PLACE
    closed = subscription.seek(0, lambda error: None)
    assert len(closed) <= 1
    assert follower.epoch == 1
    standbys = [consumer for consumer in everyone[:3] if not consumer.is_closed]
    run(stage, Reset(Target(index=0)))
    assert all(consumer.is_closed for consumer in standbys)
    assert not follower.is_closed
    assert follower.epoch == 2
    for consumer in standbys:
        assert isinstance(consumer.peer, RecordingPeer)
        assert len(consumer.peer.take_all(pb.CommandCloseConsumer)) == 1


# -- what is not there yet -------------------------------------------------------------------------------


def test_a_subscription_that_is_not_there_is_made_if_asked(
    stage: Stage, subscription: Subscription
) -> None:
    end = subscription.cursor.end
    with pytest.raises(SubscriptionNotFound):
        run(stage, Reset(Target(index=4)), "new")
    (move,) = run(stage, Reset(Target(index=4), create=True), "new")
    assert (move.was, move.to, move.epoch, move.skipped) == (0, 4, 1, 4)
    assert move.note == "the subscription is new"
    again = stage.restarted()
    made = again.subscription(again.topic(), "new")
    assert (made.cursor.mark_delete_index, made.cursor.backlog) == (3, end - 4)
    assert [(record.by, record.to) for record in made.resets.records] == [("ann", 4)]
    # Who is there already is moved, as ever.
    (move,) = run(again, Reset(Target(index=1), create=True), "new")
    assert (move.was, move.to, move.epoch, move.note) == (4, 1, 2, "")


@pytest.mark.parametrize(
    "asked",
    [
        Reset(Target(index=10**6), create=True),
        Reset(Target(index=1), create=True, dry_run=True),
        Reset(Target(by=-1), create=True),
    ],
)
def test_nothing_is_made_by_a_dry_run_or_an_error(
    stage: Stage, subscription: Subscription, asked: Reset
) -> None:
    if asked.dry_run:
        (move,) = run(stage, asked, "new")
        assert (move.to, move.note) == (1, "the subscription is new")
    else:
        with pytest.raises(IndexNotFound):
            run(stage, asked, "new")
    assert list(stage.topic().subscriptions) == ["s"]
    assert list(stage.restarted().topic().subscriptions) == ["s"]


def test_a_name_that_nobody_can_have_is_refused(stage: Stage, subscription: Subscription) -> None:
    for name in ("", "a\nb"):
        with pytest.raises(MilepostError):
            run(stage, Reset(Target(index=0), create=True), name)
    with pytest.raises(InvalidInput, match="expected"):
        Reset(Target(index=0), create=True, expected=0)


def test_it_is_made_on_the_partitions_that_lack_it(stage: Stage) -> None:
    """One of three was never used, one has the subscription."""
    name = TopicName.parse("persistent://public/default/parts")
    stage.run(stage.broker.create_partitioned_topic(name, 3))
    for number in (0, 1):
        topic = stage.topic(str(name.partition_name(number)))
        stage.publish(stage.producer(topic), message(0), message(1))
    stage.subscription(stage.topic(str(name.partition_name(1))), "s")
    moves = run(stage, Reset(Target(edge="latest"), create=True), "s", name)
    assert [(move.to, move.note) for move in moves] == [
        (2, "the subscription is new"),
        (2, ""),
        (0, "the subscription is new"),
    ]
    for number, backlog in enumerate((0, 0, 0)):
        topic = stage.topic(str(name.partition_name(number)))
        assert topic.subscriptions["s"].cursor.backlog == backlog


def test_what_was_made_goes_again_if_the_rest_cannot_be(stage: Stage) -> None:
    """The second partition has as many subscriptions as it may have."""
    name = TopicName.parse("persistent://public/default/parts")
    stage.run(stage.broker.create_partitioned_topic(name, 2))
    topics = [stage.topic(str(name.partition_name(number))) for number in (0, 1)]
    stage.subscription(topics[1], "only")
    topics[1].policies = replace(topics[1].policies, max_subscriptions=1)
    with pytest.raises(NotAllowed):
        run(stage, Reset(Target(edge="latest"), create=True), "s", name)
    assert [list(topic.subscriptions) for topic in topics] == [[], ["only"]]


def test_somebody_else_makes_it_at_the_same_time(stage: Stage, subscription: Subscription) -> None:
    stage.engine.holds_catalog = True
    tasks = [
        stage.loop.begin(
            reset(stage.broker, NAME, "new", Reset(Target(index=index), create=True), by="ann")
        )
        for index in (2, 3)
    ]
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert [task.result()[0].to for task in tasks] == [2, 3]
    made = stage.subscription(stage.topic(), "new")
    assert (made.cursor.mark_delete_index, made.cursor.epoch) == (2, 2)


def test_a_reset_of_what_was_unloaded_meanwhile_is_not_answered_as_done(stage: Stage) -> None:
    """What is opened again knows nothing of it."""
    stage.run(stage.broker.create_partitioned_topic(NAME, 2))
    for number in range(2):
        topic = stage.topic(f"{TOPIC}-partition-{number}")
        stage.publish(stage.producer(topic), message(0), message(1))
        stage.subscription(topic)
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))  # the second is to be opened first
    stage.engine.holds_catalog = True
    asked = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=1)), by="ann"))
    stage.turn()
    first = stage.broker.topics[f"{TOPIC}-partition-0"]
    stage.run(topic_lifecycle.close_topic(stage.broker, first))
    stage.engine.holds_catalog = False
    stage.turn()
    assert isinstance(asked.exception(), ServiceNotReady)
    again = stage.topic(f"{TOPIC}-partition-0").subscriptions["s"]
    assert (again.position, again.cursor.epoch) == (0, 0)


@pytest.mark.parametrize("target", [Target(index=1), Target(edge="latest"), Target(by=1)])
def test_what_a_reset_creates_is_at_its_target_from_the_first_moment(
    stage: Stage, target: Target
) -> None:
    """A crash right behind the one step that makes it finds it there, on every partition."""
    stage.run(stage.broker.create_partitioned_topic(PARTS, 3))
    for number in range(3):
        topic = stage.topic(str(PARTS.partition_name(number)))
        stage.publish(stage.producer(topic), message(0), message(1))
    transactions = []
    catalog = stage.broker.engine.catalog

    async def counted(work: Any) -> Any:
        transactions.append(work)
        return await catalog(work)

    stage.broker.engine.catalog = counted  # type: ignore[method-assign]
    moves = run(stage, Reset(target, create=True), "new", PARTS)
    assert len(transactions) == 1
    where = 2 if target.edge else 1
    assert [(one.to, one.epoch, one.note) for one in moves] == [
        (where, 1, "the subscription is new")
    ] * 3
    again = stage.restarted()
    for number in range(3):
        found = again.topic(str(PARTS.partition_name(number))).subscriptions["new"]
        assert (found.cursor.mark_delete_index, found.cursor.epoch) == (where - 1, 1)
        (record,) = found.resets.records
        assert (record.asked, record.to, record.by) == (str(target), where, "ann")


def test_partitions_that_have_the_subscription_move_and_the_others_are_made(stage: Stage) -> None:
    stage.run(stage.broker.create_partitioned_topic(PARTS, 2))
    topics = [stage.topic(str(PARTS.partition_name(number))) for number in range(2)]
    old = stage.subscription(topics[0], "s")
    for topic in topics:
        stage.publish(stage.producer(topic), message(0), message(1))
    moves = run(stage, Reset(Target(edge="latest"), create=True), "s", PARTS)
    assert [(one.to, one.epoch, one.note) for one in moves] == [
        (2, 1, ""),
        (2, 1, "the subscription is new"),
    ]
    assert old.cursor.backlog == topics[1].subscriptions["s"].cursor.backlog == 0


def test_amounts_are_each_partitions_own(stage: Stage) -> None:
    """Clamped where one partition is shorter; refused where none is long enough."""
    partitioned(stage, (6, 2))
    name = TopicName.parse("persistent://public/default/p")

    def moved(target: Target) -> list[tuple[int, str]]:
        found = run(stage, Reset(target, dry_run=True), topic=name)
        return [(one.to, one.note) for one in found]

    ends = run(stage, Reset(Target(edge="latest")), topic=name)
    assert [one.to for one in ends] == [6, 2]
    assert moved(Target(by=-1)) == [(5, ""), (1, "")]
    assert moved(Target(by=-4)) == [(2, ""), (0, "it begins at 0")]
    assert moved(Target(last=4)) == [(2, ""), (0, "it begins at 0")]
    assert moved(Target(last=0)) == [(6, ""), (2, "")]
    assert moved(Target(last=9)) == [(0, "it begins at 0"), (0, "it begins at 0")]
    with pytest.raises(IndexNotFound, match=r"by -7 from index 6 to -1; indexes 0 to 5 are kept"):
        moved(Target(by=-7))
    with pytest.raises(IndexNotFound, match=r"by \+1 from index 6 to 7"):
        moved(Target(by=1))
