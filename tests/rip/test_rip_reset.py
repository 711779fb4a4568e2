"""Resets as the proposal should have them: invariants I1 to I14, races R1 to R12, by their numbers.

With both kinds of clients where both apply: one that is closed and comes back, one that follows in place.
What needs real processes (kill -9, a tenth of a second) is in tests/compat/test_resets.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, message
from stage.overview import overview
from stage.stage import TOPIC, Stage
from stage.talk import SHARED

from milepost.broker.operations.reset import Move, Reset, Target, reset
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import AckFact, SeekFact
from milepost.errors import MilepostError
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges
from milepost.wire import pulsar_pb2 as pb
from rip.player import KINDS, MILEPOST, OFFICIAL, Player

NAME = TopicName.parse(TOPIC)
EXCLUSIVE, KEY_SHARED = pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Key_Shared
SHARING = [SHARED, KEY_SHARED]


def publish(stage: Stage, first: int, end: int) -> None:
    topic = stage.topic()
    producer = topic.producers.get("p") or stage.producer(topic)
    frames = [message(number, partition_key=f"k{number % 4}") for number in range(first, end)]
    stage.publish(producer, *frames)


def subscription_of(stage: Stage, name: str = "s") -> Subscription:
    return stage.subscription(stage.topic(), name)


def move_to(stage: Stage, index: int, name: str = "s", **options: Any) -> Move:
    asked = Reset(Target(index=index), **options)
    (move,) = stage.run(reset(stage.broker, NAME, name, asked, by="ann"))
    return move


def mark(stage: Stage) -> int:
    return subscription_of(stage).cursor.mark_delete_index


# -- durability and order ----------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [False, True])
def test_i1_a_reset_that_was_answered_survives_a_crash(stage: Stage, checkpoint: bool) -> None:
    """I1, R6: durable before the answer."""
    subscription_of(stage)
    publish(stage, 0, 6)
    move_to(stage, 4)
    again = stage.restarted(checkpoint=checkpoint)
    cursor = subscription_of(again).cursor
    assert (cursor.mark_delete_index, cursor.epoch) == (3, 1)


def test_i1_the_answer_waits_for_the_disk(stage: Stage) -> None:
    subscription_of(stage)
    publish(stage, 0, 6)
    stage.engine.holds_journal = True
    task = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=4)), by="ann"))
    stage.turn()
    assert not task.done()
    again = stage.restarted()
    assert subscription_of(again).cursor.epoch == 0


def test_i2_an_epoch_never_comes_twice() -> None:
    """Equal or lower epochs from a replay are ignored."""
    cursor = Cursor(0, 10)
    seeks = [cursor.seek(index) for index in (4, 2, 8)]
    assert [fact.epoch for fact in seeks] == [1, 2, 3]
    for fact in [*seeks, SeekFact(1, 0, IndexRanges()), AckFact(2, IndexRanges([(8, 9)]))]:
        cursor.replay(fact)
    assert (cursor.epoch, cursor.mark_delete_index) == (3, 7)


@pytest.mark.parametrize("kind", KINDS)
def test_i3_within_an_epoch_the_position_only_rises(stage: Stage, kind: str) -> None:
    player = Player(stage, "p", kind, EXCLUSIVE)
    player.settle()
    publish(stage, 0, 5)
    player.settle()
    marks = []
    for number in (2, 0, 4, 1):
        player.ack(player.ever[number], cumulative=True)
        stage.turn()
        marks.append(mark(stage))
    assert marks == sorted(marks)
    move_to(stage, 1)
    assert mark(stage) == 0  # and falls by a reset only


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cumulative", [False, True])
def test_i4_acks_of_older_epochs_change_nothing(stage: Stage, kind: str, cumulative: bool) -> None:
    """I4, R1: sent before the reset, or by somebody who has not heard of it; they are answered."""
    player = Player(stage, "p", kind, EXCLUSIVE, permits=5)
    player.settle()
    publish(stage, 0, 5)
    player.settle()
    old = list(player.ever)
    move_to(stage, 1)
    if kind == OFFICIAL:
        player.permits = 0  # it comes back, without asking for anything
        player.settle()
    requests = [player.ack(one, cumulative=cumulative) for one in old[1:]]
    stage.turn()
    player.listen()
    assert mark(stage) == 0
    assert player.answered == requests


def test_i5_a_reset_of_all_partitions_is_one_record(stage: Stage) -> None:
    """All or nothing; at every byte of a crash in test_reset.py, here with one that cannot."""
    name = TopicName.parse("persistent://public/default/p")
    stage.run(stage.broker.create_partitioned_topic(name, 2))
    topics = [stage.topic(str(name.partition_name(number))) for number in (0, 1)]
    for topic, count in zip(topics, (3, 1), strict=True):
        stage.subscription(topic)
        stage.publish(stage.producer(topic), *(message(number) for number in range(count)))
    before = stage.records
    with pytest.raises(MilepostError):
        stage.run(reset(stage.broker, name, "s", Reset(Target(index=2)), by="ann"))
    assert stage.records == before
    stage.run(reset(stage.broker, name, "s", Reset(Target(index=1)), by="ann"))
    assert stage.records == before + 1


@pytest.mark.parametrize("kind", KINDS)
def test_i6_the_last_of_two_resets_holds_for_everyone(stage: Stage, kind: str) -> None:
    """I6, R9: also when a client obeyed between them, or the first is not on disk yet."""
    players = [Player(stage, name, kind, SHARED, permits=20) for name in "ab"]
    for player in players:
        player.settle()
    publish(stage, 0, 8)
    move_to(stage, 0)
    players[0].settle()
    stage.engine.holds_journal = True
    tasks = [
        stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=index)), by="ann"))
        for index in (2, 6)
    ]
    stage.turn()
    stage.engine.holds_journal = False
    shown = sorted(one for player in players for one in player.settle())
    assert all(task.done() for task in tasks)
    assert shown == ["6", "7"]
    assert mark(stage) == 5


# -- delivery ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sub_type", [EXCLUSIVE, *SHARING])
def test_i7_the_next_message_is_the_first_at_the_target(
    stage: Stage, kind: str, sub_type: Any
) -> None:
    player = Player(stage, "p", kind, sub_type, permits=50)
    player.settle()
    publish(stage, 0, 8)
    assert len(player.settle()) == 8
    for index in (3, 0, 7, 8):
        move_to(stage, index)
        assert player.settle() == [str(number) for number in range(index, 8)]


@pytest.mark.parametrize("kind", KINDS)
def test_i7_inside_a_batch(stage: Stage, kind: str) -> None:
    player = Player(stage, "p", kind, EXCLUSIVE, permits=50)
    player.settle()
    stage.publish(stage.producer(stage.topic()), batch(0, 5))
    player.settle()
    move_to(stage, 3)
    player.settle()
    (delivery,) = player.inbox
    assert delivery.ack_set == (0b11000,)


@pytest.mark.parametrize(
    "kinds", [(OFFICIAL,) * 3, (MILEPOST,) * 3, (OFFICIAL, MILEPOST, MILEPOST)]
)
@pytest.mark.parametrize("sub_type", SHARING)
def test_i8_every_consumer_obeys(stage: Stage, kinds: tuple[str, ...], sub_type: Any) -> None:
    """I8, R5: not only the first that asks."""
    players = [
        Player(stage, f"p{number}", kind, sub_type, permits=50) for number, kind in enumerate(kinds)
    ]
    for player in players:
        player.settle()
    publish(stage, 0, 12)
    for player in players:
        player.settle()
    move_to(stage, 4)
    for _ in range(2):
        shown = [one for player in players for one in player.settle()]
    assert sorted(map(int, shown)) == list(range(4, 12))
    assert subscription_of(stage).resets.waiting == []


def test_i9_an_idle_consumer_is_told_at_once(stage: Stage) -> None:
    """I9, R10: nothing to deliver, nothing asked for; the time is measured in test_resets.py."""
    player = Player(stage, "p", MILEPOST, EXCLUSIVE, permits=0)
    player.settle()
    publish(stage, 0, 3)
    move_to(stage, 3)
    assert [type(heard).__name__ for heard in player.client.take()] == ["CommandSeek"]


def test_i10_it_is_told_once_for_each_reset(stage: Stage) -> None:
    player = Player(stage, "p", MILEPOST, EXCLUSIVE)
    player.settle()
    publish(stage, 0, 3)
    for count in (1, 2):
        move_to(stage, 1)
        player.settle()
        publish(stage, 3 * count, 3 * count + 3)
        player.settle()
        assert player.seeks_heard == count


@pytest.mark.parametrize("kind", KINDS)
def test_i11_who_was_away_starts_at_the_target(stage: Stage, kind: str) -> None:
    """I11, R7: also behind a restart in between, and whatever it remembers."""
    player = Player(stage, "p", kind, EXCLUSIVE, permits=50)
    player.settle()
    publish(stage, 0, 6)
    player.settle()
    player.ack(player.inbox[4], cumulative=True)
    stage.turn()
    player.leave()
    move_to(stage, 2)
    again = stage.restarted()
    back = Player(again, "p", kind, EXCLUSIVE, permits=50)
    back.epoch = player.epoch
    late = player.ever[5]
    back.join()
    again.turn()
    back.ack(late, cumulative=True)
    assert back.settle() == ["2", "3", "4", "5"]
    assert mark(again) == 1


@pytest.mark.parametrize("knows", [None, 0, 1, 2])
def test_i11_who_missed_it_is_told_behind_its_success(stage: Stage, knows: int | None) -> None:
    """R3: its acks from before change nothing, though it was sent the same again, until it has obeyed."""
    player = Player(stage, "p", MILEPOST, SHARED, permits=5)
    player.settle()
    publish(stage, 0, 3)
    player.settle()
    old = list(player.ever)
    player.leave()
    move_to(stage, 0)
    back = Player(stage, "p", MILEPOST, SHARED, permits=5)
    back.epoch, back.cursor_epoch = player.epoch, knows
    back.join()
    stage.turn()
    is_told = knows == 0  # who knows the epoch has heard of it; who says nothing is not asked
    back.flow(5)
    stage.turn()
    requests = [back.ack(one) for one in old]
    stage.turn()
    back.listen()
    assert back.seeks_heard == is_told
    assert back.answered == requests
    assert mark(stage) == (-1 if is_told else 2)
    if is_told:
        back.settle()
        for delivery in list(back.inbox):
            back.ack(delivery)
        stage.turn()
        assert mark(stage) == 2


def test_i12_a_new_group_can_be_reset_and_shows_it(stage: Stage) -> None:
    subscription_of(stage, "new")
    publish(stage, 0, 4)
    move_to(stage, 3, "new")
    (line,) = stage.run(overview(stage.broker, [NAME], "new"))
    assert (line.mark_delete_index, line.ready, line.epoch) == (2, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_i12_so_can_one_that_nobody_has_made_yet(stage: Stage, kind: str) -> None:
    """Its first consumer begins at the target, wherever it asks to begin."""
    publish(stage, 0, 4)
    move_to(stage, 2, "later", create=True)
    (line,) = stage.run(overview(stage.broker, [NAME], "later"))
    assert (line.mark_delete_index, line.ready, line.epoch) == (1, 2, 1)
    player = Player(stage, "p", kind, EXCLUSIVE, subscription="later")
    assert player.settle() == ["2", "3"]


@pytest.mark.parametrize("index", [5, 6, 2**40])
def test_i13_out_of_range_is_an_error_and_changes_nothing(stage: Stage, index: int) -> None:
    before = subscription_of(stage).cursor.state()
    publish(stage, 0, 4)
    with pytest.raises(MilepostError, match=str(index)):
        move_to(stage, index)
    assert subscription_of(stage).cursor.epoch == before.epoch
    assert move_to(stage, 0).to == 0
    assert move_to(stage, 4).to == 4


def test_i14_by_time(stage: Stage) -> None:
    subscription_of(stage)
    empty = Reset(Target(time_ms=0))
    (move,) = stage.run(reset(stage.broker, NAME, "s", empty, by="ann"))
    assert (move.to, move.end) == (0, 0)  # of nothing, the end
    times = []
    for number in range(3):
        times.append(stage.clock.wall_ms())
        publish(stage, number, number + 1)
        stage.clock.advance(1)
    for time_ms, index in [*zip(times, range(3), strict=True), (times[1] + 1, 2), (2**52, 3)]:
        asked = Reset(Target(time_ms=time_ms))
        (move,) = stage.run(reset(stage.broker, NAME, "s", asked, by="ann"))
        assert move.to == index
    assert subscription_of(stage).cursor.backlog == 0


# -- races -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_r2_an_ack_in_the_same_breath_as_its_return(stage: Stage, kind: str) -> None:
    """R2, R3: the first thing a client says behind a reset is what it had to say before it."""
    player = Player(stage, "p", kind, EXCLUSIVE, permits=5)
    player.settle()
    publish(stage, 0, 5)
    player.settle()
    old = player.ever[4]
    stage.engine.holds_journal = True
    task = stage.loop.begin(reset(stage.broker, NAME, "s", Reset(Target(index=1)), by="ann"))
    stage.turn()
    player.listen()
    player.join()
    player.flow(5)
    player.ack(old, cumulative=True)
    stage.turn()
    player.ack(old, cumulative=True)  # while what it is shown again is still held
    stage.engine.holds_journal = False
    stage.turn()
    assert task.done()
    assert mark(stage) == 0
    player.settle()
    player.ack(player.ever[-1], cumulative=True)
    stage.turn()
    assert mark(stage) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_r4_a_read_that_was_under_way_reaches_nobody(make_stage: Any, kind: str) -> None:
    stage = make_stage(tail_size=0)
    player = Player(stage, "p", kind, EXCLUSIVE, permits=3)
    player.settle()
    publish(stage, 0, 6)
    player.settle()
    stage.checkpoint()
    stage.engine.holds_reads = True
    player.flow(3)
    stage.turn()
    assert stage.engine.reads_held == 1
    move_to(stage, 5)
    stage.engine.holds_reads = False
    player.inbox.clear()
    assert player.settle() == ["5"]


def test_r8_an_older_state_never_wins() -> None:
    """A snapshot, and facts from before it, come back in any mixture."""
    cursor = Cursor(0, 6)
    cursor.deliver(0, 6, holder=1)
    older = AckFact(0, IndexRanges([(0, 6)]))
    newer = cursor.seek(2)
    reopened = Cursor.from_state(cursor.state())
    for fact in (older, newer, older):
        reopened.replay(fact)
    assert (reopened.mark_delete_index, reopened.epoch) == (1, 1)


def test_r12_below_the_retained_head(make_stage: Any) -> None:
    """It goes to the head and says so."""
    stage = make_stage(ledger_entries_max=2)
    subscription = subscription_of(stage)
    for number in range(6):
        publish(stage, number, number + 1)
    stage.checkpoint()
    stage.store.trim(stage.topic().log, 2)
    subscription.trim(2)
    move = move_to(stage, 1)
    assert (move.to, move.first) == (2, 2)
    assert "no longer retained" in move.note
