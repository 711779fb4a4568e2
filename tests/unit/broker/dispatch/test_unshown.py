"""Acks beside transactions that tear a batch: an ack speaks for what its sender was shown, and no more."""

from __future__ import annotations

import errno
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from stage.acksets import is_pending
from stage.frames import batch, chunk, message
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    error_of,
    flow,
    produce,
    request,
    seek_command,
    subscribe,
    wire_id,
)
from stage.transactions import ABORT, ack_in, add_subscription, bodies, counts, end, new

from milepost.positions import TxnId
from milepost.positions.ackset import AckSet
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

BATCH = 3
WHOLE = wire_id(1, 0)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def consumer(stage: Stage, sub_type: Any = SHARED, permits: int = 100) -> Loopback:
    client = stage.client()
    subscribe(stage, client, sub_type=sub_type, permits=permits)
    return client


def shown(client: Loopback) -> list[list[int]]:
    """Of each batch that came, the messages that were shown."""
    return [
        [
            number
            for number in range(BATCH)
            if is_pending(AckSet.from_message_words(one.ack_set, BATCH), number)
        ]
        for one in client.take()
        if isinstance(one, Delivery)
    ]


def ack(stage: Stage, client: Loopback, *ids: Any, cumulative: bool = False) -> None:
    ids = ids or (WHOLE,)
    assert not error_of(request(stage, client, ack_command(*ids, cumulative=cumulative)))


def give_back(stage: Stage, client: Loopback) -> None:
    client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    stage.turn()


def published(stage: Stage, *frames: bytes) -> Loopback:
    producer = stage.client()
    produce(stage, producer)
    producer.say(*(frames or (batch(0, BATCH),)))
    stage.turn()
    return producer


def acked_in(stage: Stage, client: Loopback, *ids: Any, **fields: Any) -> TxnId:
    """A transaction that has acked these; of the batch the first message."""
    txn = new(stage, client)
    assert not error_of(add_subscription(stage, client, txn))
    ids = ids or (wire_id(1, 0, ack_set=[0b110]),)
    assert not error_of(ack_in(stage, client, txn, *ids, **fields))
    return txn


def torn(stage: Stage, sub_type: Any = SHARED, permits: int = 100) -> tuple[Loopback, TxnId]:
    """A consumer that was shown 1 and 2 of a batch; a transaction has acked 0, and is open."""
    first = consumer(stage, sub_type)
    published(stage)
    txn = acked_in(stage, first)
    first.hang_up()
    stage.turn()
    second = consumer(stage, sub_type, permits)
    assert shown(second) == [[1, 2]]
    return second, txn


