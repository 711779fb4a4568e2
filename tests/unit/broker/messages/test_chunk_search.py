"""Chunk search: what nobody in memory remembers is found in the log."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from stage.frames import chunk, message
from stage.heard import answers, got
from stage.stage import Stage

from milepost.broker.messages import chunk_search
from milepost.broker.messages.chunked import ChunkedMessages
from milepost.broker.topic.topic import Topic
from milepost.positions.ids import Position
from milepost.positions.transactions import TxnId
from milepost.storage.ledgers.entry import LAST_CHUNK
from milepost.storage.ledgers.heads import HEAD_SIZE
from milepost.storage.ledgers.log import Log
from milepost.storage.ledgers.paging import Disk, at_once
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import ChunkInfo

MakeStage = Callable[..., Stage]
Search = Callable[[Log, Position, Disk], Coroutine[Any, Any, Any]]


def none_ended(txn_id: TxnId) -> bool:
    return False


def found(search: Search, topic: Topic, position: Position) -> Any:
    return at_once(search(topic.log, position, topic.log.here))


def test_a_message_is_found_from_its_last_chunk(stage: Stage) -> None:
    """Across others' entries and ledgers, also when all chunks came before any was on disk."""
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.engine.holds_journal = True
    frames = [chunk(1, 0, 3), message(2), chunk(1, 1, 3), message(3), message(4), chunk(1, 2, 3)]
    for frame in frames[:2]:
        stage.publish(producer, frame)
    stage.publish(producer, *frames[2:])
    stage.engine.holds_journal = False
    stage.turn()
    last = topic.log.locate(5).position
    assert found(chunk_search.message_indexes, topic, last) == (0, 2, 5)
    for index in (0, 2, 5):
        assert found(chunk_search.first_chunk_index, topic, topic.log.locate(index).position) == 0


@pytest.mark.parametrize("ledger_entries_max", [1, 2, 1000])
def test_it_is_found_across_ledgers_and_a_restart(
    make_stage: MakeStage, ledger_entries_max: int
) -> None:
    stage = make_stage(ledger_entries_max=ledger_entries_max)
    producer = stage.producer(stage.topic())
    for frame in (chunk(1, 0, 3), message(2), chunk(1, 1, 3), chunk(1, 2, 3), chunk(4, 0, 2)):
        stage.publish(producer, frame)
    topic = stage.restarted().topic()
    assert topic.chunk_indexes(*topic.log.locate(3).position) == (0, 2, 3)
    assert topic.chunk_ranges(*topic.log.locate(3).position) == [(0, 1), (2, 4)]


def test_an_orphan_is_on_its_own(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), chunk(1, 1, 3), chunk(2, 2, 3))
    for entry_id in (0, 1):
        position = Position(topic.log.ledgers[0].ledger_id, entry_id)
        assert found(chunk_search.message_indexes, topic, position) == (entry_id,)
        assert found(chunk_search.first_chunk_index, topic, position) == entry_id


@pytest.mark.parametrize("resent_from", [2, 1, 3])
def test_a_message_is_continued_after_a_restart(stage: Stage, resent_from: int) -> None:
    """What was stored is answered with the place where it lies, if it is the newest."""
    stage.subscription(stage.topic())
    producer = stage.producer(stage.topic())
    for chunk_id in range(3):
        stage.publish(producer, chunk(7, chunk_id, 5))
    stage = stage.restarted()
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(stage.producer(topic, "other"), message(1))
    stage.publish(producer, *(chunk(7, chunk_id, 5) for chunk_id in range(resent_from, 5)))
    assert topic.log.end_index == 6
    heard = answers(producer.peer)
    ledger_id = topic.log.ledgers[-1].ledger_id
    assert heard[-2:] == [f"7 at {ledger_id}:{entry_id}" for entry_id in (4, 5)]
    assert (
        heard[:-2]
        == {
            3: [],
            2: [f"7 at {ledger_id}:2"],
            1: ["7 at -1:-1", f"7 at {ledger_id}:2"],
        }[resent_from]
    )
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    assert got(consumer) == ["1", *(f"7/{chunk_id}" for chunk_id in range(5))]


def test_a_whole_message_is_known_after_a_restart(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(7, 0, 2), chunk(7, 1, 2))
    stage = stage.restarted()
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(7, 1, 2))
    assert producer.topic.log.end_index == 2
    assert len(answers(producer.peer)) == 1


def test_a_message_goes_on_behind_others_of_one_read(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(7, 0, 2))
    stage = stage.restarted()
    topic = stage.topic()
    others = [message(number, deliver_at_time=1) for number in (1, 2)]
    stage.publish(stage.producer(topic), message(0), *others, chunk(7, 1, 2))
    located = stage.here(lambda: topic.log.locate(4))
    assert located.flags & LAST_CHUNK
    assert stage.here(lambda: topic.chunk_indexes(*located.position)) == (0, 4)


def test_only_so_much_is_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    for sequence_id in range(5):
        stage.publish(producer, chunk(sequence_id, 0, 2), message(100 + sequence_id))

    def known(**limits: int) -> list[int]:
        for name, limit in limits.items():
            monkeypatch.setattr(chunk_search, name, limit)
        chunked, log = ChunkedMessages(), topic.log
        at_once(chunk_search.recall(log, log.end_index, chunked, none_ended, log.here))
        monkeypatch.undo()
        return [n for n in range(5) if chunked.knows(ChunkInfo(f"p-{n}", 1, 2, 20))]

    assert known() == [0, 1, 2, 3, 4]
    assert known(RECALL_ENTRIES_MAX=4) == [3, 4]


def test_only_what_was_there_before_is_recalled(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, chunk(1, 0, 2))
    end_index = topic.log.end_index
    stage.publish(producer, chunk(2, 0, 2))
    chunked = ChunkedMessages()
    at_once(chunk_search.recall(topic.log, end_index, chunked, none_ended, topic.log.here))
    assert chunked.knows(ChunkInfo("p-1", 1, 2, 20))
    assert not chunked.knows(ChunkInfo("p-2", 1, 2, 20))


def test_metadata_longer_than_a_head_is_read_whole(make_stage: MakeStage) -> None:
    stage = make_stage(tail_size=0)
    long = [pb.KeyValue(key="k", value="v" * 2 * HEAD_SIZE)]
    stage.publish(stage.producer(stage.topic()), chunk(7, 0, 2, properties=long))
    stage = stage.restarted(checkpoint=True)
    topic = stage.topic()
    stage.publish(stage.producer(topic), chunk(7, 1, 2))
    located = stage.here(lambda: topic.log.locate(1))
    assert stage.here(lambda: topic.chunk_indexes(*located.position)) == (0, 1)
    assert located.flags & LAST_CHUNK
