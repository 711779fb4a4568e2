"""Transactions on a stage: what consumers see before and after the end, restarts, conflicts, refusals."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from stage.frames import batch, chunk, message
from stage.security import SECURED, shown
from stage.stage import TOPIC, Stage
from stage.talk import (
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    flow,
    produce,
    request,
    subscribe,
    text_of,
    wire_id,
)
from stage.transactions import (
    ABORT,
    COMMIT,
    OTHER,
    ack_in,
    add_subscription,
    add_topics,
    bodies,
    bodies_of,
    counts,
    end,
    new,
    started,
    within,
)

from milepost.broker.auth.operations import Action
from milepost.broker.operations.topic_lifecycle import (
    close_topic,
    delete_topic,
    terminate,
    truncate,
)
from milepost.positions import TxnId
from milepost.positions.names import NamespaceName
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.encode import send_frame


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


class TestMessages:
    def test_they_are_seen_when_the_transaction_is_committed(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        assert not error_of(add_topics(stage, client, txn))
        client.say(message(0, **within(txn)), batch(1, 3, **within(txn)))
        stage.turn()
        heard = client.take()
        assert [type(one).__name__ for one in heard] == ["Receipt", "Receipt"]
        topic = stage.topic()
        assert topic.log.end_index == 4
        assert topic.visible_end == 0
        assert not error_of(end(stage, client, txn))
        stage.turn()
        assert bodies(client) == ["0", "1.0", "1.1", "1.2"]
        assert topic.log.end_index == topic.visible_end == 5  # the marker has an index
        assert counts(stage) == (0, 4, 0, 1)

    def test_they_are_never_seen_when_it_is_aborted(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)), message(1))
        stage.turn()
        assert bodies(client) == []  # what is behind an open transaction waits for it
        assert not error_of(end(stage, client, txn, ABORT))
        stage.turn()
        assert bodies(client) == ["1"]
        assert counts(stage) == (0, 1, 0, 2)
        # Nor by a subscription that begins with the first message, nor behind a seek to it.
        late = stage.client()
        subscribe(stage, late, "late", initialPosition=pb.CommandSubscribe.Earliest, permits=10)
        assert bodies(late) == ["1"]
        assert counts(stage, "late") == (0, 1, 0, 2)
        stage.seek(stage.topic().subscriptions["late"], 0)
        assert counts(stage, "late") == (1, 0, 0, 2)

    def test_two_transactions_hold_back_what_is_behind_the_first(self, stage: Stage) -> None:
        client = started(stage)
        one, two = new(stage, client), new(stage, client)
        add_topics(stage, client, one)
        add_topics(stage, client, two)
        client.say(message(0), message(1, **within(one)), message(2, **within(two)), message(3))
        stage.turn()
        assert bodies(client) == ["0"]
        end(stage, client, two)
        stage.turn()
        assert bodies(client) == []
        end(stage, client, one, ABORT)
        stage.turn()
        assert bodies(client) == ["2", "3"]

    def test_all_topics_see_it_at_once(self, stage: Stage) -> None:
        client = started(stage)
        stage.topic(OTHER)
        produce(stage, client, 1, "q", topic=OTHER)
        subscribe(stage, client, "o", consumer_id=1, topic=OTHER, permits=10)
        txn = new(stage, client)
        add_topics(stage, client, txn, TOPIC, OTHER)
        client.say(message(0, **within(txn)))
        client.publish(
            1,
            pb.MessageMetadata(producer_name="q", sequence_id=0, publish_time=1, **within(txn)),
            b"other",
            txn_id=txn,
        )
        stage.turn()
        client.take()
        stage.engine.holds_journal = True
        command = pb.CommandEndTxn(request_id=7, txn_action=COMMIT, **within(txn))
        client.say(command)
        stage.turn()
        assert bodies(client) == []  # durable before visible
        stage.engine.holds_journal = False
        stage.turn()
        assert sorted(bodies(client)) == ["0", "other"]

    @pytest.mark.parametrize("time_ms", [1, 1_700_000_000_000], ids=["unusual", "usual"])
    def test_sends_of_one_read_belong_to_what_each_says(self, stage: Stage, time_ms: int) -> None:
        """Two transactions, none, and one that is not there, in turns: by the scanner or the library."""
        client = started(stage)
        one, two = new(stage, client), new(stage, client)
        add_topics(stage, client, one)
        add_topics(stage, client, two)
        turns = [one, one, None, one, TxnId(0, 99), None, two, TxnId(0, 99), two, None, one, None]
        frames = []
        for number, txn in enumerate(turns):
            metadata = pb.MessageMetadata(
                producer_name="p", sequence_id=number, publish_time=time_ms
            )
            count = 1
            if number == 2:
                metadata.num_messages_in_batch = count = 2
            if txn is not None:
                metadata.txnid_least_bits, metadata.txnid_most_bits = txn.least, txn.most
            payload = b"%d" % number if count == 1 else _two_messages(b"2.0", b"2.1")
            frames += send_frame(0, number, metadata.SerializeToString(), payload, txn_id=txn)
        client.say(b"".join(frames))
        stage.turn()
        assert [type(one).__name__ for one in client.take()].count("CommandSendError") == 2
        transactions = stage.topic().transactions
        assert transactions is not None
        written = {txn: list(ranges) for txn, ranges in transactions.open_messages()}
        assert written == {one: [(0, 2), (4, 5), (9, 10)], two: [(6, 8)]}
        end(stage, client, one)
        end(stage, client, two, ABORT)
        stage.turn()
        assert bodies(client) == ["0", "1", "2.0", "2.1", "3", "5", "9", "10", "11"]

    def test_chunked_messages_belong_to_it_whole(self, stage: Stage) -> None:
        client = started(stage)
        kept, dropped = new(stage, client), new(stage, client)
        add_topics(stage, client, kept)
        add_topics(stage, client, dropped)
        client.say(*[chunk(0, number, 3, **within(kept)) for number in range(3)])
        client.say(*[chunk(1, number, 2, **within(dropped)) for number in range(2)])
        client.say(message(2))
        stage.turn()
        assert bodies(client) == []
        end(stage, client, dropped, ABORT)
        end(stage, client, kept)
        stage.turn()
        assert bodies(client) == ["0/0", "0/1", "0/2", "2"]


def _two_messages(*payloads: bytes) -> bytes:
    return join_batch(
        SingleMessage(pb.SingleMessageMetadata(payload_size=len(one)), one) for one in payloads
    )


class TestEndsTogether:
    """Ends that come in one read are one record, and each is answered for itself."""

    def _written(self, stage: Stage, client: Loopback, count: int) -> list[TxnId]:
        """Transactions that have each sent a message and acked one."""
        client.say(*(message(number) for number in range(count)))
        stage.turn()
        client.take()
        txns = [new(stage, client) for _ in range(count)]
        for number, txn in enumerate(txns):
            add_topics(stage, client, txn)
            add_subscription(stage, client, txn)
            ack_in(stage, client, txn, wire_id(1, number))
            client.say(message(count + number, **within(txn)))
        stage.turn()
        client.take()
        return txns

    def _ends(self, txns: list[TxnId], *actions: Any) -> list[pb.CommandEndTxn]:
        return [
            pb.CommandEndTxn(request_id=number, txn_action=action, **within(txn))
            for number, (txn, action) in enumerate(zip(txns, actions, strict=True))
        ]

    def test_one_record_for_all(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        txns = self._written(stage, client, 3)
        stage.engine.holds_journal = True
        before = stage.store.journal.last_sequence
        client.say(b"".join(replies.reply(one) for one in self._ends(txns, COMMIT, ABORT, COMMIT)))
        stage.turn()
        assert stage.store.journal.last_sequence == before + 1
        assert client.take() == []  # durable before visible, and before the answer
        stage.engine.holds_journal = False
        stage.turn()
        heard = client.take()
        ended = [one for one in heard if isinstance(one, pb.CommandEndTxnResponse)]
        assert [(one.request_id, error_of(one)) for one in ended] == [(0, ""), (1, ""), (2, "")]
        # Three messages and their markers, and the aborted ack again.
        topic = stage.topic()
        assert topic.log.end_index == topic.visible_end == 9
        assert bodies_of(heard) == ["1", "3", "5"]
        assert counts(stage) == (0, 3, 0, 6)
        stage = stage.restarted()
        assert stage.topic().visible_end == 9
        client = started(stage, sub_type=SHARED)
        assert sorted(bodies(client)) == ["1", "3", "5"]

    def test_a_disk_that_refuses_them_refuses_each(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        txns = self._written(stage, client, 2)
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        client.say(b"".join(replies.reply(one) for one in self._ends(txns, COMMIT, ABORT)))
        stage.turn()
        assert [error_of(one) for one in client.take()] == ["PersistenceError"] * 2
        # None has ended: each may still end either way.
        assert not error_of(end(stage, client, txns[0], ABORT))
        assert not error_of(end(stage, client, txns[1]))
        stage.turn()
        assert bodies(client) == ["0", "3"]

    def test_one_that_is_refused_does_not_keep_the_others(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        one, two = self._written(stage, client, 2)
        asked = self._ends([one, TxnId(0, 99), two, one], COMMIT, COMMIT, COMMIT, ABORT)
        client.say(b"".join(map(replies.reply, asked)))
        stage.turn()
        ended = [x for x in client.take() if isinstance(x, pb.CommandEndTxnResponse)]
        assert {x.request_id: error_of(x) for x in ended} == {
            0: "",
            1: "TransactionNotFound",
            2: "",
            3: "InvalidTxnStatus",
        }

    def test_one_whose_topic_must_be_opened_comes_later(self, stage: Stage) -> None:
        client = started(stage)
        stage.topic(OTHER)
        one, two = new(stage, client), new(stage, client)
        add_topics(stage, client, one, OTHER)
        add_topics(stage, client, two)
        client.say(message(0, **within(two)))
        stage.turn()
        stage.run(close_topic(stage.broker, stage.topic(OTHER)))
        client.take()
        client.say(b"".join(map(replies.reply, self._ends([one, two], COMMIT, COMMIT))))
        stage.turn()
        heard = client.take()
        ended = [x.request_id for x in heard if isinstance(x, pb.CommandEndTxnResponse)]
        assert sorted(ended) == [0, 1]
        assert bodies_of(heard) == ["0"]


class TestAcks:
    def test_they_count_when_the_transaction_is_committed(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(4)])
        stage.turn()
        client.take()
        txn = new(stage, client)
        assert not error_of(add_subscription(stage, client, txn))
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0), wire_id(1, 2)))
        assert counts(stage) == (0, 4, 0, 0)
        # Whoever asks for everything again does not get them.
        client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
        stage.turn()
        assert bodies(client) == ["1", "3"]
        end(stage, client, txn)
        assert counts(stage) == (0, 2, 0, 2)

    def test_an_abort_makes_the_messages_ready_again(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(3)])
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 1))
        end(stage, client, txn, ABORT)
        stage.turn()
        assert bodies(client) == ["1"]
        assert counts(stage) == (0, 3, 0, 0)

    def test_single_messages_of_a_batch(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(batch(0, 4))
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 0, ack_set=[0b1010])))
        assert counts(stage) == (0, 4, 0, 0)
        end(stage, client, txn)
        assert counts(stage) == (0, 2, 0, 2)

    def test_a_cumulative_ack(self, stage: Stage) -> None:
        client = started(stage)
        client.say(*[message(number) for number in range(5)])
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 2), cumulative=True))
        assert counts(stage) == (0, 5, 0, 0)
        end(stage, client, txn)
        assert counts(stage) == (0, 2, 0, 3)

    def test_what_another_transaction_has_is_a_conflict(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(3)])
        stage.turn()
        one, two = new(stage, client), new(stage, client)
        add_subscription(stage, client, one)
        add_subscription(stage, client, two)
        assert not error_of(ack_in(stage, client, one, wire_id(1, 0)))
        assert error_of(ack_in(stage, client, two, wire_id(1, 0))) == "TransactionConflict"
        assert not error_of(ack_in(stage, client, one, wire_id(1, 0)))  # the same again is welcome
        end(stage, client, one)
        assert error_of(ack_in(stage, client, two, wire_id(1, 0))) == "TransactionConflict"
        assert not error_of(ack_in(stage, client, two, wire_id(1, 1)))

    def test_a_seek_forgets_what_was_acked_before_it(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(3)])
        stage.turn()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 1))
        stage.seek(stage.topic().subscriptions["s"], 0)
        end(stage, client, txn)
        assert counts(stage).acked == 0

    def test_a_restart_does_not_remember_what_a_seek_forgot(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(3)])
        stage.turn()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1)))
        stage.seek(stage.topic().subscriptions["s"], 0)
        client.take()
        subscribe(stage, client, "s", SHARED, permits=10)
        assert bodies(client) == ["0", "1", "2"]
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 3, 0, 0)
        assert counts(stage.restarted()) == (3, 0, 0, 0)

    def test_an_ack_outside_of_the_transaction_is_final(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number) for number in range(3)])
        stage.turn()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 1))
        request(stage, client, ack_command(wire_id(1, 1)))
        end(stage, client, txn, ABORT)
        assert counts(stage).acked == 1


class TestRestarts:
    @pytest.mark.parametrize("checkpoint", [False, True])
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_an_open_transaction_is_open_after_a_restart(
        self, stage: Stage, action: Any, checkpoint: bool
    ) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0), message(1))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 0))
        client.say(message(2, **within(txn)), message(3))
        stage.turn()
        stage = stage.restarted(checkpoint=checkpoint)
        assert stage.topic().visible_end == 2
        client = started(stage, sub_type=SHARED)
        assert bodies(client) == ["1"]
        assert not error_of(end(stage, client, txn, action))
        stage.turn()
        if action == COMMIT:
            assert bodies(client) == ["2", "3"]
            assert counts(stage) == (0, 3, 0, 2)
        else:
            assert bodies(client) == ["0", "3"]
            assert counts(stage) == (0, 3, 0, 2)
        stage = stage.restarted(checkpoint=checkpoint)
        assert sum(counts(stage)[:3]) == 3
        client = stage.client()
        assert not error_of(end(stage, client, txn, action))  # answered the same way
        other = ABORT if action == COMMIT else COMMIT
        assert error_of(end(stage, client, txn, other)) == "InvalidTxnStatus"

    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_a_client_that_was_told_of_the_end_is_told_once(
        self, stage: Stage, action: pb.TxnAction
    ) -> None:
        """Official clients count on it; one that comes back without the answer is told again."""
        client = started(stage)
        txn = new(stage, client)
        assert not error_of(end(stage, client, txn, action))
        assert error_of(end(stage, client, txn, action)) == "TransactionNotFound"
        other = stage.client()
        assert not error_of(end(stage, other, txn, action))
        assert error_of(end(stage, other, txn, action)) == "TransactionNotFound"

    def test_milepost_s_client_is_told_again(self, stage: Stage) -> None:
        """It was told when it had given up waiting, and asks again on the same connection."""
        client = stage.client(client_version="Milepost-Python-1.0")
        txn = new(stage, client)
        for _ in range(3):
            assert not error_of(end(stage, client, txn))
        assert error_of(end(stage, client, txn, ABORT)) == "InvalidTxnStatus"

    def test_an_end_that_the_disk_has_not_is_no_end(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        stage.engine.holds_journal = True
        client.say(pb.CommandEndTxn(request_id=9, txn_action=COMMIT, **within(txn)))
        stage.turn()
        stage = stage.restarted()
        assert stage.topic().visible_end == 0
        client = started(stage)
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client) == []

    def test_a_checkpoint_between_the_end_and_its_answer(self, stage: Stage) -> None:
        """The end is in the journal and not yet true: a snapshot of that moment must not count it."""
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        planned: list[Any] = []
        stage.store.begin_checkpoint(planned.append)
        client.say(pb.CommandEndTxn(request_id=9, txn_action=COMMIT, **within(txn)))
        stage.turn()
        (plan,) = planned
        plan.flush(stage.files)
        plan.record(stage.store.catalog)
        stage.store.finish_checkpoint(plan, None)
        plan.drop_journal(stage.files)
        stage.turn()
        assert bodies(client) == ["0"]
        stage = stage.restarted()
        assert stage.topic().visible_end == 2

    def test_its_time_goes_on(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client, ttl_ms=5000)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)), message(1))
        stage.turn()
        stage.tick(3)
        stage = stage.restarted()
        client = started(stage)
        stage.tick(1)
        assert bodies(client) == []
        stage.tick(2)
        assert bodies(client) == ["1"]
        assert error_of(end(stage, client, txn)) == "InvalidTxnStatus"
        assert not error_of(end(stage, client, txn, ABORT))


class TestRefusals:
    def test_a_transaction_that_never_was(self, stage: Stage) -> None:
        client = started(stage)
        never = TxnId(0, 77)
        assert error_of(add_topics(stage, client, never)) == "TransactionNotFound"
        assert error_of(add_subscription(stage, client, never)) == "TransactionNotFound"
        assert error_of(end(stage, client, never)) == "TransactionNotFound"
        assert error_of(ack_in(stage, client, never, wire_id(1, 0))) == "TransactionNotFound"
        assert "(0,77)" in text_of(end(stage, client, never))
        assert error_of(end(stage, client, TxnId(3, 1))) == "TransactionCoordinatorNotFound"
        client.say(message(0, **within(never)), message(1))
        stage.turn()
        kinds = [type(one).__name__ for one in client.take()]
        assert kinds == ["CommandSendError", "Receipt", "Delivery"]

    def test_what_was_not_added(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        client.say(message(0))
        stage.turn()
        client.take()
        assert error_of(ack_in(stage, client, txn, wire_id(1, 0))) == "InvalidTxnStatus"
        client.say(message(1, **within(txn)))
        stage.turn()
        assert [type(one).__name__ for one in client.take()] == ["CommandSendError"]
        assert error_of(add_topics(stage, client, txn, OTHER)) == "TopicNotFound"
        assert error_of(add_subscription(stage, client, txn, "none")) == "SubscriptionNotFound"
        assert not error_of(end(stage, client, txn))

    def test_what_comes_after_the_end(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        end(stage, client, txn)
        assert error_of(add_topics(stage, client, txn)) == "InvalidTxnStatus"
        assert error_of(end(stage, client, txn, ABORT)) == "InvalidTxnStatus"
        assert not error_of(end(stage, stage.client(), txn))
        client.say(message(0, **within(txn)))
        stage.turn()
        assert [type(one).__name__ for one in client.take()] == ["CommandSendError"]

    @pytest.mark.parametrize("ttl_ms", [0, 2**63, 25 * 3600 * 1000])
    def test_a_time_out_out_of_range(self, stage: Stage, ttl_ms: int) -> None:
        reply = request(stage, stage.client(), pb.CommandNewTxn(txn_ttl_millis=ttl_ms))
        assert error_of(reply) == "NotAllowedError"

    def test_too_many_at_once(self) -> None:
        with Stage(max_active_transactions_per_coordinator=2) as stage:
            client = stage.client()
            one = new(stage, client)
            new(stage, client)
            reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=1000))
            assert error_of(reply) == "TooManyRequests"
            end(stage, client, one)
            new(stage, client)

    def test_switched_off(self) -> None:
        with Stage(transaction_coordinator_enabled=False) as stage:
            client = stage.client()
            reply = request(stage, client, pb.CommandTcClientConnectRequest(tc_id=0))
            assert error_of(reply) == "NotAllowedError"
            reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=1000))
            assert error_of(reply) == "NotAllowedError"

    def test_a_refused_disk_changes_nothing(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        client.take()
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(end(stage, client, txn)) == "PersistenceError"
        assert bodies(client) == []
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client) == []


def test_the_coordinator_is_found(stage: Stage) -> None:
    client = stage.client()
    name = "persistent://pulsar/system/transaction_coordinator_assign"
    reply = request(stage, client, pb.CommandPartitionedTopicMetadata(topic=name))
    assert reply.partitions == 1
    reply = request(stage, client, pb.CommandTcClientConnectRequest(tc_id=0))
    assert not error_of(reply)
    reply = request(stage, client, pb.CommandTcClientConnectRequest(tc_id=1))
    assert error_of(reply) == "TransactionCoordinatorNotFound"
    flow(stage, client, 1)


class TestBesideOthers:
    def test_a_refused_fact_takes_nothing_of_an_end_with_it(self, stage: Stage) -> None:
        """Behind a refusal whole states are journaled: they must not stand for what is promised."""
        client = started(stage, sub_type=SHARED)
        client.say(message(0), message(1))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 0))
        client.say(message(2, **within(txn)))
        stage.turn()
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(request(stage, client, ack_command(wire_id(1, 1)))) == "PersistenceError"
        assert not error_of(end(stage, client, txn))
        stage = stage.restarted()
        assert stage.topic().visible_end == 4
        client = started(stage, sub_type=SHARED)
        assert not error_of(end(stage, client, txn))
        assert counts(stage).acked >= 2  # index 0, and the marker
        assert "0" not in bodies(client)

    def test_a_terminated_topic_ends_when_its_transactions_have(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        client.take()
        stage.run(terminate(stage.broker, stage.topic()))
        kinds = [type(one).__name__ for one in client.take()]
        assert "CommandReachedEndOfTopic" not in kinds
        end(stage, client, txn)
        assert bodies(client) == ["0"]

    def test_truncating_drops_messages_of_open_transactions(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0), message(1, **within(txn)), message(2))
        stage.turn()
        assert bodies(client) == ["0"]
        topic = stage.topic()
        stage.run(truncate(stage.broker, topic))
        assert topic.visible_end == topic.log.first_index == 3
        client.say(message(3))
        stage.turn()
        assert bodies(client) == ["3"]
        assert not error_of(end(stage, client, txn))

    def test_two_clients_that_use_a_topic_for_the_first_time(self, stage: Stage) -> None:
        one, two = started(stage), stage.client()
        first, second = new(stage, one), new(stage, two)
        asked = []
        for client, txn in ((one, first), (two, second)):
            asked.append(
                (
                    client,
                    ask(
                        client,
                        pb.CommandAddPartitionToTxn(
                            txnid_least_bits=txn.least, txnid_most_bits=txn.most, partitions=[TOPIC]
                        ),
                    ),
                )
            )
        stage.turn()
        for client, request_id in asked:
            assert not error_of(answer(client, request_id))

    def test_an_unloaded_topic_is_opened_for_the_end(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        stage.run(close_topic(stage.broker, stage.topic()))
        assert not error_of(end(stage, client, txn))
        assert stage.topic().visible_end == 2

    def test_a_deleted_topic_is_left_out(self, stage: Stage) -> None:
        client = started(stage)
        stage.topic(OTHER)
        txn = new(stage, client)
        add_topics(stage, client, txn, TOPIC, OTHER)
        client.say(message(0, **within(txn)))
        stage.turn()
        stage.run(delete_topic(stage.broker, stage.topic(OTHER), force=True))
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["0"]


def test_a_transaction_is_for_its_own_role_alone() -> None:
    with Stage(**SECURED) as stage:
        root, both = stage.client(**shown("root")), {Action.PRODUCE, Action.CONSUME}
        stage.topic()
        namespace = NamespaceName.parse("public/default")
        stage.run(
            stage.broker.access_control.grants.edit(
                namespace, lambda grants: grants.with_namespace_role("other", both)
            )
        )
        produce(stage, root)
        subscribe(stage, root, sub_type=SHARED, permits=10)
        txn = new(stage, root)
        add_topics(stage, root, txn)
        add_subscription(stage, root, txn)
        client = stage.client(**shown("other"))
        produce(stage, client, name="q")
        subscribe(stage, client, sub_type=SHARED, permits=10)
        client.take()
        assert error_of(add_topics(stage, client, txn)) == "TransactionNotFound"
        assert error_of(end(stage, client, txn, ABORT)) == "TransactionNotFound"
        assert error_of(ack_in(stage, client, txn, wire_id(1, 0))) == "TransactionNotFound"
        client.say(message(0, producer="q", **within(txn)))
        stage.turn()
        (refused,) = client.take()
        assert error_of(refused) == "TransactionNotFound"
        assert not error_of(end(stage, root, txn))
        # Nor is another role told how it has ended, after a restart either.
        for action in (COMMIT, ABORT):
            assert error_of(end(stage, client, txn, action)) == "TransactionNotFound"
        assert error_of(add_topics(stage, client, txn)) == "TransactionNotFound"
        for checkpoint in (False, True, True):
            stage = stage.restarted(checkpoint=checkpoint)
            assert (
                error_of(end(stage, stage.client(**shown("other")), txn)) == "TransactionNotFound"
            )
            assert not error_of(end(stage, stage.client(**shown("root")), txn))


def test_a_role_that_lost_its_rights_adds_nothing_more_and_may_still_end_its_transaction() -> None:
    with Stage(**SECURED) as stage:
        root, both = stage.client(**shown("root")), {Action.PRODUCE, Action.CONSUME}
        stage.topic()
        grants, namespace = (
            stage.broker.access_control.grants,
            NamespaceName.parse("public/default"),
        )
        stage.run(grants.edit(namespace, lambda one: one.with_namespace_role("app", both)))
        subscribe(stage, root, permits=10)
        client = stage.client(**shown("app"))
        produce(stage, client)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        client.take()
        stage.run(grants.edit(namespace, lambda one: one.without_namespace_role("app")))
        stage.turn()
        assert client.take_all(pb.CommandCloseProducer)
        assert error_of(add_topics(stage, client, txn)) == "AuthorizationError"
        assert error_of(add_subscription(stage, client, txn)) == "AuthorizationError"
        client.say(message(1, **within(txn)))  # dropped: its producer is closed
        assert not error_of(end(stage, client, txn))
        assert bodies(root) == ["0"]