class TestWhatATransactionHas:
    """The first message of the batch is with a transaction, and was not shown."""

    @pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED])
    def test_an_ack_of_the_entry_leaves_it(self, stage: Stage, sub_type: Any) -> None:
        client, txn = torn(stage, sub_type)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[0]]
        ack(stage, client)
        assert counts(stage) == (0, 0, 0, 3)

    @pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
    def test_an_ack_of_two_deliveries_to_one_consumer_speaks_for_both(
        self, stage: Stage, sub_type: Any
    ) -> None:
        """It names the entry, and does not say which of them it answers."""
        client, txn = torn(stage, sub_type)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[0]]
        ack(stage, client)
        assert counts(stage) == (0, 0, 0, 3)

    def test_a_set_that_was_merged_with_that_of_the_delivery_leaves_it(self, stage: Stage) -> None:
        client, txn = torn(stage)
        ack(stage, client, wire_id(1, 0, ack_set=[0b100]))
        assert counts(stage) == (0, 2, 0, 1)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[0]]

    def test_the_commit_acks_it(self, stage: Stage) -> None:
        client, txn = torn(stage)
        ack(stage, client)
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 0, 0, 3)
        stage = stage.restarted()
        assert counts(stage) == (0, 0, 0, 3)

    def test_so_does_an_ack_that_comes_twice(self, stage: Stage) -> None:
        client, txn = torn(stage)
        ack(stage, client)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[0]]

    def test_so_does_an_ack_behind_a_negative_one(self, stage: Stage) -> None:
        client, txn = torn(stage)
        give_back(stage, client)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert [0] in shown(client)

    def test_so_does_an_ack_on_another_connection(self, stage: Stage) -> None:
        client, txn = torn(stage)
        client.hang_up()
        stage.turn()
        client = consumer(stage, permits=0)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert counts(stage) == (1, 0, 0, 2)

    def test_so_does_an_ack_behind_a_restart(self, stage: Stage) -> None:
        _, txn = torn(stage)
        stage = stage.restarted()
        client = consumer(stage, permits=0)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        flow(stage, client, 10)
        assert shown(client) == [[0]]

    def test_the_consumer_that_gave_it_to_the_transaction_may_still_ack_the_rest(
        self, stage: Stage
    ) -> None:
        """Go's client acks the entry when the last of its messages was acked, in a transaction or outside."""
        client = consumer(stage)
        published(stage)
        txn = acked_in(stage, client)
        client.take()
        ack(stage, client, wire_id(1, 0, ack_set=[0b100]))
        assert counts(stage) == (0, 2, 0, 1)
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[0]]

    def test_an_ack_of_it_alone_acks_it(self, stage: Stage) -> None:
        """The sender names it, so it was shown to its client once."""
        client, txn = torn(stage)
        ack(stage, client, wire_id(1, 0, ack_set=[0b110]))
        assert counts(stage) == (0, 2, 0, 1)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == []

    def test_an_ack_of_what_it_gave_to_a_transaction_leaves_what_was_hidden(
        self, stage: Stage
    ) -> None:
        """All that the entry has is with transactions; of two messages the sender knows."""
        client, txn = torn(stage)
        other = acked_in(stage, client, wire_id(1, 0, ack_set=[0b001]))
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)
        for one in (txn, other):
            assert not error_of(end(stage, client, one, ABORT))
        assert shown(client) == [[0]]

    def test_an_ack_of_a_batch_whose_shown_message_another_has_acked_leaves_the_rest(
        self, stage: Stage
    ) -> None:
        """All that is left of the batch was in no delivery."""
        first = consumer(stage, FAILOVER)
        published(stage)
        txn = acked_in(stage, first, wire_id(1, 0, ack_set=[0b001]))
        first.hang_up()
        stage.turn()
        client, standby = consumer(stage, FAILOVER), consumer(stage, FAILOVER)
        assert shown(client) == [[0]]
        other = acked_in(stage, standby, wire_id(1, 0, ack_set=[0b110]))
        assert not error_of(end(stage, standby, other))
        ack(stage, client)
        assert counts(stage) == (0, 2, 0, 1)
        assert not error_of(end(stage, client, txn, ABORT))
        assert [1, 2] in shown(client) + shown(standby)

    def test_a_part_of_a_long_ack_set_is_no_ack_of_it_alone(self) -> None:
        """The set is obeyed in slices, and one of them has nothing that was shown."""
        with Stage() as stage:
            first = consumer(stage, permits=2000)
            published(stage, batch(0, 1024))
            hidden = AckSet.full(1024).without(1000)
            txn = acked_in(stage, first, wire_id(1, 0, ack_set=hidden.to_ack_words()))
            first.hang_up()
            stage.turn()
            client = consumer(stage, permits=2000)
            named = AckSet(hidden.bits & ~int.from_bytes(b"\x55" * 64, "little"), 1024)
            ack(stage, client, wire_id(1, 0, ack_set=named.to_ack_words()))
            assert counts(stage).acked == 256
            assert not error_of(end(stage, client, txn, ABORT))
            assert counts(stage).acked == 256

    def test_another_transaction_that_names_it_is_refused(self, stage: Stage) -> None:
        """Though its sender was not shown it: upstream has a conflict here, and nothing is lost by one."""
        client, _ = torn(stage)
        other = new(stage, client)
        assert not error_of(add_subscription(stage, client, other))
        assert error_of(ack_in(stage, client, other, WHOLE)) == "TransactionConflict"
        assert counts(stage) == (0, 3, 0, 0)

    def test_where_batch_indexes_are_not_acked_nothing_is_torn(self) -> None:
        with Stage(batch_index_ack=False) as stage:
            client, other = consumer(stage), consumer(stage)
            published(stage)
            txn = acked_in(stage, client)
            ack(stage, other)
            assert counts(stage) == (0, 0, 0, 3)
            assert not error_of(end(stage, client, txn, ABORT))
            assert counts(stage) == (0, 0, 0, 3)


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
class TestTheLastOfABatch:
    """Clients name the whole entry in a cumulative ack, too, if nothing that they were shown is left."""

    def torn_at_the_end(self, stage: Stage, sub_type: Any) -> tuple[Loopback, TxnId]:
        first = consumer(stage, sub_type)
        published(stage)
        txn = acked_in(stage, first, wire_id(1, 0, ack_set=[0b011]))
        first.hang_up()
        stage.turn()
        client = consumer(stage, sub_type)
        assert shown(client) == [[0, 1]]
        return client, txn

    def test_a_cumulative_ack_of_the_entry_leaves_what_was_not_shown(
        self, stage: Stage, sub_type: Any
    ) -> None:
        client, txn = self.torn_at_the_end(stage, sub_type)
        for _ in range(2):
            ack(stage, client, cumulative=True)
            assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[2]]
        ack(stage, client, cumulative=True)
        assert counts(stage) == (0, 0, 0, 3)

    def test_in_a_transaction_it_does_so_too(self, stage: Stage, sub_type: Any) -> None:
        client, txn = self.torn_at_the_end(stage, sub_type)
        other = acked_in(stage, client, WHOLE, cumulative=True)
        assert not error_of(end(stage, client, other))
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[2]]

    def test_it_leaves_what_its_sender_gave_to_a_transaction(
        self, stage: Stage, sub_type: Any
    ) -> None:
        client = consumer(stage, sub_type)
        published(stage)
        txn = acked_in(stage, client, wire_id(1, 0, ack_set=[0b011]))
        client.take()
        ack(stage, client, cumulative=True)
        assert counts(stage) == (0, 1, 0, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(client) == [[2]]

    def test_behind_that_it_is_no_tail(self, stage: Stage, sub_type: Any) -> None:
        """Who names a message behind it has seen all below."""
        client = consumer(stage, sub_type)
        published(stage)
        acked_in(stage, client, wire_id(1, 0, ack_set=[0b101]))
        ack(stage, client, cumulative=True)
        assert counts(stage) == (0, 0, 0, 3)


class TestWhatAnAbortBringsBack:
    """The transaction is aborted between the delivery of the others and their ack."""

    def test_an_ack_of_the_entry_leaves_what_nobody_was_sent_since(self, stage: Stage) -> None:
        client, txn = torn(stage, permits=2)
        assert not error_of(end(stage, client, txn, ABORT))
        ack(stage, client)
        assert counts(stage) == (1, 0, 0, 2)
        flow(stage, client, 10)
        assert shown(client) == [[0]]
        ack(stage, client)
        assert counts(stage) == (0, 0, 0, 3)

    def test_it_leaves_what_another_consumer_has(self, stage: Stage) -> None:
        client, txn = torn(stage, permits=2)
        other = consumer(stage)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(other) == [[0]]
        for _ in range(2):
            ack(stage, client)
            assert counts(stage) == (0, 1, 0, 2)
        other.hang_up()
        stage.turn()
        ack(stage, client)
        assert counts(stage) == (1, 0, 0, 2)

    def test_an_ack_of_who_got_it_leaves_the_others(self, stage: Stage) -> None:
        """To its consumer the entry is done; another one holds two messages of it."""
        client, txn = torn(stage, permits=2)
        other = consumer(stage)
        assert not error_of(end(stage, client, txn, ABORT))
        assert shown(other) == [[0]]
        for _ in range(2):
            ack(stage, other)
            assert counts(stage) == (0, 2, 0, 1)
        client.hang_up()
        stage.turn()
        assert shown(other) == [[1, 2]]
        ack(stage, other)
        assert counts(stage) == (0, 0, 0, 3)

    def test_a_late_ack_of_who_had_all_of_it_counts(self, stage: Stage) -> None:
        """It was shown the message, and did not give it to the transaction; another consumer did."""
        client, other = consumer(stage, permits=3), consumer(stage, permits=0)
        published(stage)
        assert shown(client) == [[0, 1, 2]]
        txn = acked_in(stage, other)
        assert not error_of(end(stage, other, txn, ABORT))
        ack(stage, client)
        assert counts(stage) == (0, 0, 0, 3)

    def test_a_transaction_may_ack_it_again_before_it_comes(self, stage: Stage) -> None:
        client = consumer(stage, permits=3)
        published(stage)
        assert not error_of(end(stage, client, acked_in(stage, client), ABORT))
        txn = acked_in(stage, client)
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 2, 0, 1)

    def test_an_ack_of_the_entry_in_a_transaction_leaves_what_nobody_was_sent_since(
        self, stage: Stage
    ) -> None:
        client, txn = torn(stage, permits=2)
        assert not error_of(end(stage, client, txn, ABORT))
        assert not error_of(end(stage, client, acked_in(stage, client, WHOLE)))
        assert counts(stage) == (1, 0, 0, 2)
        flow(stage, client, 10)
        assert shown(client) == [[0]]

    def test_an_ack_in_a_second_transaction_leaves_what_went_to_the_first(
        self, stage: Stage
    ) -> None:
        """Go's client clears what it gave away in the sets of all acks behind."""
        client = consumer(stage, permits=3)
        published(stage)
        assert not error_of(end(stage, client, acked_in(stage, client), ABORT))
        second = acked_in(stage, client, wire_id(1, 0, ack_set=[0b100]))
        assert not error_of(end(stage, client, second))
        assert counts(stage) == (1, 1, 0, 1)

    def test_what_the_disk_refused_was_never_given(self, stage: Stage) -> None:
        client = consumer(stage, permits=3)
        published(stage)
        txn = acked_in(stage, client, wire_id(1, 0, ack_set=[0b011]))
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        first = wire_id(1, 0, ack_set=[0b110])
        assert error_of(ack_in(stage, client, txn, first)) == "PersistenceError"
        ack(stage, client)
        assert counts(stage) == (0, 1, 0, 2)

    def test_a_seek_forgets_who_was_shown_what(self, stage: Stage) -> None:
        client, txn = torn(stage)
        assert not error_of(request(stage, client, seek_command(WHOLE)))
        client = consumer(stage)
        assert shown(client) == [[0, 1, 2]]
        ack(stage, client)
        assert counts(stage) == (0, 0, 0, 3)
        assert not error_of(end(stage, client, txn, ABORT))
        assert counts(stage) == (0, 0, 0, 3)


