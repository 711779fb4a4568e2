"""What waits for its receipt, and who waits for it."""

from __future__ import annotations

import asyncio

import pytest

from milepost.client.producing.outgoing import Outgoing, PendingEntry, Sent
from milepost.errors import Timeout
from milepost.positions import ChunkMessageId, MessageId, Position
from milepost.wire import pulsar_pb2 as pb


def pending(sequence_id: int = 0) -> PendingEntry:
    return PendingEntry(sequence_id, 2, 0.0)


def test_a_receipt_becomes_an_id() -> None:
    entry = pending()
    entry.is_batch, entry.count = True, 3
    entry.settle(Position(1, 5))
    assert Sent(entry, 1).result() == MessageId(1, 5, 2, 1, 3)
    assert Sent(entry, 1).exception() is None


def test_a_chunked_message_has_a_chunk_id() -> None:
    first, last = pending(), pending()
    last.first_chunk = first
    first.settle(Position(1, 5))
    last.settle(Position(1, 8))
    found = Sent(last, -1).result()
    assert isinstance(found, ChunkMessageId)
    assert str(found) == "1:5:2;1:8:2"


def test_a_duplicate_has_no_position() -> None:
    first, last = pending(), pending()
    last.first_chunk = first
    for entry in (first, last):
        entry.settle(Position(-1, -1))
    assert Sent(last, -1).result() == MessageId(-1, -1, 2)


def test_everyone_who_waits_is_told_and_may_go_away() -> None:
    async def run() -> None:
        entry = pending()
        heard: list[bool] = []
        Sent(entry, -1).add_done_callback(lambda sent: heard.append(sent.done()))

        async def wait() -> MessageId:
            return await Sent(entry, -1)

        waiting = [asyncio.ensure_future(wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        entry.settle(None, Timeout("late"))
        for one in waiting[1:]:
            with pytest.raises(Timeout):
                await one
        Sent(entry, -1).add_done_callback(lambda sent: heard.append(sent.done()))
        assert heard == [True, True]

    asyncio.run(run())


def test_what_is_not_said_is_not_written() -> None:
    message = Outgoing(b"x", 3)
    assert message.is_plain
    assert message.metadata("p", 17) == pb.MessageMetadata(
        producer_name="p", sequence_id=3, publish_time=17
    )


def test_what_is_said_is_written() -> None:
    message = Outgoing(b"x", 3, {"a": "1"}, "k", b"o", 5, 99, ["east"], True)
    assert not message.is_plain
    assert message.metadata("p", 17) == pb.MessageMetadata(
        producer_name="p",
        sequence_id=3,
        publish_time=17,
        properties=[pb.KeyValue(key="a", value="1")],
        partition_key="k",
        ordering_key=b"o",
        event_time=5,
        deliver_at_time=99,
        replicate_to=["east"],
        null_value=True,
    )
