"""ReadLoop: what is in memory at once, what is on disk later, in order, and never under an older epoch."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, marker, message
from stage.heard import got
from stage.stage import Stage

from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.subscription import read_loop
from milepost.broker.subscription.read_loop import ENTRIES_MAX, SCATTERED_MAX, TURNS_MAX
from milepost.broker.subscription.subscription import SINGLES_MAX, SINGLES_S, Subscription
from milepost.storage.files import NotAnswered
from milepost.storage.header import HEADER_SIZE
from milepost.storage.ledgers.entry import Entry
from milepost.storage.ledgers.ledger import ledger_path
from milepost.wire.events import Ack, WireId

MakeStage = Callable[..., Stage]


def stored(stage: Stage, count: int, **fields: str) -> Subscription:
    """A subscription of messages 0, 1, … that are on disk and nowhere else."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(count):
        stage.publish(producer, message(number, **fields))
    stage.checkpoint()
    return subscription


@pytest.fixture
def disk(make_stage: MakeStage) -> Stage:
    """A stage where everything stored is read from the disk."""
    return make_stage(tail_size=0)


def test_many_wakes_of_a_turn_are_one_run(stage: Stage) -> None:
    subscription = stage.subscription(stage.topic())
    stage.consumer(subscription)
    asked: list[object] = []
    demand = subscription.demand

    def counted() -> object:
        asked.append(None)
        return demand()

    subscription.demand = counted  # type: ignore[method-assign, assignment]
    for _ in range(10):
        subscription.read_loop.wake()
    stage.turn()
    assert len(asked) == 1


def test_what_is_in_memory_waits_for_no_read(stage: Stage) -> None:
    topic = stage.topic()
    stage.engine.holds_reads = True
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.publish(stage.producer(topic), message(0), batch(1, 2))
    assert got(consumer) == ["0", "1.0", "1.1"]


def test_one_read_at_a_time(disk: Stage) -> None:
    subscription = stored(disk, 10)
    disk.engine.holds_reads = True
    consumer = disk.consumer(subscription, permits=3)
    disk.flow(consumer, 3)
    disk.flow(consumer, 1)
    assert disk.engine.reads_held == 1
    assert got(consumer) == []
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == ["0", "1", "2", "3", "4", "5", "6"]


def test_a_read_that_a_seek_overtook_is_dropped(disk: Stage) -> None:
    subscription = stored(disk, 5)
    disk.engine.holds_reads = True
    consumer = disk.consumer(subscription, permits=2, epoch=0)
    assert disk.engine.reads_held == 1
    assert subscription.seek_in_place(consumer, 3, 1, lambda error: None) == []
    disk.flow(consumer, 10)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == ["3", "4"]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, KEY_SHARED])
def test_what_was_released_during_a_read_comes_before_it(disk: Stage, sub_type: int) -> None:
    """On the types that keep an order: of the topic, or of a key."""
    subscription = stored(disk, 10, partition_key="k")
    consumer = disk.consumer(subscription, sub_type, permits=4)
    assert got(consumer) == ["0", "1", "2", "3"]
    disk.engine.holds_reads = True
    disk.flow(consumer, 10)
    assert disk.engine.reads_held == 1
    subscription.redeliver(consumer, [], -1)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == [str(number) for number in range(10)]


def test_a_consumer_that_takes_over_during_a_read_begins_at_the_front(disk: Stage) -> None:
    subscription = stored(disk, 6)
    first = disk.consumer(subscription, permits=3)
    disk.engine.holds_reads = True
    disk.flow(first, 3)
    subscription.remove_consumer(first)
    second = disk.consumer(subscription, permits=10)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(first) == ["0", "1", "2"]
    assert got(second) == [str(number) for number in range(6)]


def test_on_shared_a_read_is_not_thrown_away_for_what_was_released(disk: Stage) -> None:
    subscription = stored(disk, 4)
    consumer = disk.consumer(subscription, SHARED, permits=2)
    disk.engine.holds_reads = True
    disk.flow(consumer, 10)
    subscription.redeliver(consumer, [WireId(1, 0)], -1)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == ["0", "1", "2", "3", "0"]


