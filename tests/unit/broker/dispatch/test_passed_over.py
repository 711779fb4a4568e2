"""What is passed over: nobody else waits for it, looks at it again, or runs too far ahead of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from stage.frames import batch, chunk, message
from stage.heard import got
from stage.stage import Stage

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import KEY_SHARED, SHARED
from milepost.broker.dispatch.passed_over import CALLED_MAX, PassedOver
from milepost.broker.subscription.subscription import Subscription
from milepost.storage.ledgers.entry import Entry
from milepost.wire.events import WireId

MakeStage = Callable[..., Stage]

HALVES = {"a": [(0, 32767)], "b": [(32768, 65535)]}


class Looks:
    """Counts the entries that a dispatcher is asked about."""

    def __init__(self, subscription: Subscription) -> None:
        assert subscription.dispatcher is not None
        self.count = 0
        self._choose = subscription.dispatcher.choose
        subscription.dispatcher.choose = self._look  # type: ignore[method-assign]

    def _look(self, entry: Entry) -> Consumer | None:
        self.count += 1
        return self._choose(entry)

    def taken(self) -> int:
        count, self.count = self.count, 0
        return count


def halved(stage: Stage, **permits: int) -> tuple[Subscription, Consumer, Consumer]:
    """A Key_Shared subscription of two consumers, half of the slots each."""
    subscription = stage.subscription(stage.topic())
    one, two = (
        stage.consumer(
            subscription, KEY_SHARED, name=name, key_ranges=ranges, permits=permits.get(name, 0)
        )
        for name, ranges in HALVES.items()
    )
    return subscription, one, two


def send(stage: Stage, *frames: bytes) -> None:
    topic = stage.topic()
    stage.publish(topic.producers.get("p") or stage.producer(topic), *frames)


def whose(stage: Stage, count: int = 40) -> tuple[str, str]:
    """A key of the first consumer, and one of the second."""
    subscription, one, two = halved(stage, a=count, b=count)
    send(stage, *[message(number, partition_key=f"k{number}") for number in range(count)])
    mine, theirs = got(one)[0], got(two)[0]
    subscription.remove_consumer(one)
    subscription.remove_consumer(two)
    stage.seek(subscription, count)
    stage.turn()
    return f"k{mine}", f"k{theirs}"


@pytest.mark.parametrize("stuck", [100, 1000])
def test_a_flow_looks_at_what_it_can_take_however_many_wait_for_another(
    make_stage: MakeStage, stuck: int
) -> None:
    """One consumer is stuck, and every second message is its own."""
    stage = make_stage()
    mine, theirs = whose(stage)
    subscription, _, second = halved(stage)
    looks = Looks(subscription)
    keys = (mine, theirs)
    send(stage, *[message(n, partition_key=keys[n % 2]) for n in range(2 * stuck)])
    stage.flow(second, stuck)
    assert len(got(second)) == stuck
    assert looks.taken() <= 2 * stuck
    assert subscription.cursor.aside_count == pytest.approx(stuck, abs=1)
    send(stage, *[message(n, partition_key=theirs) for n in range(2 * stuck, 2 * stuck + 50)])
    for _ in range(10):
        stage.flow(second, 5)
        assert len(got(second)) == 5
        assert looks.taken() <= 6


def test_a_step_moves_as_many_ranges_of_the_cursor_however_many_wait(stage: Stage) -> None:
    mine, theirs = whose(stage)
    subscription, first, second = halved(stage)
    send(stage, *[message(n, partition_key=(mine, theirs)[n % 2]) for n in range(600)])
    stage.flow(second, 1000)
    assert len(got(second)) == 300
    looks = Looks(subscription)
    for expected in range(5):
        stage.flow(first, 1)
        assert got(first) == [str(2 * expected)]
        assert looks.taken() <= 2


def test_what_waits_goes_in_order_when_there_is_room(stage: Stage) -> None:
    mine, theirs = whose(stage)
    _, first, second = halved(stage, b=100)
    send(stage, *[message(n, partition_key=(mine, theirs)[n % 2]) for n in range(20)])
    assert got(second) == [str(n) for n in range(1, 20, 2)]
    stage.flow(first, 3)
    assert got(first) == ["0", "2", "4"]
    send(stage, message(20, partition_key=mine))
    stage.flow(first, 100)
    assert got(first) == ["6", "8", "10", "12", "14", "16", "18", "20"]


def test_a_released_message_goes_before_those_of_its_key_that_wait(stage: Stage) -> None:
    mine, _ = whose(stage)
    subscription, first, second = halved(stage, a=1, b=100)
    send(stage, *[message(n, partition_key=mine) for n in range(3)])
    assert got(first) == ["0"]
    assert subscription.cursor.aside_count == 2
    last = stage.topic().log.locate(stage.topic().log.end_index - 3).position
    subscription.redeliver(first, [WireId(*last)], -1)
    stage.turn()
    stage.flow(first, 10)
    assert got(first) == ["0", "1", "2"]
    assert got(second) == []


def test_a_batch_that_waits_goes_whole(stage: Stage) -> None:
    mine, theirs = whose(stage)
    subscription, first, second = halved(stage)
    send(stage, batch(0, 4, partition_key=mine), batch(4, 4, partition_key=theirs))
    stage.flow(first, 1)
    stage.flow(second, 1)
    assert subscription.cursor.counts().inflight == 8


def test_what_waits_and_is_acked_by_an_operator_is_never_sent(stage: Stage) -> None:
    mine, _ = whose(stage)
    subscription, first, _ = halved(stage, b=100)
    send(stage, *[message(n, partition_key=mine) for n in range(200)])
    assert subscription.cursor.aside_count == 200
    subscription.skip(subscription.cursor.end - 1)
    stage.turn()
    stage.flow(first, 100)
    assert got(first) == ["199"]


def test_whoever_comes_or_leaves_changes_who_is_waited_for(stage: Stage) -> None:
    mine, _ = whose(stage)
    subscription, first, second = halved(stage, b=100)
    send(stage, *[message(n, partition_key=mine) for n in range(5)])
    assert subscription.cursor.aside_count == 5
    subscription.remove_consumer(first)
    subscription.remove_consumer(second)
    assert subscription.cursor.aside_count == 0
    third = stage.consumer(subscription, KEY_SHARED, name="c", permits=100)
    assert got(third) == ["0", "1", "2", "3", "4"]


def test_a_seek_forgets_what_waits(stage: Stage) -> None:
    mine, _ = whose(stage)
    subscription, *_ = halved(stage, b=100)
    send(stage, *[message(n, partition_key=mine) for n in range(5)])
    stage.seek(subscription, subscription.cursor.end - 1)
    assert subscription.cursor.aside_count == 0
    third = stage.consumer(subscription, KEY_SHARED, name="c", permits=100)
    assert got(third) == ["4"]


def test_nobody_runs_further_ahead_than_the_limit(make_stage: MakeStage) -> None:
    """As upstream: so many for each consumer, and so many for all of them; then all wait."""
    stage = make_stage(key_shared_look_ahead_per_consumer=100)
    mine, theirs = whose(stage)
    subscription, first, second = halved(stage, b=100_000)
    send(stage, *[message(n, partition_key=(mine, theirs)[n % 2]) for n in range(2000)])
    aside = subscription.cursor.aside_count
    assert 200 <= aside < 300
    ahead = len(got(second))
    assert ahead == pytest.approx(aside, abs=1)
    looks = Looks(subscription)
    stage.flow(second, 1)
    assert (got(second), looks.taken()) == ([], 0)
    stage.flow(first, 100_000)
    assert len(got(first)) == 1000
    assert len(got(second)) == 1000 - ahead
    assert subscription.cursor.aside_count == 0


def test_the_limit_can_be_off_or_be_that_of_the_subscription(make_stage: MakeStage) -> None:
    for limits, least, most in (((0, 0), 1000, 1000), ((1000, 150), 150, 250)):
        stage = make_stage(
            key_shared_look_ahead_per_consumer=limits[0],
            key_shared_look_ahead_per_subscription=limits[1],
        )
        mine, theirs = whose(stage)
        subscription, *_ = halved(stage, b=100_000)
        send(stage, *[message(n, partition_key=(mine, theirs)[n % 2]) for n in range(2000)])
        assert least <= subscription.cursor.aside_count <= most


def test_chunks_that_wait_for_a_consumer_are_not_looked_at_again(stage: Stage) -> None:
    subscription = stage.subscription(stage.topic())
    stage.consumer(subscription, SHARED, name="a", permits=1)
    send(stage, *[chunk(0, number, 100) for number in range(100)])
    second = stage.consumer(subscription, SHARED, name="b")
    looks = Looks(subscription)
    send(stage, *[message(n) for n in range(1, 20)])
    for expected in range(1, 10):
        stage.flow(second, 1)
        assert got(second) == [str(expected)]
        if expected > 1:
            assert looks.taken() <= 2
        looks.taken()


def test_lines_are_taken_from_in_order_and_in_parts() -> None:
    passed_over = PassedOver()
    for first in range(2 * CALLED_MAX, 0, -1):
        passed_over.wait_for(1, first, first + 1)
    assert passed_over.first_index(1) == 1
    taken = passed_over.take(1, room=10 * CALLED_MAX)
    assert taken == [(first, first + 1) for first in range(1, CALLED_MAX + 1)]
    assert passed_over.take(1, room=1) == [(CALLED_MAX + 1, CALLED_MAX + 2)]
    passed_over.clear()
    assert not passed_over


def test_what_waits_for_a_slot_goes_into_the_line_of_its_owner_in_order() -> None:
    """Whichever of the two is longer."""
    passed_over = PassedOver()
    for slot, count in ((1, 3), (2, 40), (3, 1)):
        for number in range(count):
            passed_over.wait_for_slot(slot, 100 * number + slot, 100 * number + slot + 1)
    for slot in (1, 2, 3):
        passed_over.freed(slot, 7)
    passed_over.freed(1, 7)
    taken = passed_over.take(7, room=100)
    assert [first for first, _ in taken] == sorted([*range(1, 301, 100), *range(2, 4002, 100), 3])


def test_a_slot_that_is_freed_costs_what_waits_for_it() -> None:
    """Not what is in the line of its owner: hundreds may be freed at once."""

    def freed_s(line: int) -> float:
        passed_over = PassedOver()
        for number in range(line):
            passed_over.wait_for(7, 10 * number, 10 * number + 1)
        for slot in range(500):
            passed_over.wait_for_slot(slot, 20 * slot + 5, 20 * slot + 6)
        began = time.thread_time()
        for slot in range(500):
            passed_over.freed(slot, 7)
        return time.thread_time() - began

    assert min(freed_s(20_000) for _ in range(3)) < 30 * max(freed_s(20) for _ in range(3))