def no_chunks() -> list[bytes]:
    return [message(number) for number in range(5)]


def chunks_too() -> list[bytes]:
    """A message of two chunks, which ends behind the fourth message."""
    return [*(message(number) for number in range(4)), chunk(4, 0, 2), chunk(4, 1, 2)]


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
@pytest.mark.parametrize("frames", [no_chunks, chunks_too])
class TestACumulativeAck:
    """Consumers in order: the one before has acked the first two messages in a transaction, and is gone."""

    def begin(
        self, stage: Stage, sub_type: Any, frames: Callable[[], list[bytes]], permits: int
    ) -> tuple[Loopback, TxnId]:
        first = consumer(stage, sub_type)
        published(stage, *frames())
        txn = acked_in(stage, first, wire_id(1, 1), cumulative=True)
        first.hang_up()
        stage.turn()
        client = consumer(stage, sub_type, permits)
        assert bodies(client)[:2] == ["2", "3"]
        return client, txn

    def test_it_leaves_what_is_with_a_transaction(
        self, stage: Stage, sub_type: Any, frames: Any
    ) -> None:
        client, txn = self.begin(stage, sub_type, frames, 2)
        for _ in range(2):
            ack(stage, client, wire_id(1, 3), cumulative=True)
            assert counts(stage).acked == 2
        assert not error_of(end(stage, client, txn, ABORT))
        flow(stage, client, 2)
        assert bodies(client) == ["0", "1"]
        ack(stage, client, wire_id(1, 1), cumulative=True)
        assert counts(stage).acked == 4

    def test_it_leaves_what_an_abort_brought_back(
        self, stage: Stage, sub_type: Any, frames: Any
    ) -> None:
        client, txn = self.begin(stage, sub_type, frames, 2)
        assert not error_of(end(stage, client, txn, ABORT))
        ack(stage, client, wire_id(1, 3), cumulative=True)
        assert counts(stage).acked == 2
        flow(stage, client, 2)
        assert bodies(client) == ["0", "1"]

    def test_in_a_transaction_it_does_so_too(
        self, stage: Stage, sub_type: Any, frames: Any
    ) -> None:
        client, txn = self.begin(stage, sub_type, frames, 2)
        other = acked_in(stage, client, wire_id(1, 3), cumulative=True)
        assert not error_of(end(stage, client, other))
        assert counts(stage).acked == 2
        assert not error_of(end(stage, client, txn))
        assert counts(stage).acked == 4

    def test_what_it_was_shown_it_acks(self, stage: Stage, sub_type: Any, frames: Any) -> None:
        client, txn = self.begin(stage, sub_type, frames, 100)
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client)[:4] == ["0", "1", "2", "3"]
        ack(stage, client, wire_id(1, 3), cumulative=True)
        assert counts(stage).acked == 4

    def test_of_an_id_that_it_was_not_shown_it_is_taken_at_its_word(
        self, stage: Stage, sub_type: Any, frames: Any
    ) -> None:
        client, txn = self.begin(stage, sub_type, frames, 2)
        ack(stage, client, wire_id(1, 1), cumulative=True)
        assert counts(stage).acked == 2
        assert not error_of(end(stage, client, txn, ABORT))
        assert counts(stage).acked == 2


