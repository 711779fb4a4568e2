"""A topic's sequence ids through restarts: a resend is known by the entries themselves."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from stage.frames import batch, chunk, marker, message
from stage.heard import answers
from stage.stage import TOPIC, Stage

from milepost.broker.broker import Broker
from milepost.broker.operations import topic_lifecycle
from milepost.broker.topic.dedup import Dedup
from milepost.broker.topic.topic import Topic
from milepost.errors import PersistenceError
from milepost.positions.names import TopicName

MakeStage = Callable[..., Stage]


def resent(stage: Stage, *frames: bytes, name: str = "p") -> list[str]:
    """What the answers are when a producer sends these."""
    producer = stage.producer(stage.topic(), name)
    stage.publish(producer, *frames)
    return answers(producer.peer)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_what_is_stored_is_known_after_a_restart(make_stage: MakeStage, checkpoint: bool) -> None:
    stage = make_stage(deduplication=True)
    assert resent(stage, message(0), message(5), batch(6, 3, highest=8)) == [
        "0 at 1:0",
        "5 at 1:1",
        "6 at 1:2",
    ]
    stage = stage.restarted(checkpoint=checkpoint)
    assert stage.topic().last_sequence_id("p") == 8
    assert resent(stage, message(5), batch(6, 3, highest=8), message(8), message(9)) == [
        "5 at -1:-1",
        "6 at -1:-1",
        "8 at -1:-1",
        "9 at 1:3",
    ]


def test_snapshot_and_entries_since_are_put_together(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True, ledger_entries_max=2)
    resent(stage, message(0, producer="q"), name="q")
    for sequence_id in range(3):
        resent(stage, message(sequence_id))
    stage.checkpoint()
    for sequence_id in range(3, 6):
        resent(stage, message(sequence_id))
    stage = stage.restarted()
    topic = stage.topic()
    assert [topic.last_sequence_id(name) for name in ("p", "q", "r")] == [5, 0, -1]
    assert len(topic.log.ledgers) > 2


@pytest.mark.parametrize("operation", ["truncate", "trim", "trim after a checkpoint"])
def test_what_is_trimmed_is_known_after_a_restart(make_stage: MakeStage, operation: str) -> None:
    """No checkpoint has seen it, and no entry can say it any more."""
    stage = make_stage(deduplication=True, ledger_entries_max=2)
    resent(stage, message(0), message(1))
    resent(stage, message(7, producer="q"), name="q")
    resent(stage, *map(message, range(2, 5)))
    topic = stage.topic()
    if operation == "truncate":
        stage.run(topic_lifecycle.truncate(stage.broker, topic))
    else:
        if operation == "trim after a checkpoint":
            stage.checkpoint()
        records = stage.records
        stage.run(topic_lifecycle.trim(stage.broker, topic))
        assert stage.records - records == (operation == "trim")
    assert topic.log.first_index > 1
    stage = stage.restarted()
    topic = stage.topic()
    assert [topic.last_sequence_id(name) for name in ("p", "q")] == [4, 7]
    assert resent(stage, message(1), message(4)) == ["1 at -1:-1", "4 at -1:-1"]


@pytest.mark.parametrize("operation", [topic_lifecycle.truncate, topic_lifecycle.trim])
def test_nothing_is_trimmed_whose_sequence_ids_the_disk_refuses(
    make_stage: MakeStage, operation: Callable[[Broker, Topic], Coroutine[Any, Any, Any]]
) -> None:
    stage = make_stage(deduplication=True, ledger_entries_max=2)
    for sequence_id in range(5):
        resent(stage, message(sequence_id))
    topic = stage.topic()
    stage.files.faults.fail("sync", forever=True, under="journal", error=errno.ENOSPC)
    with pytest.raises(PersistenceError):
        stage.run(operation(stage.broker, topic))
    stage.files.faults.heal()
    assert topic.log.first_index == 0
    assert stage.restarted().topic().last_sequence_id("p") == 4


def test_markers_have_no_sequence_ids(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True)
    assert resent(stage, message(3), marker(0), marker(9)) == ["3 at 1:0", "0 at 1:1", "9 at 1:2"]
    assert stage.restarted().topic().last_sequence_id("p") == 3


def test_a_chunked_message_goes_on_where_it_was(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True)
    resent(stage, chunk(0, 0, 3), chunk(0, 1, 3))
    stage = stage.restarted()
    assert stage.topic().last_sequence_id("p") == -1
    assert resent(stage, chunk(0, 2, 3)) == ["0 at 1:2"]
    stage = stage.restarted()
    assert stage.topic().last_sequence_id("p") == 0
    again = resent(stage, *[chunk(0, number, 3) for number in range(3)])
    assert len(again) == 3
    assert stage.topic().log.end_index == 3


def test_what_was_stored_before_it_began_means_nothing(make_stage: MakeStage) -> None:
    stage = make_stage()
    resent(stage, message(7))
    stage._made_with["deduplication"] = True
    stage = stage.restarted()
    assert stage.topic().last_sequence_id("p") == -1
    assert resent(stage, message(0)) == ["0 at 1:1"]
    # Where it began is durable at once, also without a checkpoint.
    stage = stage.restarted()
    assert stage.topic().last_sequence_id("p") == 0


def test_a_checkpoint_during_the_reading_keeps_only_what_was_read(make_stage: MakeStage) -> None:
    """A snapshot that spoke of entries not yet read would forget their sequence ids for good."""
    stage = make_stage(deduplication=True, ledger_entries_max=1, tail_size=0)
    for sequence_id in range(3):
        resent(stage, message(sequence_id))
    stage.store.checkpoint()
    stage = stage.restarted()
    row = stage.store.catalog.topic(TOPIC)
    (state,) = stage.store.catalog.states(row.topic_id)
    begun = stage.store.catalog.snapshot(state.state_id)
    stage.store.catalog.put_snapshot(state.state_id, begun._replace(data=Dedup().snapshot(0)))
    stage.engine.holds_reads = True
    opening = stage.loop.begin(stage.broker.topic(TopicName.parse(TOPIC)))
    stage.turn()
    for _ in range(4):  # mileposts of the last ledger and of the first, and one entry of three
        assert stage.engine.release_read()
        stage.turn()
    stage.store.mark_dirty(state.state_id)
    stage.store.checkpoint()
    dedup, end_index = Dedup.restore(stage.store.catalog.snapshot(state.state_id).data, 0)
    assert (dedup.last_sequence_id("p"), end_index) == (0, 1)
    stage.engine.holds_reads = False
    stage.turn()
    assert opening.result().last_sequence_id("p") == 2
    assert stage.restarted().topic().last_sequence_id("p") == 2


# ── producers that are gone for long ──────────────────────────────────────────────────────────────

HOUR_S = 3600.0


@pytest.fixture
def left(make_stage: MakeStage) -> Stage:
    """A topic whose producer `p` has stored the ids 7 and 8, and has gone."""
    stage = make_stage(deduplication=True)
    assert sent(stage, 7, 8) == ["7 at 1:0", "8 at 1:1"]
    leave(stage)
    stage.checkpoint()
    return stage


def sent(stage: Stage, *sequence_ids: int, name: str = "p") -> list[str]:
    """The answers to a producer that connects, if it is not there, and sends these."""
    topic = stage.topic()
    producer = topic.producers.get(name) or stage.producer(topic, name)
    stage.publish(producer, *[message(number, producer=name) for number in sequence_ids])
    return answers(producer.peer)


def leave(stage: Stage, name: str = "p") -> None:
    producer = stage.topic().producers[name]
    stage.loop.do(lambda: stage.broker.admissions.remove(producer))
    stage.turn()


def keep_house(stage: Stage, after_s: float = 0) -> None:
    stage.clock.advance(after_s)
    stage.loop.do(stage.broker.housekeeping.forget_producers)
    stage.turn()


def last_ids(stage: Stage, *names: str) -> list[int]:
    return [stage.topic().last_sequence_id(name) for name in names]


def test_they_are_forgotten_after_six_hours_for_good(left: Stage) -> None:
    keep_house(left, 6 * HOUR_S - 1)
    assert last_ids(left, "p") == [8]
    keep_house(left, 1)
    assert last_ids(left, "p") == [-1]
    assert left.broker.counters.producers_forgotten == 1
    assert last_ids(left.restarted(), "p") == [-1]


def test_how_long_is_a_setting(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True, deduplication_inactive_s=60)
    sent(stage, 7)
    leave(stage)
    keep_house(stage, 59)
    assert last_ids(stage, "p") == [7]
    keep_house(stage, 1)
    assert last_ids(stage, "p") == [-1]


def test_the_broker_looks_by_itself(make_stage: MakeStage) -> None:
    """Three times in as long as a producer has to be gone."""
    stage = make_stage(deduplication=True, deduplication_inactive_s=60)
    house = stage.broker.housekeeping
    stage.loop.do(house.start)
    timer = house._timers[house.forget_producers]
    assert timer.when() - stage.loop.time() == pytest.approx(20, abs=1)


def test_a_connected_producer_is_never_forgotten(left: Stage) -> None:
    sent(left, 3, name="stays")
    sent(left)
    keep_house(left, 100 * HOUR_S)
    assert last_ids(left, "p", "stays") == [8, 3]
    assert last_ids(left.restarted(), "p", "stays") == [8, 3]


def test_a_clock_that_is_set_forward_forgets_no_producer(left: Stage) -> None:
    left.clock.jump(int(1000 * HOUR_S * 1000))
    keep_house(left)
    assert last_ids(left, "p") == [8]


def test_a_restart_begins_the_time_anew(left: Stage) -> None:
    left.clock.advance(5 * HOUR_S)
    again = left.restarted()
    assert last_ids(again, "p") == [8]
    keep_house(again, 6 * HOUR_S - 1)
    assert last_ids(again, "p") == [8], "it could not come while the broker was away"
    keep_house(again, 1)
    assert last_ids(again, "p") == [-1]


def test_what_a_forgotten_producer_sends_is_stored_also_after_a_crash(left: Stage) -> None:
    """With the old ids back after the crash, 2 would pass for a duplicate, and be lost."""
    keep_house(left, 6 * HOUR_S)
    assert sent(left, 0, 1) == ["0 at 2:0", "1 at 2:1"]
    again = left.restarted()
    assert last_ids(again, "p") == [1]
    assert sent(again, 0, 1, 2) == ["0 at -1:-1", "1 at -1:-1", "2 at 2:2"]


def test_ids_count_until_their_forgetting_is_durable(left: Stage) -> None:
    left.engine.holds_catalog = True
    keep_house(left, 6 * HOUR_S)
    assert last_ids(left, "p") == [8]
    assert left.broker.counters.producers_forgotten == 0
    again = left.restarted()
    assert last_ids(again, "p") == [8]
    assert sent(again, 8, 9) == ["8 at -1:-1", "9 at 2:0"]


def test_a_producer_that_comes_back_in_the_last_moment_is_known(left: Stage) -> None:
    left.engine.holds_catalog = True
    keep_house(left, 6 * HOUR_S)
    assert sent(left) == []
    left.engine.holds_catalog = False
    left.turn()
    assert left.broker.counters.producers_forgotten == 0
    assert sent(left, 8, 9) == ["8 at -1:-1", "9 at 2:0"]
    assert last_ids(left.restarted(), "p") == [9]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_topic_that_is_unloaded_meanwhile_keeps_its_producers(
    left: Stage, checkpoint: bool
) -> None:
    left.engine.holds_catalog = True
    keep_house(left, 6 * HOUR_S)
    left.run(topic_lifecycle.close_topic(left.broker, left.topic()))
    left.engine.holds_catalog = False
    left.turn()
    assert left.broker.counters.producers_forgotten == 0
    assert last_ids(left, "p") == [8]
    assert len(sent(left, 9)) == 1
    assert last_ids(left.restarted(checkpoint=checkpoint), "p") == [9]


def test_a_checkpoint_that_fails_forgets_no_producer(left: Stage) -> None:
    sent(left, 0, name="other")
    left.files.faults.fail("sync", error=errno.ENOSPC, forever=True, under="ledgers")
    keep_house(left, 6 * HOUR_S)
    assert last_ids(left, "p") == [8]
    left.files.faults.heal()
    left.checkpoint()
    assert last_ids(left.restarted(), "p") == [8]


def test_after_a_checkpoint_that_failed_it_is_tried_again(left: Stage) -> None:
    sent(left, 0, name="other")
    left.files.faults.fail("sync", error=errno.ENOSPC, forever=True, under="ledgers")
    keep_house(left, 6 * HOUR_S)
    left.files.faults.heal()
    keep_house(left)
    assert last_ids(left, "p", "other") == [-1, 0]
