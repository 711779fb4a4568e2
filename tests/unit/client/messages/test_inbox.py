"""From deliveries to messages: epochs, ack sets, chunks, permits, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.messages.inbox import Inbox, Start, Verdict
from milepost.positions import AckSet, ChunkMessageId, MessageId, Position
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.compression import compress
from milepost.wire.events import Delivery
from milepost.wire.metadata import encode_broker_entry
from milepost.wire.scanners.encode import encode_entry_head

TOPIC = "persistent://public/default/t"


def metadata(**fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1000, **fields)


def entry(payload: bytes, index: int | None = None, **fields: Any) -> bytes:
    stored = metadata(**fields).SerializeToString()
    head = b"" if index is None else encode_broker_entry(1, index)
    return head + encode_entry_head(stored, payload) + payload


def batch(*payloads: bytes, index: int | None = None, **fields: Any) -> bytes:
    joined = join_batch(
        SingleMessage(pb.SingleMessageMetadata(payload_size=len(one)), one) for one in payloads
    )
    return entry(joined, index, num_messages_in_batch=len(payloads), **fields)


def delivery(
    data: bytes,
    entry_id: int = 0,
    *,
    epoch: int = -1,
    ack_set: tuple[int, ...] = (),
    redeliveries: int = 0,
) -> Delivery:
    return Delivery(0, 1, entry_id, -1, redeliveries, ack_set, epoch, data)


def opened(queue_size: int = 10, **options: Any) -> Inbox:
    inbox = Inbox(object(), TOPIC, queue_size=queue_size, **options)
    assert inbox.restart_permits() == queue_size
    return inbox


def taken(inbox: Inbox) -> list[bytes]:
    out = []
    while (message := inbox.pop()) is not None:
        out.append(message.data())
    return out


class TestMessages:
    def test_an_entry_is_a_message(self) -> None:
        inbox = opened()
        assert inbox.take(delivery(entry(b"x", index=7), 3), 0) is None
        message = inbox.pop()
        assert message is not None
        assert (message.data(), message.index()) == (b"x", 7)
        assert message.message_id() == MessageId(1, 3)
        assert inbox.pop() is None

    def test_a_batch_is_many(self) -> None:
        inbox = opened()
        inbox.take(delivery(batch(b"a", b"b", b"c", index=9), 3), 0)
        messages = list(inbox.queue)
        assert [message.index() for message in messages] == [7, 8, 9]
        assert [message.message_id().batch_index for message in messages] == [0, 1, 2]
        assert messages[0].message_id().batch_size == 3

    def test_acked_messages_of_a_batch_are_not_seen(self) -> None:
        """PIP-54: "The client will filter out the batch index that has been acked." """
        inbox = opened()
        words = tuple(AckSet(0b101, 3).to_ack_words())
        inbox.take(delivery(batch(b"a", b"b", b"c"), ack_set=words), 0)
        assert [message.entry.pending for message in inbox.queue] == [0b101, 0b101]
        assert taken(inbox) == [b"a", b"c"]

    @pytest.mark.parametrize("kind", [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
    def test_what_is_compressed_is_unpacked(self, kind: Any) -> None:
        inbox = opened()
        packed = compress(kind, b"abc" * 50)
        inbox.take(delivery(entry(packed, compression=kind, uncompressed_size=150)), 0)
        assert taken(inbox) == [b"abc" * 50]


class TestUnreadable:
    @pytest.mark.parametrize(
        ("data", "error"),
        [
            (b"", pb.CommandAck.BatchDeSerializeError),
            (
                b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x02\xff\xff",
                pb.CommandAck.BatchDeSerializeError,
            ),
            (entry(b"x")[:-1] + b"y", pb.CommandAck.ChecksumMismatch),
            (entry(b"x", num_messages_in_batch=2), pb.CommandAck.BatchDeSerializeError),
            (
                entry(b"x", compression=pb.LZ4, uncompressed_size=9),
                pb.CommandAck.DecompressionError,
            ),
            (
                entry(b"x", encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]),
                pb.CommandAck.DecryptionError,
            ),
        ],
    )
    def test_bad_bytes_are_named_and_their_permits_come_back(self, data: bytes, error: int) -> None:
        inbox = opened(queue_size=1)
        verdict = inbox.take(delivery(data), 0)
        assert verdict is not None
        assert verdict.unreadable == error
        assert not inbox.queue
        assert inbox.permits_due() >= 1


class TestPermits:
    def test_they_come_back_when_half_of_them_are_free(self) -> None:
        inbox = opened(4)
        for number in range(4):
            inbox.take(delivery(entry(b"x"), number), 0)
        due = []
        for _ in range(4):
            inbox.pop()
            due.append(inbox.permits_due())
        assert due == [0, 2, 0, 2]

    def test_hidden_messages_gave_none_and_get_none(self) -> None:
        inbox = opened(2)
        words = tuple(AckSet(0b001, 3).to_ack_words())
        inbox.take(delivery(batch(b"a", b"b", b"c"), ack_set=words), 0)
        assert taken(inbox) == [b"a"]
        assert inbox.permits_due() == 1

    def test_between_a_seek_and_its_answer_none_are_given(self) -> None:
        inbox = opened(2)
        inbox.take(delivery(entry(b"x"), epoch=0), 0)
        inbox.begin_seek(None)
        inbox.take(delivery(entry(b"late"), 1, epoch=0), 0)
        assert inbox.permits_due() == 0
        assert inbox.restart_permits() == 2
        assert inbox.permits_due() == 0

    def test_a_queue_of_none_gives_none_by_itself(self) -> None:
        inbox = opened(0)
        inbox.take(delivery(entry(b"x")), 0)
        assert taken(inbox) == [b"x"]
        assert inbox.permits_due() == 0

    @pytest.mark.parametrize("data", [entry(b"x"), batch(b"a", b"b"), b"broken"])
    def test_what_a_redelivery_made_stale_gives_its_permits_back(self, data: bytes) -> None:
        inbox = opened(2)
        inbox.begin_redelivery()
        assert inbox.take(delivery(data, epoch=0), 0) is None
        assert inbox.permits_due() == (2 if data[-1:] == b"b" else 1)


class TestEpochs:
    def test_older_messages_are_dropped(self) -> None:
        inbox = opened()
        assert inbox.begin_seek(None) == 1
        inbox.take(delivery(entry(b"old"), epoch=0), 0)
        inbox.take(delivery(entry(b"new"), epoch=1), 0)
        inbox.take(delivery(entry(b"none"), epoch=-1), 0)
        assert taken(inbox) == [b"new", b"none"]

    def test_a_seek_drops_what_is_here(self) -> None:
        inbox = opened()
        inbox.take(delivery(entry(b"old"), epoch=0), 0)
        inbox.begin_seek(None)
        assert taken(inbox) == []

    def test_a_higher_epoch_is_an_operators_reset(self) -> None:
        inbox = opened()
        inbox.take(delivery(entry(b"old"), epoch=0), 0)
        verdict = inbox.take(delivery(entry(b"new"), epoch=5), 0)
        assert verdict == Verdict(is_reset=True)
        assert taken(inbox) == [b"new"]
        assert (inbox.epoch, inbox.seek_epoch) == (5, 5)

    def test_a_redelivery_leaves_acks_valid(self) -> None:
        inbox = opened()
        inbox.begin_redelivery()
        assert (inbox.epoch, inbox.seek_epoch) == (1, 0)

    def test_a_reset_may_have_the_epoch_of_a_redelivery(self) -> None:
        inbox = opened()
        inbox.begin_redelivery()
        assert inbox.follow(1)
        assert inbox.seek_epoch == 1

    def test_a_reset_that_our_own_seek_has_overtaken_is_no_news(self) -> None:
        inbox = opened()
        inbox.begin_seek(None)
        assert not inbox.follow(1)
        assert not inbox.follow(0)


class TestStart:
    @pytest.mark.parametrize(
        ("start", "wanted"),
        [
            (Start(MessageId(1, 0), False), [b"b0", b"b1", b"b2", b"last"]),
            (Start(MessageId(1, 0), True), [b"first", b"b0", b"b1", b"b2", b"last"]),
            (Start(MessageId(1, 1, batch_index=1), False), [b"b2", b"last"]),
            (Start(MessageId(1, 1, batch_index=1), True), [b"b1", b"b2", b"last"]),
            (Start(MessageId(1, 1), False), [b"last"]),
            (Start(MessageId(0, 9), False), [b"first", b"b0", b"b1", b"b2", b"last"]),
            (Start(MessageId(1, 1), True, first_index=3), [b"b2", b"last"]),
        ],
    )
    def test_what_lies_before_is_held_back(self, start: Start, wanted: list[bytes]) -> None:
        inbox = opened(start=start)
        inbox.take(delivery(entry(b"first", index=0), 0), 0)
        inbox.take(delivery(batch(b"b0", b"b1", b"b2", index=3), 1), 0)
        inbox.take(delivery(entry(b"last", index=4), 2), 0)
        assert taken(inbox) == wanted

    def test_what_is_held_back_is_told(self) -> None:
        inbox = opened(start=Start(MessageId(1, 0), False))
        verdict = inbox.take(delivery(entry(b"x")), 0)
        assert verdict is not None
        (skipped,) = verdict.skipped
        assert skipped.data() == b"x"


class TestDeadLetters:
    def test_a_message_that_came_too_often_is_no_message(self) -> None:
        inbox = opened(redeliveries_max=2)
        assert inbox.take(delivery(entry(b"x"), redeliveries=2), 0) is None
        verdict = inbox.take(delivery(entry(b"y"), 1, redeliveries=3), 0)
        assert verdict is not None
        assert [message.data() for message in verdict.dead] == [b"y"]
        assert taken(inbox) == [b"x"]


class TestCopies:
    """A message redelivered while its ack was on its way is here twice, and handed out once."""

    def test_an_acked_copy_is_not_handed_out(self) -> None:
        inbox = opened(2)
        inbox.take(delivery(batch(b"a", b"b", b"c")), 0)
        inbox.acked(Position(1, 0), 1)
        assert taken(inbox) == [b"a", b"c"]
        assert inbox.permits_due() == 3

    def test_the_copy_of_what_was_acked_is_not_handed_out(self) -> None:
        inbox = opened(2)
        inbox.take(delivery(batch(b"a", b"b", b"c")), 0)
        first, second, _ = [inbox.pop() for _ in range(3)]
        assert first is not None
        assert second is not None
        inbox.take(delivery(batch(b"a", b"b", b"c"), redeliveries=1), 0)
        second.entry.pending &= ~0b010
        inbox.settled(second.entry)
        assert taken(inbox) == [b"a", b"c"]

    def test_what_is_settled_and_here_once_is_handed_out(self) -> None:
        inbox = opened(2)
        inbox.take(delivery(batch(b"a", b"b")), 0)
        first = inbox.pop()
        assert first is not None
        inbox.settled(first.entry)
        assert taken(inbox) == [b"b"]

    def test_an_entry_acked_whole(self) -> None:
        inbox = opened()
        inbox.take(delivery(batch(b"a", b"b")), 0)
        inbox.acked(Position(1, 0), -1)
        assert taken(inbox) == []

    def test_a_cumulative_ack(self) -> None:
        inbox = opened()
        inbox.take(delivery(entry(b"x")), 0)
        inbox.take(delivery(batch(b"a", b"b", b"c"), 1), 0)
        inbox.acked_through(MessageId(1, 1, batch_index=1))
        assert taken(inbox) == [b"c"]
        inbox.begin_seek(None)
        inbox.take(delivery(entry(b"x"), epoch=1), 0)
        assert taken(inbox) == [b"x"]

    def test_every_copy_of_what_was_acked_is_left_out(self) -> None:
        """Three deliveries of one batch wait here: an ack through the first counts for both others."""
        inbox = opened()
        data = batch(b"0", b"1", b"2")
        for _ in range(3):
            inbox.take(delivery(data), 0)
        first = inbox.pop()
        assert first is not None
        inbox.acked(first.entry.position, 0)
        second = inbox.pop()
        third = inbox.pop()
        assert second is not None
        assert third is not None
        second.entry.pending &= ~0b010
        inbox.settled(second.entry)
        assert taken(inbox) == [b"2", b"2"]

    def test_what_a_transaction_acked_is_hidden_and_not_acked(self) -> None:
        inbox = opened()
        data = batch(b"0", b"1", b"2")
        inbox.take(delivery(data), 0)
        first = inbox.pop()
        assert first is not None
        inbox.take(delivery(data), 0)
        inbox.hide(first.entry.position, 0)
        inbox.hide(first.entry.position, 2)
        left = [inbox.pop(), inbox.pop()]
        assert [one.data() for one in left if one is not None] == [b"1", b"1"]
        for message in left:
            assert message is not None
            assert message.entry.not_acked_here == 0b111
        inbox.take(delivery(entry(b"alone"), 1), 0)
        inbox.hide(Position(1, 1), -1)
        assert taken(inbox) == []

    def test_what_the_broker_left_out_of_one_copy_stays_in_another(self) -> None:
        """Left out while it was acked in a transaction; that was aborted, and it came again."""
        inbox = opened()
        data = batch(b"0", b"1", b"2")
        inbox.take(delivery(data, ack_set=(0b110,)), 0)
        inbox.take(delivery(data), 0)
        first = inbox.pop()
        assert first is not None
        first.entry.pending &= ~0b010
        inbox.settled(first.entry)
        assert taken(inbox) == [b"2", b"0", b"2"]


class TestChunks:
    def chunk(self, chunk_id: int, of: int, **fields: Any) -> bytes:
        return entry(
            b"%d" % chunk_id,
            uuid="u",
            chunk_id=chunk_id,
            num_chunks_from_msg=of,
            total_chunk_msg_size=of,
            **fields,
        )

    def test_chunks_become_one_message(self) -> None:
        inbox = opened(2)
        for chunk_id in range(3):
            inbox.take(delivery(self.chunk(chunk_id, 3, index=chunk_id), chunk_id), 0)
        message = inbox.pop()
        assert message is not None
        assert (message.data(), message.index()) == (b"012", 2)
        assert isinstance(message.message_id(), ChunkMessageId)
        assert str(message.message_id()) == "1:0:-1;1:2:-1"
        assert message.entry.chunks == ((1, 0), (1, 1), (1, 2))
        assert inbox.permits_due() == 3

    def test_a_chunk_without_its_beginning_comes_again_or_is_given_up(self) -> None:
        inbox = opened()
        young = inbox.take(delivery(self.chunk(1, 3), 4), now_ms=1001)
        assert young == Verdict(released=(Position(1, 4),))
        old = inbox.take(delivery(self.chunk(1, 3), 4), now_ms=1000 + 60_000)
        assert old == Verdict(acked=(Position(1, 4),))

    def test_what_does_not_become_whole_in_time_is_given_up(self) -> None:
        inbox = opened()
        inbox.take(delivery(self.chunk(0, 2)), now_ms=0)
        assert inbox.expire_chunks(59_999) == []
        assert inbox.expire_chunks(60_000) == [(1, 0)]

    @pytest.mark.parametrize("acks", [False, True])
    def test_too_many_at_once_push_out_the_oldest(self, acks: bool) -> None:
        inbox = opened(chunked_messages_max=1, acks_given_up_chunks=acks)
        inbox.take(delivery(self.chunk(0, 2)), 0)
        other = entry(b"0", uuid="v", chunk_id=0, num_chunks_from_msg=2, total_chunk_msg_size=2)
        verdict = inbox.take(delivery(other, 1), 0)
        given_up = (Position(1, 0),)
        assert verdict == (Verdict(acked=given_up) if acks else Verdict(released=given_up))

    def test_a_resend_in_an_entry_of_its_own_is_acked(self) -> None:
        inbox = opened()
        inbox.take(delivery(self.chunk(0, 3)), 0)
        inbox.take(delivery(self.chunk(1, 3), 1), 0)
        assert inbox.take(delivery(self.chunk(1, 3), 1), 0) is None
        assert inbox.take(delivery(self.chunk(1, 3), 2), 0) == Verdict(acked=(Position(1, 2),))

    def test_a_seek_forgets_them(self) -> None:
        inbox = opened()
        inbox.take(delivery(self.chunk(0, 2), epoch=0), 0)
        inbox.begin_seek(None)
        inbox.take(delivery(self.chunk(1, 2), 1, epoch=1), 0)
        assert taken(inbox) == []

    def test_only_whole_messages_are_at_a_start(self) -> None:
        """PIP-107: behind a chunked message means behind its last chunk."""
        inbox = opened(start=Start(ChunkMessageId(MessageId(1, 0), MessageId(1, 1)), False))
        for chunk_id in range(2):
            verdict = inbox.take(delivery(self.chunk(chunk_id, 2), chunk_id), 0)
        assert verdict is not None
        assert [message.data() for message in verdict.skipped] == [b"01"]
        inbox.take(delivery(entry(b"next"), 2), 0)
        assert taken(inbox) == [b"next"]
