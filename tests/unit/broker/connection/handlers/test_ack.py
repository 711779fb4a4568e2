"""ACK: when it is answered, and with what."""

from __future__ import annotations

import pytest
from stage.frames import chunk, metadata
from stage.stage import TOPIC, Stage
from stage.talk import (
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    opened,
    produce,
    request,
    seek_command,
    subscribe,
    text_of,
    wire_id,
)

from milepost.broker.messages import ids_to_indexes
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners.ack_slices import RANGES_MAX


def test_an_ack_is_answered_if_it_asks(stage: Stage) -> None:
    client = opened(stage)
    client.say(ack_command(wire_id(1, 0)))
    stage.turn()
    assert client.take() == []
    reply = request(stage, client, ack_command(wire_id(1, 1)))
    assert isinstance(reply, pb.CommandAckResponse)
    assert error_of(reply) == ""
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 1


def test_a_wrong_ack_is_answered_with_what_was_wrong(stage: Stage) -> None:
    client = opened(stage)
    reply = request(stage, client, ack_command(wire_id(1, 0), wire_id(1, 77)))
    assert isinstance(reply, pb.CommandAckResponse)
    assert error_of(reply) == "MetadataError"
    assert "1:77" in text_of(reply)
    # As upstream: what was right of it is done.
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 0


def test_an_ack_for_a_stranger_is_dropped(stage: Stage) -> None:
    client = opened(stage)
    request_id = ask(client, ack_command(wire_id(1, 0), consumer_id=9))
    stage.turn()
    assert client.take() == []
    assert answer(client, request_id) is None
    assert not client.is_closing


def test_an_ack_of_a_quarter_of_a_million_ranges_holds_nobody(stage: Stage) -> None:
    """Each turn of the loop obeys a slice; others are served between; the answer covers all."""
    liar, other = stage.client(), stage.client()
    produce(stage, liar)
    subscribe(stage, liar, sub_type=SHARED, permits=1)
    produce(stage, other, topic=f"{TOPIC}-other", name="o")
    meta = metadata(
        0, num_messages_in_batch=2**20, compression=pb.ZSTD, uncompressed_size=6 * 2**20
    )
    liar.publish(0, meta, b"z" * 400)
    stage.turn()
    (delivery,) = liar.take_all(Delivery)
    every_second = wire_id(
        delivery.ledger_id,
        delivery.entry_id,
        ack_set=[0x5555_5555_5555_5555] * 7_800 + [-1] * 8_584,
    )
    cursor = stage.topic().subscriptions["s"].cursor
    liar.say(ack_command(every_second, request_id=7))
    most = turns = 0
    served_after = None
    other.publish(0, metadata(1), b"x")
    while not liar.take_all(pb.CommandAckResponse):
        before = cursor.counts().acked
        stage.loop.do(lambda: None)  # a turn or two
        stage.engine.work()
        most = max(most, cursor.counts().acked - before)
        turns += 1
        if served_after is None and other.take_all(Receipt):
            served_after = turns
    assert cursor.counts().acked == 32 * 7_800
    assert most <= 4 * RANGES_MAX
    assert served_after is not None
    assert served_after < turns // 4


def test_a_seek_does_not_overtake_an_ack_of_messages_of_very_many_chunks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, chunks = 12, 20
    monkeypatch.setattr(ids_to_indexes, "CHUNK_RANGES_MAX", 50)
    producer = stage.producer(stage.topic())
    stage.subscription(stage.topic(), "s")
    for number in range(chunks):
        stage.publish(producer, *(chunk(one, number, chunks) for one in range(messages)))
    client = stage.client()
    subscribe(stage, client, sub_type=SHARED)
    last = [wire_id(1, messages * (chunks - 1) + one) for one in range(messages)]
    client.say(ack_command(*last, request_id=7), seek_command(wire_id(1, 0)))
    stage.turn()
    cursor = stage.topic().subscriptions["s"].cursor
    assert (cursor.epoch, cursor.counts().acked) == (1, 0)
    assert [one.request_id for one in client.take_all(pb.CommandAckResponse)] == [7]


@pytest.mark.parametrize("restarts", [False, True])
def test_an_ack_of_messages_of_very_many_chunks_holds_nobody(
    stage: Stage, restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their chunks lie among each other, so that each is a range of its own. It is answered once, and so is
    what comes behind it."""
    messages, chunks, ranges_max = 12, 20, 50
    monkeypatch.setattr(ids_to_indexes, "CHUNK_RANGES_MAX", ranges_max)
    producer = stage.producer(stage.topic())
    stage.subscription(stage.topic(), "s")
    for number in range(chunks):
        stage.publish(producer, *(chunk(one, number, chunks) for one in range(messages)))
    if restarts:
        stage = stage.restarted(checkpoint=True)
    client = stage.client()
    subscribe(stage, client, sub_type=SHARED)
    cursor = stage.topic().subscriptions["s"].cursor
    last = [wire_id(1, messages * (chunks - 1) + one) for one in range(messages)]
    client.say(
        ack_command(*last, request_id=7),
        ack_command(wire_id(1, 10**6), request_id=8),
    )
    most, answers = 0, []
    while len(answers) < 2:
        before = cursor.counts().acked
        stage.loop.do(lambda: None)  # a turn or two
        stage.engine.work()
        most = max(most, cursor.counts().acked - before)
        answers += client.take_all(pb.CommandAckResponse)
    assert cursor.backlog == 0
    assert most <= 2 * ranges_max
    answered = sorted((one.request_id, one.HasField("error")) for one in answers)
    assert answered == [(7, False), (8, True)]
