"""Acks of transactions on one subscription: order behind an abort, chunks, length, a deletion meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stage.calls import counted
from stage.frames import batch, chunk, message
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    produce,
    request,
    subscribe,
    text_of,
    wire_id,
)
from stage.transactions import (
    ABORT,
    COMMIT,
    ack_in,
    add_subscription,
    bodies,
    bodies_of,
    counts,
    end,
    new,
    started,
    within,
)

from milepost.broker.subscription.pending_acks import RANGES_MAX, pend_again
from milepost.broker.topic.transaction_ends import ignore
from milepost.cursor.cursor import TRANSACTIONS, Cursor
from milepost.errors import PersistenceError
from milepost.positions import TxnId
from milepost.positions.ranges import IndexRanges
from milepost.testing.peer import Loopback, RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Ack, WireId
from milepost.wire.scanners.long_command import IDS_MAX, TRANSACTION_PARTS_MAX


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def acking(stage: Stage, client: Loopback, name: str = "s") -> TxnId:
    """A transaction that may ack."""
    txn = new(stage, client)
    assert not error_of(add_subscription(stage, client, txn, name))
    return txn


def say(stage: Stage, client: Loopback, *frames: bytes) -> list[str]:
    """What comes when these are said."""
    client.say(*frames)
    stage.turn()
    return bodies(client)


class TestARefusedAck:
    """An ack that the disk refuses is undone: the message is ready, and no commit acks it after all."""

    @pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
    def test_it_comes_again(self, stage: Stage, sub_type: Any) -> None:
        client = started(stage, sub_type=sub_type)
        say(stage, client, message(0), message(1))
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0)))
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(ack_in(stage, client, txn, wire_id(1, 1))) == "PersistenceError"
        stage.turn()
        assert bodies(client) == ["1"]
        assert counts(stage) == (0, 2, 0, 0)
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 1, 0, 1)
        stage = stage.restarted()
        assert counts(stage) == (1, 0, 0, 1)

    def test_another_transaction_may_ack_it(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        say(stage, client, message(0))
        one, two = acking(stage, client), acking(stage, client)
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(ack_in(stage, client, one, wire_id(1, 0))) == "PersistenceError"
        assert not error_of(ack_in(stage, client, two, wire_id(1, 0)))
        assert not error_of(end(stage, client, one, ABORT))
        assert not error_of(end(stage, client, two))
        stage = stage.restarted()
        assert counts(stage).acked == 1

    def test_what_the_transaction_acked_before_stays(self, stage: Stage) -> None:
        """Of a batch: one message durably, then the rest in vain."""
        client = started(stage, sub_type=SHARED)
        say(stage, client, batch(0, 3))
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0, ack_set=[0b110])))
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        refused = ack_in(stage, client, txn, wire_id(1, 0, ack_set=[0b000]))
        assert error_of(refused) == "PersistenceError"
        assert not error_of(end(stage, client, txn))
        stage = stage.restarted()
        assert counts(stage).acked == 1

    def test_of_a_consumer_that_left_meanwhile_nothing_is_kept(self, stage: Stage) -> None:
        """Consumers come and go, and one that is gone acks nothing any more."""
        client = started(stage, sub_type=SHARED)
        say(stage, client, batch(0, 3))
        txn = acking(stage, client)
        stage.engine.holds_journal = True
        ask(client, ack_command(wire_id(1, 0, ack_set=[0b110]), **within(txn)))
        stage.turn()
        client.hang_up()
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        stage.engine.holds_journal = False
        stage.turn()
        assert counts(stage) == (3, 0, 0, 0)
        assert not stage.topic().subscriptions["s"].unshown._hidden


class TestOrderBehindAnAbort:
    """Exclusive and Failover consumers get everything in order, and so again behind an abort."""

    @pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
    @pytest.mark.parametrize("cumulative", [True, False])
    def test_what_is_released_comes_before_what_is_behind_it(
        self, stage: Stage, sub_type: Any, cumulative: bool
    ) -> None:
        client = started(stage, sub_type=sub_type)
        assert say(stage, client, *map(message, range(5))) == ["0", "1", "2", "3", "4"]
        txn = acking(stage, client)
        ids = [wire_id(1, 2)] if cumulative else [wire_id(1, number) for number in range(3)]
        assert not error_of(ack_in(stage, client, txn, *ids, cumulative=cumulative))
        assert not error_of(end(stage, client, txn, ABORT))
        assert say(stage, client, message(5)) == ["0", "1", "2", "3", "4", "5"]

    def test_what_is_behind_is_not_sent_again_where_nothing_is(self, stage: Stage) -> None:
        client = started(stage)
        say(stage, client, *map(message, range(3)))
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2)))
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client) == ["2"]

    def test_what_another_transaction_has_acked_stays_with_it(self, stage: Stage) -> None:
        client = started(stage)
        say(stage, client, *map(message, range(4)))
        one, two = acking(stage, client), acking(stage, client)
        assert not error_of(ack_in(stage, client, one, wire_id(1, 0)))
        assert not error_of(ack_in(stage, client, two, wire_id(1, 2)))
        assert not error_of(end(stage, client, one, ABORT))
        assert bodies(client) == ["0", "1", "3"]
        assert not error_of(end(stage, client, two))
        assert counts(stage) == (0, 3, 0, 1)

    def test_chunked_messages_come_again_whole(self, stage: Stage) -> None:
        client = started(stage)
        frames = [chunk(0, 0, 2), chunk(0, 1, 2), message(1), message(2)]
        assert say(stage, client, *frames) == ["0/0", "0/1", "1", "2"]
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2), cumulative=True))
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client) == ["0/0", "0/1", "1", "2"]


class TestChunkedMessagesBehindAnAbort:
    """What a transaction has acked, and is aborted, comes again whole, wherever the message was before."""

    @pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
    def test_one_that_was_met_in_part(self, stage: Stage, sub_type: Any) -> None:
        """The client has it from before a restart; since then its beginning alone was met."""
        client = started(stage, sub_type=sub_type)
        say(stage, client, chunk(0, 0, 2), message(1), chunk(0, 1, 2))
        stage = stage.restarted()
        client = stage.client()
        subscribe(stage, client, sub_type=sub_type, permits=1)
        assert bodies(client) == ["1"]
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2)))
        assert not error_of(end(stage, client, txn, ABORT))
        client.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        stage.turn()
        assert [one for one in bodies(client) if one != "1"] == ["0/0", "0/1"]
        assert counts(stage) == (0, 3, 0, 0)

    def test_one_that_waits_for_its_consumer(self, stage: Stage) -> None:
        """Key_Shared: it was given back to a consumer without room, beside one with room."""
        client, other = stage.client(), stage.client()
        produce(stage, client)
        subscribe(stage, client, "s", KEY_SHARED, permits=2, consumer_name="a")
        frames = [chunk(0, number, 2, partition_key="a") for number in range(2)]
        assert say(stage, client, *frames) == ["0/0", "0/1"]
        subscribe(stage, other, "s", KEY_SHARED, permits=100, consumer_name="b")
        client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
        stage.turn()
        assert bodies(other) == []
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1)))
        assert not error_of(end(stage, client, txn, ABORT))
        client.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        stage.turn()
        assert bodies(client) == ["0/0", "0/1"]
        assert counts(stage) == (0, 2, 0, 0)

    @pytest.mark.parametrize("sent", [1, 2])
    @pytest.mark.parametrize("action", [ABORT, COMMIT])
    def test_one_that_a_slow_consumer_is_being_sent(
        self, stage: Stage, action: Any, sent: int
    ) -> None:
        """Another consumer acks it, which had it before. Behind an abort it comes to that one, whole; the
        slow one is free for other messages."""
        client, peer = stage.client(), RecordingPeer(writes_max=sent)
        produce(stage, client)
        subscribe(stage, client, "s", SHARED)
        subscription = stage.topic().subscriptions["s"]
        slow = stage.consumer(subscription, pb.CommandSubscribe.Shared, peer=peer, permits=100)
        say(stage, client, *(chunk(0, number, 3) for number in range(3)))
        assert len(peer.take()) == sent
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2)))
        assert not error_of(end(stage, client, txn, action))
        client.say(pb.CommandFlow(consumer_id=0, messagePermits=3))
        stage.turn()
        assert bodies(client) == ([] if action == COMMIT else ["0/0", "0/1", "0/2"])
        peer.is_writable, peer.writes_left = True, None
        subscription.rescan()
        stage.turn()
        rest = [f"0/{number}" for number in range(sent, 3)]
        assert bodies_of(peer.take()) == (rest if action == COMMIT else [])
        client.say(ack_command(wire_id(1, 2)))
        say(stage, client, message(1), message(2))
        assert slow.handover is None
        assert not subscription.handovers
        assert counts(stage) == (0, 2, 0, 3)


class TestCumulative:
    def test_it_leaves_what_ends_later_though_nothing_was_met(self, stage: Stage) -> None:
        """The client has the message between two chunks from before a restart."""
        client = started(stage)
        say(stage, client, chunk(0, 0, 2), message(1), chunk(0, 1, 2))
        stage = stage.restarted()
        client = stage.client()
        subscribe(stage, client)
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1), cumulative=True))
        assert not error_of(end(stage, client, txn, COMMIT))
        client.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
        stage.turn()
        assert bodies(client) == ["0/0", "0/1"]

    def test_it_leaves_chunked_messages_that_end_later(self, stage: Stage) -> None:
        client, other = started(stage), stage.client()
        produce(stage, other, 0, "q")
        client.say(chunk(0, 0, 2))
        stage.turn()
        other.say(message(0, producer="q"))
        stage.turn()
        assert say(stage, client, chunk(0, 1, 2)) == ["0", "0/0", "0/1"]
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1), cumulative=True))
        assert not error_of(end(stage, client, txn, COMMIT))
        assert counts(stage) == (0, 2, 0, 1)
        client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
        stage.turn()
        assert bodies(client) == ["0/0", "0/1"]

    def test_one_that_was_aborted_is_as_if_it_never_was(self, stage: Stage) -> None:
        """An ack outside of transactions covers it all the same, chunks and all."""
        client = started(stage)
        say(stage, client, chunk(0, 0, 2), chunk(0, 1, 2), message(1), message(2))
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2), cumulative=True))
        assert not error_of(end(stage, client, txn, ABORT))
        assert not error_of(request(stage, client, ack_command(wire_id(1, 3), cumulative=True)))
        assert counts(stage) == (0, 0, 0, 4)

    def test_over_what_another_transaction_has_acked_it_is_a_conflict(self, stage: Stage) -> None:
        """Whichever of the two is aborted, the message would have to be acked and ready at once."""
        client = started(stage)
        say(stage, client, *map(message, range(4)))
        one, two = acking(stage, client), acking(stage, client)
        assert not error_of(ack_in(stage, client, one, wire_id(1, 1)))
        refused = ack_in(stage, client, two, wire_id(1, 2), cumulative=True)
        assert error_of(refused) == "TransactionConflict"
        assert "index 1 is acked by another transaction" in text_of(refused)
        assert counts(stage).acked == 0
        assert not error_of(end(stage, client, one))
        assert not error_of(ack_in(stage, client, two, wire_id(1, 2), cumulative=True))
        assert not error_of(end(stage, client, two))
        assert counts(stage) == (0, 1, 0, 3)

    def test_beside_very_many_that_another_transaction_has_each_costs_what_is_new(
        self, make_stage: Callable[..., Stage]
    ) -> None:
        """The transaction was there before a restart, so its messages were not shown."""
        stage = make_stage(ledger_entries_max=3000)
        client = started(stage)
        for first in range(0, 2100, 100):  # of more, a turn hears a part
            say(stage, client, *map(message, range(first, first + 100)))
        txn = acking(stage, client)
        ids = [wire_id(1, entry) for entry in range(0, 2000, 2)]
        assert not error_of(ack_in(stage, client, txn, *ids))
        stage = stage.restarted()
        subscribe(stage, stage.client(), permits=3000)
        subscription = stage.topic().subscriptions["s"]
        (consumer,) = subscription.consumers
        costs = []
        for entry in (2001, 2003):
            ack = Ack(0, is_cumulative=True, ids=[WireId(1, entry)], request_id=None)
            costs.append(counted(lambda ack=ack: subscription.ack(consumer, ack, ignore)))  # type: ignore[misc]
            stage.turn()
        assert counts(stage) == (0, 2100 - 1004, 0, 1004)
        assert costs[1] < 500, costs


class TestLongAcks:
    """An ack of a transaction is obeyed as a whole, or not at all."""

    def test_many_ids(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        count = 2 * IDS_MAX + 10
        for first in range(0, count, 90):
            say(stage, client, *map(message, range(first, min(first + 90, count))))
            client.say(pb.CommandFlow(consumer_id=0, messagePermits=90))
        one, two = acking(stage, client), acking(stage, client)
        assert not error_of(ack_in(stage, client, one, wire_id(1, count - 1)))
        ids = [wire_id(1, number) for number in range(count)]
        assert error_of(ack_in(stage, client, two, *ids)) == "TransactionConflict"
        topic = stage.topic()
        assert topic.transactions is not None
        state_id = topic.subscriptions["s"].state_id
        assert state_id is not None
        assert list(topic.transactions.pending(state_id)) == [one], "nothing of the other"
        assert not error_of(ack_in(stage, client, two, *ids[:-1]))
        for txn in (one, two):
            assert not error_of(end(stage, client, txn))
        assert counts(stage).acked == count

    def test_large_sets(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(pb.CommandFlow(consumer_id=0, messagePermits=2000))
        say(stage, client, batch(0, 1000), batch(1, 1000))
        one, two = acking(stage, client), acking(stage, client)
        every_second = [0x5555_5555_5555_5555] * 16
        last = wire_id(1, 1, ack_set=[-1] * 15 + [~(1 << 39)])
        assert not error_of(ack_in(stage, client, one, last))
        both = [wire_id(1, entry, ack_set=every_second) for entry in range(2)]
        assert error_of(ack_in(stage, client, two, *both)) == "TransactionConflict"
        assert not error_of(end(stage, client, two))
        assert counts(stage).acked == 0, "nothing of the ack was taken"

    @pytest.mark.parametrize("count", [TRANSACTION_PARTS_MAX * IDS_MAX + 1, 200_000])
    def test_too_many_ids_are_refused(self, stage: Stage, count: int) -> None:
        client = started(stage, sub_type=SHARED)
        say(stage, client, message(0))
        txn = acking(stage, client)
        refused = ack_in(stage, client, txn, *[wire_id(1, number) for number in range(count)])
        assert error_of(refused) == "TooManyRequests"
        assert f"more than {RANGES_MAX} ids" in text_of(refused)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0))), "the connection stays"

    def test_too_many_ranges_are_refused(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        say(stage, client, message(0))
        txn = acking(stage, client)
        words = [0x5555_5555_5555_5555] * (RANGES_MAX // 32 + 1)
        refused = ack_in(stage, client, txn, wire_id(1, 0, ack_set=words))
        assert error_of(refused) == "TooManyRequests"
        assert counts(stage) == (0, 1, 0, 0)


class TestASeekMeanwhile:
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_an_end_leaves_what_another_transaction_has_acked_since(
        self, stage: Stage, action: Any
    ) -> None:
        """What the first one has acked was forgotten by the seek, though it named the same message."""
        client = started(stage, sub_type=SHARED)
        assert say(stage, client, message(0)) == ["0"]
        first = acking(stage, client)
        assert not error_of(ack_in(stage, client, first, wire_id(1, 0)))
        stage.seek(stage.topic().subscriptions["s"], 0)
        subscribe(stage, client, sub_type=SHARED, permits=100)
        assert bodies(client) == ["0"]
        second = acking(stage, client)
        assert not error_of(ack_in(stage, client, second, wire_id(1, 0)))
        assert not error_of(end(stage, client, first, action))
        assert counts(stage) == (0, 1, 0, 0)
        assert bodies(client) == []
        assert not error_of(end(stage, client, second))
        assert counts(stage).acked == 1

    def test_what_another_transaction_has_acked_since_is_a_conflict(self, stage: Stage) -> None:
        """The first one acks it again. That it had, before the seek, gives it no right to the message."""
        client = started(stage, sub_type=SHARED)
        assert say(stage, client, message(0)) == ["0"]
        first, second = acking(stage, client), acking(stage, client)
        assert not error_of(ack_in(stage, client, first, wire_id(1, 0)))
        stage.seek(stage.topic().subscriptions["s"], 0)
        subscribe(stage, client, sub_type=SHARED, permits=100)
        assert bodies(client) == ["0"]
        assert not error_of(ack_in(stage, client, second, wire_id(1, 0)))
        again = ack_in(stage, client, first, wire_id(1, 0))
        assert error_of(again) == "TransactionConflict"
        assert not error_of(end(stage, client, second, ABORT))
        assert bodies(client) == ["0"]
        assert not error_of(end(stage, client, first))
        assert counts(stage) == (0, 1, 0, 0)


class TestADeletionMeanwhile:
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    @pytest.mark.parametrize("is_refused", [True, False])
    @pytest.mark.parametrize("member", [None, "m"])
    def test_an_end_waits_for_what_the_catalog_says(
        self, stage: Stage, action: Any, is_refused: bool, member: str | None
    ) -> None:
        """Were it to go ahead, a subscription that stays would have lost its acks, pending for ever."""
        client = stage.client()
        produce(stage, client)
        words = {"milepost.mode": "broadcast", "milepost.member": member} if member else {}
        metadata = [pb.KeyValue(key=key, value=value or "") for key, value in words.items()]
        subscribe(stage, client, "s", SHARED, permits=10, metadata=metadata)
        say(stage, client, message(0), message(1))
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0)))
        stage.engine.holds_catalog = True
        leaving = ask(client, pb.CommandUnsubscribe(consumer_id=0))
        stage.turn()
        ending = ask(client, pb.CommandEndTxn(txn_action=action, **within(txn)))
        stage.turn()
        assert answer(client, ending) is None
        if is_refused:
            refuse_changes(stage)
        stage.engine.holds_catalog = False
        stage.turn()
        assert bool(error_of(answer(client, leaving))) == is_refused
        assert not error_of(answer(client, ending, stage))
        if is_refused:
            *_, part = stage.topic().subscriptions["s"].parts()
            left = {COMMIT: (1, 0, 0, 1), ABORT: (2, 0, 0, 0)}[action]
            assert part.cursor.counts() == left
            later = stage.restarted()
            *_, part = later.topic().subscriptions["s"].parts()
            assert part.cursor.counts() == left


def refuse_changes(stage: Stage) -> None:
    """Every change of the catalog that waits fails."""

    def refuse(catalog: Any) -> None:
        raise PersistenceError("the catalog refuses")

    for call in stage.engine._changes:
        call.change = refuse


def test_a_topic_that_opens_looks_at_a_backlog_once_for_all_transactions(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = started(stage, sub_type=SHARED)
    client.say(*[message(number) for number in range(20)])
    stage.turn()
    client.take()
    for number in range(10):
        txn = acking(stage, client)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2 * number)))
    stage = stage.restarted()
    topic, looks = stage.topic(), 0
    backlog_ranges = Cursor.backlog_ranges

    def look(cursor: Cursor) -> IndexRanges:
        nonlocal looks
        looks += 1
        return backlog_ranges(cursor)

    monkeypatch.setattr(Cursor, "backlog_ranges", look)
    pend_again(topic)  # as it did when it opened
    assert looks == 1
    assert topic.subscriptions["s"].cursor.inflight_count_of(TRANSACTIONS) == 10
