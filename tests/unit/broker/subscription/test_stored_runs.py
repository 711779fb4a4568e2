"""Entries as they are stored: the same messages, permits and counts as in single frames, for who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, chunk, marker, message
from stage.heard import deliveries, got, shown
from stage.stage import Stage
from stage.talk import flow, subscribe

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.limits.token_bucket import Throttle
from milepost.broker.messages.compacted import Compacted
from milepost.broker.policies.effective import Rate
from milepost.broker.subscription import read_loop
from milepost.positions.ranges import IndexRanges
from milepost.storage.ledgers.entry import decode_entries
from milepost.storage.ledgers.ledger import ledger_path
from milepost.storage.ledgers.stored_run import RunLimits
from milepost.testing.damage import cut, flip_bit
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Ack, Delivery, WireId
from milepost.wire.extensions import EVERY_CHUNK, STORED_ENTRIES, extension

MakeStage = Callable[..., Stage]


@pytest.fixture(params=["memory", "disk"])
def made(request: pytest.FixtureRequest, make_stage: MakeStage) -> Stage:
    """Once with all that is stored in memory, once with nothing of it there."""
    return make_stage(tail_size=0 if request.param == "disk" else 1 << 20)


def filled(stage: Stage, *frames: bytes, durable: bool = True) -> Any:
    topic = stage.topic()
    subscription = stage.subscription(topic, durable=durable)
    stage.publish(stage.producer(topic), *frames)
    stage.checkpoint()
    return subscription


def unpacked(consumer: Consumer | Any) -> list[str]:
    """What a client makes of single frames and of runs."""
    return [text for one in deliveries(consumer) for text in texts(one)]


def texts(delivery: Delivery) -> list[str]:
    if not delivery.stored_entries:
        return shown(delivery)
    entries = decode_entries(delivery.entry, "the run")
    assert len(entries) == delivery.stored_entries
    assert entries[0].position == (delivery.ledger_id, delivery.entry_id)
    return [
        text
        for one in entries
        for text in shown(delivery._replace(entry=bytes(one.payload), stored_entries=0))
    ]


def numbers(first: int, end: int) -> list[str]:
    return [str(number) for number in range(first, end)]


def test_many_entries_are_one_frame(made: Stage) -> None:
    subscription = filled(made, *map(message, range(50)), batch(50, 3))
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    (run,) = deliveries(consumer)
    assert run.stored_entries == 51
    assert texts(run) == [*numbers(0, 50), "50.0", "50.1", "50.2"]
    assert (consumer.permits, consumer.unacked, consumer.messages_out) == (47, 53, 53)


def test_only_who_asked_gets_any(made: Stage) -> None:
    subscription = filled(made, *map(message, range(5)))
    consumer = made.consumer(subscription, permits=9)
    assert [one.stored_entries for one in deliveries(consumer)] == [0] * 5


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_consumers_that_share_get_single_frames(made: Stage, sub_type: int) -> None:
    subscription = filled(made, *map(message, range(5)))
    consumer = made.consumer(subscription, sub_type, permits=9, takes_runs=True)
    assert [one.stored_entries for one in deliveries(consumer)] == [0] * 5


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_counts_are_those_of_single_frames(made: Stage, sub_type: int) -> None:
    subscription = filled(made, *map(message, range(20)), batch(20, 4))
    counts = []
    for takes_runs in (False, True):
        consumer = made.consumer(subscription, sub_type, permits=30, takes_runs=takes_runs)
        assert unpacked(consumer) == [*numbers(0, 20), "20.0", "20.1", "20.2", "20.3"]
        counts.append(
            (consumer.messages_out, consumer.bytes_out, consumer.permits, subscription.unacked)
        )
        subscription.remove_consumer(consumer)
        made.turn()
    assert counts[0] == counts[1]


def test_permits_are_messages(made: Stage) -> None:
    subscription = filled(made, *map(message, range(10)))
    consumer = made.consumer(subscription, permits=4, takes_runs=True)
    assert unpacked(consumer) == numbers(0, 4)
    assert consumer.permits == 0
    made.flow(consumer, 1)
    assert unpacked(consumer) == ["4"]
    made.flow(consumer, 100)
    assert unpacked(consumer) == numbers(5, 10)


def test_a_batch_that_has_no_room_goes_out_whole_behind_the_run(made: Stage) -> None:
    subscription = filled(made, message(0), message(1), batch(2, 5), message(7))
    consumer = made.consumer(subscription, permits=3, takes_runs=True)
    assert unpacked(consumer) == ["0", "1", *(f"2.{number}" for number in range(5))]
    assert consumer.permits == -4


def test_what_is_special_is_in_no_run(made: Stage) -> None:
    frames = [
        *map(message, range(3)),
        marker(3),
        *map(message, range(4, 7)),
        message(7, deliver_at_time=5),
        *(chunk(8, number, 2) for number in range(2)),
        *map(message, range(9, 12)),
    ]
    subscription = filled(made, *frames)
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    found = deliveries(consumer)
    assert [text for one in found for text in texts(one)] == [
        *numbers(0, 3), *numbers(4, 7), "7", "8/0", "8/1", *numbers(9, 12)
    ]  # fmt: skip
    runs = [text for one in found if one.stored_entries for text in texts(one)]
    assert runs[:3] == numbers(0, 3)
    assert not {"7", "8/0", "8/1"} & {*runs}


def test_what_is_acked_is_not_sent(made: Stage) -> None:
    subscription = filled(made, *map(message, range(6)), batch(6, 3), message(9))
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    (run,) = deliveries(consumer)
    ledger = run.ledger_id
    half = WireId(ledger, 6, ack_set=(0b101,))
    made.ack(consumer, WireId(ledger, 2), half)
    subscription.redeliver(consumer, [], -1)
    made.flow(consumer, 100)
    assert unpacked(consumer) == ["0", "1", "3", "4", "5", "6.0", "6.2", "9"]


def test_readers_of_compacted_topics_get_what_is_left(made: Stage) -> None:
    subscription = filled(made, *map(message, range(8)))
    subscription.topic.compacted = Compacted(6, IndexRanges([(1, 3), (5, 6)]))
    subscription.reads_compacted = True
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    found = deliveries(consumer)
    assert [text for one in found for text in texts(one)] == ["1", "2", "5", "6", "7"]
    assert all(not one.stored_entries for one in found)


def test_rates_hold(made: Stage) -> None:
    subscription = filled(made, *map(message, range(10)))
    throttle = Throttle(Rate(4, 0), made.clock.monotonic)
    subscription.throttles = [throttle]
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    assert unpacked(consumer) == numbers(0, 4)
    made.clock.advance(1.0)
    subscription.read_loop.wake()
    made.turn()
    assert unpacked(consumer) == numbers(4, 8)


def test_a_run_ends_with_its_limits(made: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_loop, "RUN_LIMITS", RunLimits(entries_max=4, size_max=10_000))
    subscription = filled(made, *map(message, range(10)), message(10, bytes(9_990)), message(11))
    consumer = made.consumer(subscription, permits=100, takes_runs=True)
    found = deliveries(consumer)
    assert [one.stored_entries for one in found] == [4, 4, 2, 0, 0]
    assert [text for one in found[:3] for text in texts(one)] == numbers(0, 10)


def test_a_ledger_is_the_end_of_a_run(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=5)
    topic = stage.topic()
    subscription = stage.subscription(topic)
    producer = stage.producer(topic)
    for number in range(12):
        stage.publish(producer, message(number))
    consumer = stage.consumer(subscription, permits=100, takes_runs=True)
    found = deliveries(consumer)
    assert [one.stored_entries for one in found] == [5, 5, 2]
    assert len({one.ledger_id for one in found}) == 3
    assert [text for one in found for text in texts(one)] == numbers(0, 12)


def test_a_read_that_a_seek_overtook_is_dropped(make_stage: MakeStage) -> None:
    stage = make_stage(tail_size=0)
    subscription = filled(stage, *map(message, range(8)))
    stage.engine.holds_reads = True
    consumer = stage.consumer(subscription, permits=6, epoch=0, takes_runs=True)
    assert stage.engine.reads_held == 1
    assert subscription.seek_in_place(consumer, 4, 1, lambda error: None) == []
    stage.flow(consumer, 10)
    stage.engine.holds_reads = False
    stage.turn()
    found = deliveries(consumer)
    assert [text for one in found for text in texts(one)] == numbers(4, 8)
    assert {one.consumer_epoch for one in found} == {1}


def test_a_file_that_ends_early_costs_what_is_lost(make_stage: MakeStage) -> None:
    stage = make_stage(tail_size=0)
    subscription = filled(stage, *map(message, range(8)))
    (ledger,) = subscription.topic.log.ledgers
    path = ledger_path(ledger.ledger_id)
    cut(stage.files, path, len(stage.files.contents()[path]) - 10)
    consumer = stage.consumer(subscription, permits=100, takes_runs=True)
    assert unpacked(consumer) == numbers(0, 7)


def test_damage_is_left_to_the_reader_who_compares_checksums(make_stage: MakeStage) -> None:
    """And who asks again without runs, which passes over the damaged entry alone."""
    stage = make_stage(tail_size=0)
    subscription = filled(stage, *map(message, range(8)))
    (ledger,) = subscription.topic.log.ledgers
    offset = ledger.offset_of(3, stage.files) + 60
    flip_bit(stage.files, ledger_path(ledger.ledger_id), offset * 8)
    consumer = stage.consumer(subscription, permits=100, takes_runs=True)
    (run,) = deliveries(consumer)
    assert run.stored_entries == 8
    subscription.remove_consumer(consumer)
    plain = stage.consumer(subscription, permits=100)
    assert got(plain) == ["0", "1", "2", "4", "5", "6", "7"]


def test_over_the_wire_it_is_asked_for_by_name(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), *map(message, range(5)))
    client = stage.client()
    asked = [extension(EVERY_CHUNK), extension(STORED_ENTRIES)]
    start = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    more = {"durable": False, "start_message_id": start}
    subscribe(stage, client, "with", consumer_id=1, metadata=asked, **more)
    subscribe(stage, client, "without", consumer_id=2, metadata=asked[:1], **more)
    flow(stage, client, 10, consumer_id=1)
    (run,) = deliveries(client)
    assert (run.stored_entries, texts(run)) == (5, numbers(0, 5))
    flow(stage, client, 10, consumer_id=2)
    assert [one.stored_entries for one in deliveries(client)] == [0] * 5


def test_a_broker_that_shows_no_indexes_sends_no_runs(make_stage: MakeStage) -> None:
    stage = make_stage(expose_broker_entry_metadata=False)
    subscription = filled(stage, *map(message, range(5)))
    consumer = stage.consumer(subscription, permits=9, takes_runs=True)
    assert [one.stored_entries for one in deliveries(consumer)] == [0] * 5


def test_what_was_released_comes_again_with_its_count(made: Stage) -> None:
    """On Failover nothing shows a count, and runs are as before: all of it, in order."""
    subscription = filled(made, *map(message, range(6)))
    consumer = made.consumer(subscription, FAILOVER, permits=100, takes_runs=True)
    assert unpacked(consumer) == numbers(0, 6)
    subscription.redeliver(consumer, [], -1)
    made.flow(consumer, 100)
    assert unpacked(consumer) == numbers(0, 6)
    ids = [WireId(subscription.topic.log.ledgers[0].ledger_id, 5)]
    answers: list[Any] = []
    subscription.ack(consumer, Ack(consumer.consumer_id, True, ids, 1), answers.append)
    made.turn()
    assert answers == [None]
    assert subscription.cursor.backlog == 0
