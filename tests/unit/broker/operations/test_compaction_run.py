"""Compaction of a topic that is in use: read, made durable, shown to those who read compacted."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import chunk, frame_of, message, metadata
from stage.heard import shown
from stage.stage import Stage
from stage.talk import FAILOVER, SHARED, error_of, flow, request, subscribe, wire_id

from milepost.broker.operations import compaction_run
from milepost.errors import Busy, PersistenceError
from milepost.positions import signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.events import Delivery

Earliest = pb.CommandSubscribe.Earliest


def publish(stage: Stage, keys: str, first: int = 0) -> None:
    """A letter a message; a capital deletes."""
    producer = stage.producer(stage.topic(), f"p{first}")
    frames = [
        message(first + number, b"" if key.isupper() else None, partition_key=key.lower())
        for number, key in enumerate(keys)
    ]
    stage.publish(producer, *frames)


def compact(stage: Stage) -> None:
    compaction_run.start(stage.broker, stage.topic())
    stage.turn()
    assert stage.topic().compactions.status == "SUCCESS", stage.topic().compactions


def read(stage: Stage, client: Any = None, **fields: Any) -> list[str]:
    client = client or stage.client()
    fields = {"permits": 1000, "initialPosition": Earliest, "read_compacted": True, **fields}
    fields.setdefault("durable", False)
    reply = subscribe(stage, client, **fields)
    assert error_of(reply) == ""
    return got(client)


def got(client: Any) -> list[str]:
    return [text for delivery in client.take_all(Delivery) for text in shown(delivery)]


def test_who_reads_compacted_gets_the_last_of_each_key_and_what_came_since(stage: Stage) -> None:
    publish(stage, "abacbB")
    compact(stage)
    publish(stage, "ca", first=6)
    assert read(stage, subscription="r") == ["2", "3", "6", "7"]
    everything = ["0", "1", "2", "3", "4", "", "6", "7"]
    assert read(stage, subscription="all", read_compacted=False) == everything


def test_it_survives_a_restart(stage: Stage) -> None:
    publish(stage, "abab")
    compact(stage)
    compacted = stage.topic().compacted
    again = stage.restarted()
    assert again.topic().compacted == compacted
    assert read(again) == ["2", "3"]


def test_the_next_run_builds_on_the_last(stage: Stage) -> None:
    publish(stage, "abAc")
    compact(stage)
    publish(stage, "bd", first=4)
    compact(stage)
    assert list(stage.topic().compacted.kept) == [(3, 6)]  # type: ignore[union-attr]
    assert stage.topic().compactions.removed == 1
    assert read(stage) == ["3", "4", "5"]


def test_a_reader_that_is_there_passes_over_too(stage: Stage) -> None:
    publish(stage, "abab")
    client = stage.client()
    assert read(stage, client, permits=1) == ["0"]
    compact(stage)
    flow(stage, client, 10)
    assert got(client) == ["2", "3"]


def test_a_seek_goes_to_what_is_left(stage: Stage) -> None:
    publish(stage, "ababc")
    compact(stage)
    client = stage.client()
    subscribe(stage, client, read_compacted=True, initialPosition=Earliest)
    seek = pb.CommandSeek(consumer_id=0, request_id=0, message_id=wire_id(1, 0), consumer_epoch=1)
    assert error_of(request(stage, client, seek)) == ""
    flow(stage, client, 10)
    assert got(client) == ["2", "3", "4"]


def test_a_durable_subscription_owes_no_ack_for_what_is_gone(stage: Stage) -> None:
    publish(stage, "aaab")
    compact(stage)
    client = stage.client()
    assert read(stage, client, durable=True, sub_type=FAILOVER) == ["2", "3"]
    ack = pb.CommandAck(
        consumer_id=0, ack_type=pb.CommandAck.Cumulative, message_id=[wire_id(1, 3)]
    )
    client.say(ack)
    stage.turn()
    assert stage.topic().subscriptions["s"].cursor.backlog == 0


def test_the_last_id_is_that_of_what_is_left(stage: Stage) -> None:
    publish(stage, "abcC")
    compact(stage)
    client = stage.client()
    read(stage, client)
    ask = pb.CommandGetLastMessageId(consumer_id=0, request_id=0)
    assert request(stage, client, ask).last_message_id.entryId == 1
    publish(stage, "AB", first=4)
    compact(stage)
    assert list(stage.topic().compacted.kept) == []  # type: ignore[union-attr]
    assert signed64(request(stage, client, ask).last_message_id.ledgerId) == -1


def test_the_last_id_of_a_batch_is_that_of_its_last_kept_message(stage: Stage) -> None:
    """Or a reader would wait for ever for the rest of the batch."""
    singles = [
        SingleMessage(pb.SingleMessageMetadata(partition_key=key, payload_size=1), b"x")
        for key in "abc"
    ]
    meta = metadata(0, num_messages_in_batch=3)
    stage.publish(stage.producer(stage.topic()), frame_of(meta, join_batch(singles)))
    publish(stage, "C", first=3)
    compact(stage)
    client = stage.client()
    assert len(read(stage, client)) == 2
    ask = pb.CommandGetLastMessageId(consumer_id=0, request_id=0)
    assert request(stage, client, ask).last_message_id.batch_index == 1


def test_only_one_consumer_at_a_time_can_read_compacted(stage: Stage) -> None:
    reply = subscribe(stage, stage.client(), sub_type=SHARED, read_compacted=True)
    assert error_of(reply) == "NotAllowedError"


def test_one_run_at_a_time(stage: Stage) -> None:
    publish(stage, "aa")
    stage.engine.holds_catalog = True
    compaction_run.start(stage.broker, stage.topic())
    stage.turn()
    with pytest.raises(Busy):
        compaction_run.start(stage.broker, stage.topic())
    stage.engine.holds_catalog = False
    stage.turn()
    assert stage.topic().compactions.status == "SUCCESS"


def test_a_run_that_cannot_be_stored_changes_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(stage, "abab")

    def fail(*_: Any) -> None:
        raise PersistenceError("the catalog is full")

    with monkeypatch.context() as patch:
        patch.setattr(stage.store.catalog, "put_snapshot", fail)
        compaction_run.start(stage.broker, stage.topic())
        stage.turn()
    runs = stage.topic().compactions
    assert (runs.status, runs.last_error) == ("ERROR", "the catalog is full")
    assert stage.topic().compacted is None
    assert read(stage) == ["0", "1", "2", "3"]
    compact(stage)
    assert read(stage, subscription="again") == ["2", "3"]


def test_a_chunked_message_that_was_unfinished_then_is_read_whole_when_it_is_finished(
    stage: Stage,
) -> None:
    """By one who reads compacted and by a durable subscription, which would never see it again."""
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(0, 0, 2, partition_key="k"))
    client = stage.client()
    assert read(stage, client, subscription="d", durable=True, sub_type=FAILOVER) == []
    compact(stage)
    stage.publish(producer, message(1, partition_key="a"), chunk(0, 1, 2, partition_key="k"))
    assert got(client) == ["1", "0/0", "0/1"]
    assert read(stage, subscription="r") == ["1", "0/0", "0/1"]
    compact(stage)
    assert read(stage, subscription="later") == ["1", "0/0", "0/1"]
