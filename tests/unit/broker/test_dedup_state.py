"""A topic's sequence ids through restarts: a resend is known by the entries themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import batch, chunk, marker, message
from stage.heard import answers
from stage.stage import TOPIC, Stage

from milepost.broker.dedup import Dedup
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
    assert stage.engine.release_read()  # one entry of three
    stage.turn()
    stage.store.mark_dirty(state.state_id)
    stage.store.checkpoint()
    dedup, end_index = Dedup.restore(stage.store.catalog.snapshot(state.state_id).data, 0)
    assert (dedup.last_sequence_id("p"), end_index) == (0, 1)
    stage.engine.holds_reads = False
    stage.turn()
    assert opening.result().last_sequence_id("p") == 2
    assert stage.restarted().topic().last_sequence_id("p") == 2