def test_a_standby_is_not_shown_what_the_active_consumer_gives_to_a_transaction(
    stage: Stage,
) -> None:
    active, standby = consumer(stage, FAILOVER), consumer(stage, FAILOVER)
    published(stage, *no_chunks())
    if not bodies(active):
        active, standby = standby, active
    txn = acked_in(stage, active, wire_id(1, 0))
    active.hang_up()
    stage.turn()
    assert bodies(standby) == ["1", "2", "3", "4"]
    ack(stage, standby, wire_id(1, 4), cumulative=True)
    assert counts(stage) == (0, 1, 0, 4)
    assert not error_of(end(stage, standby, txn, ABORT))
    assert bodies(standby) == ["0"]


def test_nor_is_one_that_was_active_before_and_is_again(stage: Stage) -> None:
    first = stage.client()
    subscribe(stage, first, "s", FAILOVER, priority_level=1, permits=100)
    producer = published(stage, message(0))
    assert bodies(first) == ["0"]
    ack(stage, first, wire_id(1, 0))
    second = consumer(stage, FAILOVER)
    producer.say(*(message(number) for number in range(1, 5)))
    stage.turn()
    assert bodies(second) == ["1", "2", "3", "4"]
    txn = acked_in(stage, second, wire_id(1, 1))
    second.hang_up()
    stage.turn()
    assert bodies(first) == ["2", "3", "4"]
    ack(stage, first, wire_id(1, 4), cumulative=True)
    assert counts(stage) == (0, 1, 0, 4)
    assert not error_of(end(stage, first, txn, ABORT))
    assert bodies(first) == ["1"]


def test_those_that_wait_for_their_turn_cost_nothing(stage: Stage) -> None:
    """A hundred standbys, to which all that transactions have acked is unshown."""
    active = consumer(stage, FAILOVER, permits=200_000)
    published(stage, *(batch(number, 1024) for number in range(100)))
    standbys = stage.client()
    for number in range(100):
        subscribe(stage, standbys, "s", FAILOVER, number, priority_level=1, permits=1)
    first = AckSet.full(1024).without(0).to_ack_words()
    txn = acked_in(stage, active, wire_id(1, 0, ack_set=first))
    tracemalloc.start()
    try:
        ids = [wire_id(1, number, ack_set=first) for number in range(1, 100)]
        assert not error_of(ack_in(stage, active, txn, *ids))
        stage.turn()
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert counts(stage).inflight == 102_400
    assert size < 500_000
    active.hang_up()
    stage.turn()
    assert counts(stage).ready > 90_000, "the next one has as many permits as one batch"
    (taker,) = [one for one in stage.topic().subscriptions["s"].consumers if one.unacked]
    ack_all = ack_command(wire_id(1, 0), consumer_id=taker.consumer_id, cumulative=True)
    assert not error_of(request(stage, standbys, ack_all))
    assert counts(stage).acked == 1023
