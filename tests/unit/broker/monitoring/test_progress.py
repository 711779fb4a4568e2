"""Progress: the numbers of one moment, and whose they are."""

from __future__ import annotations

import pytest
from stage.frames import batch, chunk, message
from stage.stage import Stage

from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.monitoring.progress import id_text, progress_of, sample
from milepost.broker.monitoring.verdicts import Verdict
from milepost.broker.subscription.subscription import Subscription
from milepost.wire.events import WireId


def filled(stage: Stage) -> Subscription:
    """0, the batch 1 to 5, 6; a second apart."""
    topic = stage.topic()
    found = stage.subscription(topic)
    producer = stage.producer(topic)
    for frame in (message(0), batch(1, 5), message(2)):
        stage.publish(producer, frame)
        stage.clock.advance(1)
    return found


def test_the_four_add_up_and_the_rest_is_said(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, SHARED, name="c-1", permits=3)
    stage.ack(consumer, WireId(1, 0))
    found = progress_of(subscription, stage.clock.wall_ms())
    assert (found.ready, found.inflight, found.delayed, found.acked) == (1, 5, 0, 1)
    assert (found.first, found.end, found.backlog, found.mark_delete_index) == (0, 7, 6, 0)
    assert (found.type, found.is_durable, found.epoch, found.partition) == ("Shared", True, 0, -1)
    assert found.behind_ms == 2000  # the batch came two seconds ago
    (one,) = found.consumers
    assert (one.name, one.inflight, one.permits, one.messages_acked) == ("c-1", 5, -3, 1)


def test_a_hole_names_who_has_it(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, SHARED, name="c-1", permits=9)
    stage.ack(consumer, WireId(1, 0), WireId(1, 2), WireId(1, 1, ack_set=(0b100,)))
    found = progress_of(subscription, stage.clock.wall_ms())
    assert found.holes == 1
    hole = found.hole
    assert hole is not None
    assert (hole.index, hole.end, hole.id) == (3, 4, "1:1:-1:2")
    assert (hole.holder, hole.delivery_count, hole.age_ms) == ("c-1", 1, 2000)
    subscription.redeliver(consumer, [WireId(1, 1)], -1)
    stage.turn()
    found = progress_of(subscription, stage.clock.wall_ms())
    assert found.hole is not None
    assert found.hole.delivery_count == 2


def test_what_is_caught_up_is_not_behind_however_idle(stage: Stage) -> None:
    subscription = filled(stage)
    subscription.cursor.ack([(0, 7)])
    stage.clock.advance(10_000)
    found = progress_of(subscription, stage.clock.wall_ms())
    assert (found.behind_ms, found.holes, found.hole, found.backlog) == (0, 0, None, 0)
    assert (found.verdict, found.type) == (Verdict.CAUGHT_UP, "")


def test_a_clock_that_went_back_makes_nothing_negative(stage: Stage) -> None:
    subscription = filled(stage)
    assert progress_of(subscription, 0).behind_ms == 0


def test_the_tick_takes_samples_and_a_seek_forgets_them(stage: Stage) -> None:
    subscription = filled(stage)
    consumer = stage.consumer(subscription, permits=9)
    stage.tick(1)
    stage.ack(consumer, WireId(1, 1), cumulative=True)
    stage.tick(6)
    found = progress_of(subscription, stage.clock.wall_ms())
    assert 0.9 < found.rate_acked <= 1.2
    assert (found.verdict, found.rate_in) == (Verdict.CONSUMING, 0.0)
    assert found.drained_in_s is not None
    stage.tick(70)
    assert progress_of(subscription, stage.clock.wall_ms()).verdict is Verdict.STALLED
    stage.seek(subscription, 0)
    found = progress_of(subscription, stage.clock.wall_ms())
    assert (found.verdict, found.rate_acked) == (Verdict.NO_CONSUMER, 0.0)


def test_it_is_sampled_no_more_often_than_that(stage: Stage) -> None:
    subscription = filled(stage)
    for now_ms in (1, 2, 3):
        sample(subscription, now_ms)
    assert subscription.samples.recent().seconds == 0


def test_an_index_has_one_id(stage: Stage) -> None:
    topic = filled(stage).topic
    assert [id_text(topic, index) for index in (0, 1, 5, 6)] == [
        "1:0:-1",
        "1:1:-1:0",
        "1:1:-1:4",
        "1:2:-1",
    ]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED])
def test_the_four_add_up_in_indexes_whatever_becomes_of_chunks(stage: Stage, sub_type: int) -> None:
    """A message has one index, a chunked message one for each chunk: begun, whole, delivered, given back,
    acked, sought behind, given up by its producer, and after a restart."""
    topic = stage.topic()
    subscription = stage.subscription(topic)
    one, other = stage.producer(topic, "p"), stage.producer(topic, "q")

    def counted() -> tuple[int, int, int]:
        found = progress_of(subscription, stage.clock.wall_ms())
        assert found.acked + found.inflight + found.ready + found.delayed == found.end - found.first
        assert found.end - found.first == topic.log.end_index - topic.log.first_index
        assert found.backlog == found.inflight + found.ready + found.delayed
        return found.acked, found.inflight, found.ready

    assert counted() == (0, 0, 0)
    stage.publish(one, chunk(0, 0, 3), chunk(0, 1, 3))
    assert counted() == (0, 0, 2)
    consumer = stage.consumer(subscription, sub_type, permits=100)
    assert counted() == (0, 0, 2)  # begun: nothing of it goes out
    stage.publish(other, message(5, producer="q"))
    stage.publish(one, chunk(0, 2, 3))
    assert counted() == (0, 4, 0)
    subscription.redeliver(consumer, [], -1)
    stage.flow(consumer, 100)
    assert counted() == (0, 4, 0)
    ids = [WireId(*topic.log.locate(index).position) for index in range(4)]
    whole = ids[3]._replace(first_chunk=ids[0][:2])
    stage.ack(consumer, whole, *(ids[:2] if sub_type in (SHARED, KEY_SHARED) else ()))
    acked, inflight, ready = counted()
    assert acked + inflight + ready == 4
    stage.ack(consumer, *ids)
    assert counted() == (4, 0, 0)
    subscription.remove_consumer(consumer)
    stage.seek(subscription, 2)  # between its chunks
    acked, inflight, ready = counted()
    assert acked + ready == 4
    stage.publish(one, chunk(9, 0, 2))
    stage.publish(one, chunk(10, 0, 2, uuid="again"))
    counted()
    stage.consumer(subscription, sub_type, permits=100)
    counted()
    subscription.skip(topic.log.end_index)
    stage.turn()
    assert counted() == (topic.log.end_index, 0, 0)
    stage = stage.restarted()
    topic = stage.topic()
    subscription = topic.subscriptions["s"]
    assert counted() == (topic.log.end_index, 0, 0)