def test_a_damaged_entry_costs_nobody_else(disk: Stage, caplog: pytest.LogCaptureFixture) -> None:
    subscription = stored(disk, 3)
    path = ledger_path(1)
    content = disk.files.contents()[path]
    at = content.rindex(b"1", 0, content.rindex(b"2"))  # the payload of message 1
    disk.files.damage(path, content[:at] + b"?" + content[at + 1 :])
    consumer = disk.consumer(subscription, permits=10)
    assert got(consumer) == ["0", "2"]
    assert "entry 1:1" in caplog.text
    assert subscription.cursor.counts() == (1, 2, 0, 0)


def test_damaged_entries_are_not_read_again_by_every_flow(make_stage: MakeStage) -> None:
    """There may be very many. They hold up no other message, and are tried when a consumer comes."""
    disk = make_stage(tail_size=0, key_shared_look_ahead_per_consumer=1)
    subscription = stored(disk, 40)
    path = ledger_path(1)
    content = disk.files.contents()[path]
    lost = content[:HEADER_SIZE] + bytes(len(content) // 2)
    disk.files.damage(path, lost + content[len(lost) :])
    consumer = disk.consumer(subscription, KEY_SHARED, permits=5)
    first = int(got(consumer)[0])
    assert first > 10
    asked = disk.files.faults.calls["read"]
    disk.flow(consumer, 100)
    assert got(consumer) == [str(number) for number in range(first + 5, 40)]
    assert disk.files.faults.calls["read"] - asked <= 40 - first - 5, "one for each that is intact"
    disk.files.damage(path, content)
    disk.consumer(subscription, KEY_SHARED, permits=100)
    disk.turn()
    assert subscription.cursor.counts().ready == 0


def test_a_disk_that_cannot_be_read_is_asked_again_when_something_changes(
    disk: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """And not before: an endless loop of reads would cost everybody else."""
    subscription = stored(disk, 3)
    disk.files.faults.fail("read", forever=True, under="ledgers")
    consumer = disk.consumer(subscription, permits=10)
    assert got(consumer) == []
    assert "Input/output error" in caplog.text
    asked = disk.files.faults.calls["read"]
    disk.turn()
    assert disk.files.faults.calls["read"] == asked
    disk.files.faults.heal()
    disk.flow(consumer, 1)
    assert got(consumer) == ["0", "1", "2"]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
@pytest.mark.parametrize("news", ["seek", "redelivery", "departure"])
def test_what_becomes_ready_during_a_read_that_fails_is_delivered(
    disk: Stage, sub_type: int, news: str
) -> None:
    """What cannot be read is passed over, and nothing that lies before it."""
    subscription = stored(disk, 6)
    first = consumer = disk.consumer(subscription, sub_type, permits=3, epoch=0)
    assert got(first) == ["0", "1", "2"]
    if news == "departure" and sub_type == SHARED:
        consumer = disk.consumer(subscription, sub_type, name="d")
    disk.engine.holds_reads = True
    disk.flow(consumer, 1)
    assert disk.engine.reads_held == 1
    if news == "seek":
        subscription.seek_in_place(consumer, 0, 1, lambda error: None)
    elif news == "redelivery":
        subscription.redeliver(consumer, [], 1)
    else:
        subscription.remove_consumer(first)
        if sub_type == EXCLUSIVE:
            consumer = disk.consumer(subscription, sub_type)
    disk.flow(consumer, 10)
    disk.files.faults.fail("read", under="ledgers")
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == [str(number) for number in range(6)]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_a_store_that_does_not_answer_is_waited_for_and_nothing_is_passed_over(
    disk: Stage, monkeypatch: pytest.MonkeyPatch, sub_type: int
) -> None:
    """It has lost nothing: what cannot be read now comes first when it can."""
    subscription = stored(disk, 6)

    def silent(*asked: object) -> bytes:
        raise NotAnswered(errno.EIO, "pack/1: 503")

    monkeypatch.setattr(read_loop, "ASK_AGAIN_S", 0.001)
    with monkeypatch.context() as patch:
        patch.setattr(disk.files, "read", silent)
        consumer = disk.consumer(subscription, sub_type, permits=3)
        for _ in range(20):
            disk.flow(consumer, 1)
    found = got(consumer)
    assert found == []
    while len(found) < 6:
        subscription.read_loop.wake()
        disk.turn()
        found = got(consumer)
    assert found == ["0", "1", "2", "3", "4", "5"]


def test_a_long_feed_lets_others_have_their_turn(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    # Markers and messages in turn: nothing is delivered in one piece.
    for number in range(0, 60, 2):
        stage.publish(producer, message(number), marker(number + 1))
    consumer = stage.consumer(subscription)
    turns: list[int] = []
    stage.broker.read_entries_max = 2
    subscription.flow(consumer, 1000)

    def other() -> None:
        turns.append(len(turns))
        if consumer.messages_out < 30:
            stage.loop.call_soon(other)

    stage.loop.call_soon(other)
    stage.turn()
    assert consumer.messages_out == 30
    assert len(turns) > 30 / 2 / TURNS_MAX


def test_acks_of_a_turn_are_flushed_when_it_ends(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, permits=10)
    stage.publish(stage.producer(topic), message(0), message(1))
    before = stage.store.journal.last_sequence
    for number in range(2):
        ack = Ack(0, False, [WireId(1, number)], None)
        subscription.ack(consumer, ack, lambda error: None)
    assert stage.store.journal.last_sequence == before
    stage.turn()
    assert stage.store.journal.last_sequence == before + 1


# -- what others read too ----------------------------------------------------------------------------


def test_subscriptions_side_by_side_read_once(disk: Stage) -> None:
    first = stored(disk, 6)
    second = disk.subscription(first.topic, "other")
    reads = disk.files.faults.calls["read"]
    one = disk.consumer(first, permits=6)
    once = disk.files.faults.calls["read"] - reads
    other = disk.consumer(second, permits=6)
    assert got(one) == got(other) == [str(number) for number in range(6)]
    assert disk.files.faults.calls["read"] - reads == once


def test_while_it_rests_nothing_is_dispatched(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), message(0))
    feed: Any = subscription.read_loop
    offered_resting: list[bool] = []
    offer = subscription.offer

    def noted(*args: Any, **options: Any) -> None:
        offered_resting.append(feed._is_resting)
        offer(*args, **options)

    subscription.offer = noted  # type: ignore[method-assign]
    stage.loop.do(feed.rest)
    consumer = stage.consumer(subscription, permits=10)
    while feed._is_resting:
        subscription.read_loop.wake()
        stage.turn()
    while not offered_resting:
        stage.turn()
    assert got(consumer) == ["0"]
    assert not any(offered_resting)


def test_entries_that_go_out_one_by_one_are_few_in_a_turn(stage: Stage) -> None:
    """What lies between entries that are not ready goes out alone: others have a turn in between."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, SHARED, permits=1000)
    stage.publish(stage.producer(topic), *[message(number) for number in range(500)])
    assert len(got(consumer)) == 500
    subscription.redeliver(consumer, [WireId(1, number) for number in range(0, 500, 2)], NO_EPOCH)
    turns = []
    while sum(turns) < 250:
        stage.loop.call_soon(stage.loop.stop)  # one pass over what is ready now
        stage.loop.run_forever()
        turns.append(len(got(consumer)))
    assert max(turns) <= SINGLES_MAX


def test_entries_that_go_out_one_by_one_take_little_time_in_a_turn(stage: Stage) -> None:
    """However slow the machine is: a few of them are a turn if each takes long."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, KEY_SHARED, permits=0)
    stage.publish(stage.producer(topic), *[message(number) for number in range(20)])
    dispatcher: Any = subscription.dispatcher
    choose = dispatcher.choose

    def choose_slowly(entry: Entry) -> Consumer | None:
        stage.clock.advance(0.4 * SINGLES_S)
        chosen: Consumer | None = choose(entry)
        return chosen

    dispatcher.choose = choose_slowly
    subscription.flow(consumer, 20)
    turns = []
    while sum(turns) < 20:
        stage.loop.call_soon(stage.loop.stop)  # one pass over what is ready now
        stage.loop.run_forever()
        turns.append(len(got(consumer)))
    assert max(turns) == 3


def test_a_read_from_before_a_seek_was_not_offered_in_vain(disk: Stage) -> None:
    """The demand after the seek may be the very same one: it is read again, and delivered."""
    subscription = stored(disk, 3)
    disk.engine.holds_reads = True
    consumer = disk.consumer(subscription, epoch=0, permits=3)
    assert disk.engine.reads_held == 1
    subscription.seek_in_place(consumer, 0, 1, lambda error: None)
    disk.flow(consumer, 3)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == ["0", "1", "2"]


def test_entries_that_came_back_together_go_out_in_one_run(stage: Stage) -> None:
    """They cost as little as when they went out first, and are more in a turn than those that go alone."""
    count = ENTRIES_MAX
    assert count > SINGLES_MAX
    topic = stage.topic()
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, SHARED, permits=1000)
    stage.publish(stage.producer(topic), *[message(number) for number in range(count)])
    assert len(got(consumer)) == count
    subscription.redeliver(consumer, [WireId(1, number) for number in range(count)], NO_EPOCH)
    stage.loop.call_soon(stage.loop.stop)  # one pass over what is ready now
    stage.loop.run_forever()
    assert len(got(consumer)) == count
    stage.turn()


def test_a_turn_offers_a_bounded_number_of_entries(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    consumer = stage.consumer(subscription, SHARED, permits=0)
    count = 3 * ENTRIES_MAX
    stage.publish(stage.producer(topic), *[message(number) for number in range(count)])
    subscription.flow(consumer, count)
    turns: list[int] = []
    while sum(turns) < count:
        stage.loop.call_soon(stage.loop.stop)
        stage.loop.run_forever()
        turns.append(len(got(consumer)))
    assert max(turns) <= ENTRIES_MAX


def test_a_large_read_from_the_disk_is_offered_in_turns(disk: Stage) -> None:
    """The disk is read once for many entries; others have their turn between the parts of them."""
    count = 3 * ENTRIES_MAX
    topic = disk.topic()
    subscription = disk.subscription(topic)
    disk.publish(disk.producer(topic), *[message(number) for number in range(count)])
    disk.checkpoint()
    disk.engine.holds_reads = True
    consumer = disk.consumer(subscription, SHARED, permits=count)
    disk.turn()
    turns: list[int] = []
    for _ in range(100):
        disk.engine.release_read()
        disk.loop.call_soon(disk.loop.stop)
        disk.loop.run_forever()
        turns.append(len(got(consumer)))
    assert sum(turns) == count
    assert max(turns) <= ENTRIES_MAX


# -- what lies apart -------------------------------------------------------------------------------------


def with_holes(stage: Stage, count: int) -> Subscription:
    """A subscription that has acked every second message, all of which are in memory."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    stage.publish(stage.producer(topic), *(message(number) for number in range(count)))
    for number in range(0, count, 2):
        located = topic.log.locate(number)
        subscription.note_acked(subscription.cursor.ack([(number, number + 1)]))
        assert located.span.count == 1
    return subscription


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
def test_what_lies_apart_is_looked_up_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, sub_type: int
) -> None:
    subscription = with_holes(stage, 4 * SCATTERED_MAX)
    looked_up: list[int] = []
    log = subscription.topic.log
    monkeypatch.setattr(log, "plan_read_from", None)
    entries_in_memory = log.entries_in_memory

    def counted(ranges: list[tuple[int, int]]) -> list[Entry]:
        looked_up.append(len(ranges))
        return entries_in_memory(ranges)

    monkeypatch.setattr(log, "entries_in_memory", counted)
    consumer = stage.consumer(subscription, sub_type, permits=4 * SCATTERED_MAX)
    assert got(consumer) == [str(number) for number in range(1, 4 * SCATTERED_MAX, 2)]
    assert looked_up == [SCATTERED_MAX] * 2


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_no_more_of_it_goes_than_there_are_permits(stage: Stage, sub_type: int) -> None:
    subscription = with_holes(stage, 20)
    consumer = stage.consumer(subscription, sub_type, permits=3)
    assert got(consumer) == ["1", "3", "5"]
    stage.flow(consumer, 2)
    assert got(consumer) == ["7", "9"]
    assert consumer.permits == 0


def on_disk_with_holes(disk: Stage, count: int) -> Subscription:
    subscription = with_holes(disk, count)
    disk.checkpoint()
    return subscription


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, KEY_SHARED])
def test_what_lies_apart_on_the_disk_is_read_in_one_go(
    disk: Stage, monkeypatch: pytest.MonkeyPatch, sub_type: int
) -> None:
    subscription = on_disk_with_holes(disk, 4 * SCATTERED_MAX)
    performed: list[None] = []
    perform = disk.engine.perform

    async def counted(work: Any) -> Any:
        performed.append(None)
        return await perform(work)

    monkeypatch.setattr(disk.engine, "perform", counted)
    consumer = disk.consumer(subscription, sub_type, permits=100)
    assert got(consumer) == [str(number) for number in range(1, 4 * SCATTERED_MAX, 2)]
    assert len(performed) == 2


@pytest.mark.parametrize("damaged", [1, 3, 7])
def test_one_of_them_that_is_damaged_costs_no_other(disk: Stage, damaged: int) -> None:
    subscription = on_disk_with_holes(disk, 20)
    log = subscription.topic.log
    plan = log.plan_read(log.locate(damaged).position, entries_max=1)
    path = ledger_path(plan.ledger.ledger_id)
    content = disk.files.contents()[path]
    at = plan.start + 60
    disk.files.damage(path, content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    consumer = disk.consumer(subscription, SHARED, permits=100)
    assert got(consumer) == [str(number) for number in range(1, 20, 2) if number != damaged]
    assert list(subscription.topic.unreadable) == [(damaged, damaged + 1)]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_what_becomes_ready_between_them_while_they_are_read_goes_before_them(
    disk: Stage, sub_type: int
) -> None:
    subscription = on_disk_with_holes(disk, 20)
    cursor = subscription.cursor
    consumer = disk.consumer(subscription, sub_type, permits=0)
    cursor.delay(5, 6, disk.clock.wall_ms() + 9000)
    disk.engine.holds_reads = True
    disk.flow(consumer, 100)
    assert disk.engine.reads_held == 1
    cursor.due(None)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == [str(number) for number in range(1, 20, 2)]


def test_a_seek_while_they_are_read_drops_them(disk: Stage) -> None:
    subscription = on_disk_with_holes(disk, 20)
    disk.engine.holds_reads = True
    consumer = disk.consumer(subscription, SHARED, permits=3)
    subscription.seek(10, lambda error: None, by=consumer)
    disk.engine.holds_reads = False
    disk.turn()
    assert got(consumer) == ["10", "11", "12"]


def test_messages_that_become_due_in_no_order_leave_in_few_rounds(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=1000)
    due_ms = stage.clock.wall_ms() + 5000
    dues = [due_ms + number * 7 % 40 for number in range(40)]
    stage.publish(
        stage.producer(topic),
        *(message(number, deliver_at_time=due) for number, due in enumerate(dues)),
    )
    runs: list[None] = []
    run = consumer.subscription.read_loop._run
    monkeypatch.setattr(consumer.subscription.read_loop, "_run", lambda: (runs.append(None), run()))
    assert got(consumer) == []
    stage.clock.advance(5.02)  # half of them
    stage.broker._tick()
    stage.turn()
    assert sorted(map(int, got(consumer))) == [
        n for n, due in enumerate(dues) if due <= due_ms + 20
    ]
    assert len(runs) <= 4
