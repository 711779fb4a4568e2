"""Transactions on a stage, when the disk refuses, topics come and go, and clients do odd things."""

from __future__ import annotations

import errno
import re
import tracemalloc
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from stage.frames import batch, chunk, frame_of, message, sends
from stage.http import Web
from stage.stage import TOPIC, Stage
from stage.talk import (
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    produce,
    request,
    seek_command,
    subscribe,
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
    counts,
    end,
    new,
    started,
    within,
)

from milepost.broker.messages.lookup_by_index import message_at
from milepost.broker.operations import compaction_run, topic_lifecycle
from milepost.broker.operations.transactions import Transactions
from milepost.broker.operations.unasked_ends import ENDS_STEP
from milepost.broker.policies.effective import EVICT
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.topic.topic import Topic
from milepost.broker.transactions.topic_transactions import TopicTransactions
from milepost.positions import TxnId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from milepost.wire.metadata import split_entry


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def _refuse_one(stage: Stage, client: Loopback) -> None:
    """The disk refuses a publish, and takes what comes behind it."""
    stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
    client.say(message(99))
    stage.turn()
    assert "CommandSendError" in [type(one).__name__ for one in client.take()]


class TestCommandsThatComeTogether:
    """What clients do not wait for comes in one read, and its facts share a record of the journal."""

    def test_facts_of_one_read_share_a_record_ahead_of_what_relies_on_them(
        self, stage: Stage
    ) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0))
        stage.turn()
        add_topics(stage, client, new(stage, client))  # so that the topic is ready
        txns = [new(stage, client) for _ in range(3)]
        client.take()
        journal = stage.broker.store.journal
        before = journal.last_sequence
        adding = [
            pb.CommandAddPartitionToTxn(request_id=number, partitions=[TOPIC], **within(txn))
            for number, txn in enumerate(txns)
        ]
        client.say(*adding, message(1, **within(txns[0])), message(2, **within(txns[1])))
        stage.turn()
        assert not [error_of(one) for one in client.take() if error_of(one)]
        # The facts, then the messages: a message whose topic was not added would hold it back for ever.
        assert journal.last_sequence == before + 2
        stage = stage.restarted()
        client = started(stage, sub_type=SHARED)
        for txn in txns:
            assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["0", "1", "2"]

    def test_an_end_in_the_read_that_adds_a_topic(self, stage: Stage) -> None:
        client = started(stage)
        add_topics(stage, client, new(stage, client))
        one, two = new(stage, client), new(stage, client)
        client.take()
        client.say(
            pb.CommandAddPartitionToTxn(request_id=1, partitions=[TOPIC], **within(one)),
            message(1, **within(one)),
            pb.CommandEndTxn(request_id=2, txn_action=COMMIT, **within(one)),
            pb.CommandAddPartitionToTxn(request_id=3, partitions=[TOPIC], **within(two)),
            message(2, **within(two)),
            pb.CommandEndTxn(request_id=4, txn_action=ABORT, **within(two)),
        )
        stage.turn()
        answers = client.take()
        assert not [error_of(answer) for answer in answers if error_of(answer)]
        stage = stage.restarted()
        assert bodies(started(stage)) == ["1"]

    @pytest.mark.parametrize("power_lost", ["", "dropped"])
    def test_what_the_disk_refuses_is_refused_to_all_of_them(
        self, stage: Stage, power_lost: str
    ) -> None:
        client = started(stage)
        add_topics(stage, client, new(stage, client))
        txns = [new(stage, client) for _ in range(3)]
        client.take()
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        adding = [
            pb.CommandAddPartitionToTxn(request_id=number, partitions=[TOPIC], **within(txn))
            for number, txn in enumerate(txns)
        ]
        client.say(*adding)
        stage.turn()
        assert [error_of(one) for one in client.take()] == ["PersistenceError"] * 3
        assert not any(stage.broker.transactions.coordinator.find(txn).topics for txn in txns)
        # The first facts behind it take the whole state with them, once.
        client.say(*adding)
        stage.turn()
        assert [error_of(one) for one in client.take()] == [""] * 3
        stage = stage.restarted(power_lost=power_lost)
        coordinator = stage.broker.transactions.coordinator
        assert [coordinator.find(txn).topics for txn in txns] == [{TOPIC}] * 3


class TestManySubscriptions:
    def test_an_end_looks_at_its_own_alone(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = started(stage, sub_type=SHARED)
        for number in range(5):
            subscribe(stage, client, f"s{number}", SHARED, number + 1)
        client.say(message(0), message(1))
        stage.turn()
        client.take()
        one, two = new(stage, client), new(stage, client)
        for number, txn in enumerate((one, two)):
            add_subscription(stage, client, txn)
            assert not error_of(ack_in(stage, client, txn, wire_id(1, number)))
        asked: list[int] = []
        shown: list[str] = []
        pending, show = TopicTransactions.pending, Topic.show

        def noted(transactions: TopicTransactions, state_id: int) -> Any:
            asked.append(state_id)
            return pending(transactions, state_id)

        def shows(topic: Topic) -> None:
            shown.append(topic.row.name)
            show(topic)

        monkeypatch.setattr(TopicTransactions, "pending", noted)
        monkeypatch.setattr(Topic, "show", shows)
        own = stage.topic().subscriptions["s"].state_id
        assert not error_of(end(stage, client, one))
        assert not error_of(end(stage, client, two, ABORT))
        assert asked == [own, own]
        assert not shown  # acks make nothing visible
        assert counts(stage).acked == 1


class TestAnEndOfUnknownOutcome:
    """The disk may have it, so no other end can follow: nothing is added that it was not asked for."""

    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_nothing_is_added_behind_it(self, stage: Stage, action: Any) -> None:
        client = started(stage, sub_type=SHARED)
        produce(stage, client, 1, "q", topic=OTHER)
        client.say(message(0))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn, TOPIC)
        add_subscription(stage, client, txn)
        client.say(message(1, **within(txn)))
        stage.turn()
        client.take()
        stage.files.faults.fail("sync", 1, under="journal")
        stage.files.faults.fail("create", 1, under="journal", forever=True)
        assert error_of(end(stage, client, txn, action)) == "PersistenceError"
        stage.files.faults.heal()
        assert error_of(add_topics(stage, client, txn, OTHER)) == "InvalidTxnStatus"
        assert error_of(add_subscription(stage, client, txn)) == "InvalidTxnStatus"
        assert error_of(ack_in(stage, client, txn, wire_id(1, 0))) == "InvalidTxnStatus"
        client.say(message(2, **within(txn)))
        stage.turn()
        (refusal,) = [one for one in client.take() if error_of(one)]
        assert error_of(refusal) == "InvalidTxnStatus"
        assert error_of(end(stage, client, txn, ABORT - action)) == "InvalidTxnStatus"
        assert not error_of(end(stage, client, txn, action))
        assert bodies(client) == (["1"] if action == COMMIT else [])


class TestATerminatedTopic:
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_its_end_is_told_when_the_last_transaction_has_ended(
        self, stage: Stage, action: Any
    ) -> None:
        client = started(stage, sub_type=SHARED)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        stage.run(topic_lifecycle.terminate(stage.broker, stage.topic()))
        stage.turn()
        assert not client.take_all(pb.CommandReachedEndOfTopic)
        assert not error_of(end(stage, client, txn, action))
        stage.turn()
        if action == COMMIT:
            assert not client.take_all(pb.CommandReachedEndOfTopic)
            request(stage, client, ack_command(wire_id(1, 0)))
            stage.turn()
        assert len(client.take_all(pb.CommandReachedEndOfTopic)) == 1


class TestARefusingDisk:
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_an_end_behind_a_refusal_is_durable(self, stage: Stage, action: Any) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0), message(1))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 0))
        client.say(message(2, **within(txn)))
        stage.turn()
        client.take()
        _refuse_one(stage, client)
        assert not error_of(end(stage, client, txn, action))
        before = counts(stage)
        stage = stage.restarted()
        assert stage.topic().visible_end == 4
        now = counts(stage)
        assert now.acked == before.acked
        assert not error_of(end(stage, stage.client(), txn, action))
        other = ABORT if action == COMMIT else COMMIT
        assert error_of(end(stage, stage.client(), txn, other)) == "InvalidTxnStatus"

    def test_a_topic_whose_adding_was_refused_is_not_added(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, new(stage, client))  # so that the topic is ready
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(add_topics(stage, client, txn)) == "PersistenceError"
        client.say(message(0, **within(txn)))
        stage.turn()
        assert [type(one).__name__ for one in client.take()] == ["CommandSendError"]
        assert not error_of(add_topics(stage, client, txn))
        client.say(message(1, **within(txn)))
        stage.turn()
        assert [type(one).__name__ for one in client.take()] == ["Receipt"]
        stage = stage.restarted()
        client = started(stage)
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["1"]

    def test_a_refused_opening_leaves_nothing(self, stage: Stage) -> None:
        client = stage.client()
        new(stage, client)
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        reply = request(stage, client, pb.CommandNewTxn(txn_ttl_millis=1000))
        assert error_of(reply) == "PersistenceError"
        assert len(stage.broker.transactions.coordinator.open) == 1


class TestTopicsThatComeAndGo:
    def _made_again(self, stage: Stage, name: str = TOPIC) -> None:
        stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(name), force=True))
        stage.topic(name)

    def test_a_topic_that_was_made_again_is_not_of_the_transaction(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        client.say(message(1, **within(txn)))
        stage.turn()
        self._made_again(stage)
        client = started(stage, sub_type=SHARED)
        client.say(message(2), message(3, **within(txn)))
        stage.turn()
        kinds = [type(one).__name__ for one in client.take()]
        assert kinds == ["Receipt", "CommandSendError", "Delivery"]
        position = stage.topic().log.last_position()
        assert position is not None
        assert error_of(ack_in(stage, client, txn, wire_id(*position))) == "InvalidTxnStatus"
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 1, 0, 0)

    def test_truncated_in_mid_transaction(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0), message(1, **within(txn)), message(2))
        stage.turn()
        client.take()
        stage.run(topic_lifecycle.truncate(stage.broker, stage.topic()))
        stage.turn()
        client.say(message(3))
        stage.turn()
        assert not error_of(end(stage, client, txn))
        client.say(message(4))
        stage.turn()
        assert bodies(client) == ["3", "4"]
        stage = stage.restarted()
        client = started(stage)
        assert bodies(client) == ["3", "4"]

    def test_two_clients_add_a_busy_topic_at_once(self) -> None:
        with Stage(tail_size=0) as stage:
            client = started(stage)
            one, two = new(stage, client), new(stage, client)
            stage.engine.holds_catalog = True
            asked = [ask(client, _added(txn, TOPIC)) for txn in (one, two)]
            client.say(message(0))
            stage.turn()
            stage.store.checkpoint()  # from now on the message is on the disk alone
            stage.engine.holds_catalog = False
            stage.engine.holds_reads = True
            stage.turn()
            stage.engine.holds_reads = False
            stage.turn()
            for request_id in asked:
                assert not error_of(answer(client, request_id, stage))

    def test_unloaded_while_it_is_added(self) -> None:
        with Stage(tail_size=0) as stage:
            client = started(stage)
            txn = new(stage, client)
            stage.engine.holds_catalog = True
            request_id = ask(client, _added(txn, TOPIC))
            client.say(message(0))
            stage.turn()
            stage.store.checkpoint()
            stage.engine.holds_reads = True
            stage.engine.holds_catalog = False
            closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, stage.topic()))
            stage.turn()
            stage.engine.holds_reads = False
            stage.turn()
            assert closing.done()
            assert answer(client, request_id, stage) is not None
            assert not error_of(add_topics(stage, stage.client(), txn))
            assert stage.topic().transactions is not None

    @pytest.mark.parametrize("command", ["topics", "subscriptions", COMMIT, ABORT])
    def test_what_is_asked_for_while_it_is_unloaded(self, stage: Stage, command: Any) -> None:
        """Official clients do not ask again."""
        client, other = started(stage), stage.client()
        client.say(message(0))
        stage.turn()
        txn = new(stage, client)
        if command in (COMMIT, ABORT):
            add_topics(stage, client, txn)
            client.say(message(1, **within(txn)))
            stage.turn()
        stage.engine.holds_journal = True
        closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, stage.topic()))
        stage.turn()
        if command == "topics":
            asked = _added(txn, TOPIC)
        elif command == "subscriptions":
            pair = pb.Subscription(topic=TOPIC, subscription="s")
            asked = pb.CommandAddSubscriptionToTxn(subscription=[pair], **within(txn))
        else:
            asked = pb.CommandEndTxn(txn_action=command, **within(txn))
        request_id = ask(other, asked)
        stage.turn()
        assert not closing.done()
        stage.engine.holds_journal = False
        stage.turn()
        assert closing.done()
        assert not error_of(answer(other, request_id, stage))

    def test_a_damaged_topic_does_not_keep_the_others_from_an_abort(self, stage: Stage) -> None:
        client = started(stage)
        stage.topic(OTHER)
        produce(stage, client, 1, "q", topic=OTHER)
        txn = new(stage, client)
        add_topics(stage, client, txn, TOPIC, OTHER)
        client.say(message(0, **within(txn)), message(1))
        _publish_other(client, txn)
        stage.turn()
        client.take()
        other = stage.topic(OTHER)
        stage.run(topic_lifecycle.close_topic(stage.broker, other))
        log = stage.store._logs.pop(other.row.topic_id)
        stage.store._damaged_topics[other.row.topic_id] = "a byte of it has changed"
        assert error_of(end(stage, client, txn, COMMIT)) == "PersistenceError"
        assert bodies(client) == []
        assert not error_of(end(stage, client, txn, ABORT))
        assert bodies(client) == ["1"]
        # The operator has brought the topic back.
        del stage.store._damaged_topics[other.row.topic_id]
        stage.store._logs[other.row.topic_id] = log
        assert stage.topic(OTHER).visible_end == 1
        assert stage.topic(OTHER).is_hidden(0)


class TestEndsOnTheirWay:
    def _on_its_way(self, stage: Stage) -> tuple[Loopback, TxnId, int]:
        client = started(stage, sub_type=SHARED)
        client.say(message(0))
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        client.say(message(1, **within(txn)))
        stage.turn()
        client.take()
        stage.engine.holds_journal = True
        request_id = ask(client, pb.CommandEndTxn(txn_action=COMMIT, **within(txn)))
        stage.turn()
        return client, txn, request_id

    def test_nothing_is_true_before_it_is_durable(self, stage: Stage) -> None:
        client, txn, request_id = self._on_its_way(stage)
        assert stage.topic().visible_end == 1
        assert stage.broker.transactions.coordinator.outcome_of(txn) is None
        assert answer(client, request_id) is None
        stage.engine.holds_journal = False
        stage.turn()
        assert not error_of(answer(client, request_id, stage))
        assert bodies(client) == ["1"]

    def test_what_comes_behind_it_is_refused(self, stage: Stage) -> None:
        client, txn, _ = self._on_its_way(stage)
        client.say(message(2, **within(txn)))
        refused = ask(client, ack_command(wire_id(1, 0), **within(txn)))
        stage.turn()
        assert error_of(answer(client, refused)) == "InvalidTxnStatus"
        stage.engine.holds_journal = False
        stage.turn()
        kinds = [type(one).__name__ for one in client.take()]
        assert kinds.count("CommandSendError") == 1
        assert stage.topic().visible_end == stage.topic().log.end_index == 3
        assert counts(stage).acked == 1  # the marker alone

    def test_the_other_end_meanwhile_is_refused_and_the_same_is_answered(
        self, stage: Stage
    ) -> None:
        client, txn, first = self._on_its_way(stage)
        other = stage.client()
        abort = ask(other, pb.CommandEndTxn(txn_action=ABORT, **within(txn)))
        again = ask(other, pb.CommandEndTxn(txn_action=COMMIT, **within(txn)))
        stage.turn()
        assert error_of(answer(other, abort)) == "InvalidTxnStatus"
        stage.engine.holds_journal = False
        stage.turn()
        assert not error_of(answer(client, first, stage))
        assert not error_of(answer(other, again, stage))
        assert stage.topic().log.end_index == 3  # one marker

    def test_a_retried_end_adds_nothing(self, stage: Stage) -> None:
        _, txn, _ = self._on_its_way(stage)
        stage.engine.holds_journal = False
        stage.turn()
        end_index = stage.topic().log.end_index
        assert not error_of(end(stage, stage.client(), txn))
        assert stage.topic().log.end_index == end_index
        assert stage.broker.counters.transactions_committed == 1

    def test_unloaded_and_deleted_meanwhile(self, stage: Stage) -> None:
        client, txn, request_id = self._on_its_way(stage)
        closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, stage.topic()))
        stage.turn()
        stage.engine.holds_journal = False
        stage.turn()
        assert closing.done()
        assert not error_of(answer(client, request_id, stage))
        assert stage.topic().visible_end == 3
        stage = stage.restarted()
        assert stage.topic().visible_end == 3
        stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(), force=True))
        assert not error_of(end(stage, stage.client(), txn))

    def test_a_topic_is_deleted_meanwhile(self, stage: Stage) -> None:
        client = started(stage)
        stage.topic(OTHER)
        produce(stage, client, 1, "q", topic=OTHER)
        txn = new(stage, client)
        assert not error_of(add_topics(stage, client, txn, TOPIC, OTHER))
        client.say(message(0, **within(txn)))
        _publish_other(client, txn)
        stage.turn()
        client.take()
        stage.engine.holds_journal = True
        ending = ask(client, pb.CommandEndTxn(txn_action=COMMIT, **within(txn)))
        stage.turn()
        deleting = stage.loop.begin(
            topic_lifecycle.delete_topic(stage.broker, stage.topic(OTHER), force=True)
        )
        stage.turn()
        stage.engine.holds_journal = False
        stage.turn()
        deleting.result()
        assert not error_of(answer(client, ending, stage))
        assert bodies(client) == ["0"]
        later = stage.restarted()
        assert later.topic().visible_end == 2
        assert not error_of(end(later, later.client(), txn))
        assert later.topic(OTHER).log.end_index == 0, "it is made anew"

    def test_the_connection_goes_and_the_end_stays(self, stage: Stage) -> None:
        client, txn, _ = self._on_its_way(stage)
        client.hang_up()
        stage.engine.holds_journal = False
        stage.turn()
        other = stage.client()
        assert error_of(end(stage, other, txn, ABORT)) == "InvalidTxnStatus"
        assert not error_of(end(stage, other, txn, COMMIT))


class TestWhatIsRemembered:
    def test_a_lookup_by_index_counts_no_marker_and_nothing_aborted(self, stage: Stage) -> None:
        client = started(stage)
        for number, action in enumerate((COMMIT, ABORT)):
            txn = new(stage, client)
            add_topics(stage, client, txn)
            client.say(message(number, **within(txn)))
            stage.turn()
            end(stage, client, txn, action)
        client.say(message(2))
        stage.turn()
        stage = stage.restarted(checkpoint=True)
        topic = stage.topic()
        found = []
        for index in range(topic.visible_end):
            position = stage.run(message_at(topic, index, stage.engine)).position
            found.append(topic.log.at(position).span.first_index)
        assert found == [0, 4, 4, 4, 4]

    def test_an_opening_looks_at_the_entries_since_the_last_checkpoint(self, stage: Stage) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        end(stage, client, txn)
        stage.checkpoint()
        client.say(*[message(number) for number in range(20)])
        stage.checkpoint()
        transactions = stage.topic().transactions
        assert transactions is not None
        stored = stage.store.catalog.snapshot(transactions.state_id)
        assert stored.data is not None
        assert TopicTransactions.restore(stored.data)[0].scanned_end == 20

    def test_what_is_trimmed_is_forgotten(self) -> None:
        with Stage(ledger_entries_max=4) as stage:
            client = started(stage)
            for number in range(20):
                txn = new(stage, client)
                add_topics(stage, client, txn)
                client.say(message(number, **within(txn)))
                end(stage, client, txn, (COMMIT, ABORT)[number % 2])
            topic = stage.topic()
            assert topic.transactions is not None
            position = topic.log.last_position()
            assert position is not None
            request(stage, client, ack_command(wire_id(*position), cumulative=True))
            assert stage.run(topic_lifecycle.trim(stage.broker, topic)) > 5
            assert topic.log.first_index > 20
            assert topic.transactions.hidden.first is None or (
                topic.transactions.hidden.first >= topic.log.first_index
            )
            assert topic.transactions.hidden.count <= 4


class TestHalfAnId:
    """A message may name one of the two numbers alone: the other is zero then."""

    @pytest.mark.parametrize("is_chunk", [False, True])
    def test_its_topic_opens_again(self, stage: Stage, is_chunk: bool) -> None:
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        make = partial(chunk, chunk_id=0, count=2) if is_chunk else message
        parts = split_entry(sends(make(0, **within(txn)))[0].entry)
        meta, payload = parts.metadata, parts.payload
        meta.ClearField("txnid_most_bits")
        client.say(frame_of(meta, payload, is_chunk=is_chunk))
        stage.turn()
        (receipt,) = client.take()
        assert isinstance(receipt, Receipt)
        stage = stage.restarted()
        assert stage.topic().visible_end == 0
        client = started(stage)
        if is_chunk:
            client.say(chunk(0, 1, 2, **within(txn)))
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == (["0/0", "0/1"] if is_chunk else ["0"])


class TestInCompany:
    """What else happens to topics and subscriptions while a transaction is open."""

    def _policy(self, stage: Stage, name: str, value: Any) -> None:
        stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES[name], value))
        stage.turn()

    def _keep_house(self, stage: Stage) -> None:
        house = stage.broker.housekeeping
        for work in (house.expire, house.check_quotas, house.trim):
            stage.loop.do(work)
            stage.turn()

    @pytest.mark.parametrize("policy", ["message_ttl", "quota"])
    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_expiry_and_eviction(self, stage: Stage, policy: str, action: Any) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(*[message(number, b"x" * 100) for number in range(3)])
        stage.turn()
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 1))
        client.say(message(3, **within(txn)), message(4))
        stage.turn()
        client.take()
        stage.clock.advance(10)
        if policy == "message_ttl":
            self._policy(stage, "message_ttl", 5)
        else:
            self._policy(stage, "backlog_quota_size", {"limitSize": 10, "policy": EVICT})
        self._keep_house(stage)
        assert counts(stage) == (0, 0, 0, 3)
        assert stage.topic().visible_end == 3
        self._policy(stage, "message_ttl", 0)
        for _ in range(2):
            stage = stage.restarted()
            assert stage.topic().subscriptions["s"].cursor.end == 3  # nothing that was not visible
        client = started(stage, sub_type=SHARED)
        assert not error_of(end(stage, client, txn, action))
        assert bodies(client) == (["3", "4"] if action == COMMIT else ["4"])

    def test_compaction(self, stage: Stage) -> None:
        client = started(stage)
        kept, dropped, late = new(stage, client), new(stage, client), new(stage, client)
        for txn in (kept, dropped, late):
            add_topics(stage, client, txn)
        client.say(
            message(0, b"old", partition_key="k"),
            message(1, b"kept", partition_key="k", **within(kept)),
            message(2, b"dropped", partition_key="k", **within(dropped)),
        )
        end(stage, client, kept)
        end(stage, client, dropped, ABORT)
        client.say(message(3, b"late", partition_key="k", **within(late)))
        stage.turn()
        stage.run(compaction_run.run(stage.broker, stage.topic()))
        reader = stage.client()
        fields = {"read_compacted": True, "initialPosition": pb.CommandSubscribe.Earliest}
        subscribe(stage, reader, "r", permits=10, durable=False, **fields)
        assert bodies(reader) == ["kept"]
        assert not error_of(end(stage, client, late))
        assert bodies(reader) == ["late"]

    def test_a_subscription_that_is_made_again_starts_anew(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0), message(1))
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 0))
        subscription = stage.topic().subscriptions["s"]
        stage.run(stage.broker.delete_subscription(subscription))
        client = stage.client()
        earliest = pb.CommandSubscribe.Earliest
        subscribe(stage, client, "s", SHARED, permits=10, initialPosition=earliest)
        assert bodies(client) == ["0", "1"]
        assert error_of(ack_in(stage, client, txn, wire_id(1, 1))) == "InvalidTxnStatus"
        assert not error_of(add_subscription(stage, client, txn))
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1)))
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (0, 1, 0, 1)
        stage = stage.restarted()
        assert counts(stage) == (1, 0, 0, 1)

    @pytest.mark.parametrize("sub_type", [FAILOVER, KEY_SHARED, SHARED])
    def test_a_hand_over_leaves_what_is_pending(self, stage: Stage, sub_type: Any) -> None:
        client = started(stage, sub_type=sub_type)
        client.say(*[message(number, partition_key=f"k{number}") for number in range(4)])
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        assert not error_of(ack_in(stage, client, txn, wire_id(1, 1)))
        other = stage.client()
        subscribe(stage, other, "s", sub_type, permits=10)
        client.hang_up()
        stage.turn()
        assert bodies(other) == ["0", "2", "3"]
        assert not error_of(end(stage, other, txn, ABORT))
        # A Failover consumer gets everything in order.
        assert bodies(other) == (["0", "1", "2", "3"] if sub_type == FAILOVER else ["1"])

    def test_a_negative_ack_leaves_what_is_pending(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        client.say(message(0), message(1))
        stage.turn()
        client.take()
        txn = new(stage, client)
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, 0))
        redeliver = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0)
        redeliver.message_ids.extend([wire_id(1, 0), wire_id(1, 1)])
        client.say(redeliver)
        stage.turn()
        assert bodies(client) == ["1"]
        assert not error_of(end(stage, client, txn))
        assert counts(stage).acked == 1

    def test_single_and_cumulative_acks_of_one_transaction(self, stage: Stage) -> None:
        client = started(stage)
        client.say(*[message(number) for number in range(5)])
        stage.turn()
        client.take()
        one, two = new(stage, client), new(stage, client)
        add_subscription(stage, client, one)
        add_subscription(stage, client, two)
        assert not error_of(ack_in(stage, client, one, wire_id(1, 1)))
        assert not error_of(ack_in(stage, client, one, wire_id(1, 2), cumulative=True))
        refused = ack_in(stage, client, two, wire_id(1, 3), cumulative=True)
        assert error_of(refused) == "TransactionConflict"
        assert not error_of(ack_in(stage, client, two, wire_id(1, 4)))
        assert not error_of(end(stage, client, one, ABORT))
        assert not error_of(end(stage, client, two))
        assert counts(stage).acked == 1 + 0

    def test_its_own_messages_can_be_acked_after_the_end_alone(self, stage: Stage) -> None:
        client = started(stage, sub_type=SHARED)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        add_subscription(stage, client, txn)
        client.say(message(0, **within(txn)))
        stage.turn()
        client.take()
        assert error_of(ack_in(stage, client, txn, wire_id(1, 0)))
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["0"]
        assert not error_of(request(stage, client, ack_command(wire_id(1, 0))))
        assert counts(stage).acked == 2

    def test_deduplication_counts_what_a_transaction_sent(self, stage: Stage) -> None:
        self_policy = POLICIES["deduplication"]
        stage.topic()
        stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, self_policy, True))
        stage.turn()
        client = started(stage)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        for _ in range(2):  # the second is the first, sent again
            client.say(message(5, **within(txn)))
            stage.turn()
        stage = stage.restarted()
        client = started(stage)
        client.say(message(5, **within(txn)))
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["5"]

    def test_a_broadcast_group(self, stage: Stage) -> None:
        client = stage.client()
        produce(stage, client)
        for member in range(2):
            words = {"milepost.mode": "broadcast", "milepost.member": f"m{member}"}
            metadata = [pb.KeyValue(key=key, value=value) for key, value in words.items()]
            subscribe(stage, client, "g", SHARED, member, metadata=metadata, permits=10)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0, **within(txn)), message(1))
        stage.turn()
        assert bodies(client) == []
        assert not error_of(end(stage, client, txn, ABORT))
        assert set(bodies(client)) == {"1"}


class TestManyAtOnce:
    def test_open_transactions_are_small(self) -> None:
        """A thousand, at a tenth of what ten thousand may have."""
        with Stage() as stage:
            client = stage.client()
            new(stage, client)
            tracemalloc.start()
            try:
                for _ in range(10):
                    for _ in range(100):
                        ask(client, pb.CommandNewTxn(txn_ttl_millis=60_000))
                    stage.turn()
                    client.take()
                size, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert len(stage.broker.transactions.coordinator.open) == 1001
            assert size < 64 * 1024 * 1024 / 10
            stage.checkpoint()
            stage = stage.restarted()
            assert len(stage.broker.transactions.coordinator.open) == 1001

    def test_a_transaction_has_so_many_parts_and_no_more(self) -> None:
        with Stage(transaction_parts_max=3) as stage:
            client = started(stage)
            names = [f"persistent://public/default/many-{number}" for number in range(4)]
            for name in names:
                stage.topic(name)
            txn = new(stage, client)
            assert error_of(add_topics(stage, client, txn, *names)) == "TooManyRequests"
            assert not error_of(add_topics(stage, client, txn, *names[:3]))
            assert not error_of(add_topics(stage, client, txn, names[0]))  # it has it
            assert error_of(add_subscription(stage, client, txn)) == "TooManyRequests"
            assert not error_of(end(stage, client, txn))

    def test_a_client_that_forgets_them_is_bounded_and_seen(self) -> None:
        """It opens one after another and ends none: refused at the limit, shown, and aborted in time."""
        with Stage(max_active_transactions_per_coordinator=500) as stage:
            client, web = stage.client(), Web(stage)
            refusals = 0
            for _ in range(6):
                asked = [
                    ask(client, pb.CommandNewTxn(txn_ttl_millis=60_000, tc_id=0))
                    for _ in range(100)
                ]
                stage.turn()
                heard = {one.request_id: one for one in client.take()}
                errors = [error_of(heard[request_id]) for request_id in asked]
                refusals += errors.count("TooManyRequests")
                assert set(errors) <= {"", "TooManyRequests"}
            assert refusals == 100
            stats = web("GET /admin/v3/transactions/coordinatorStats").json["0"]
            assert stats["ongoingTxnSize"] == 500
            assert len(web("GET /admin/v3/transactions/slowTransactions/0").json) == 0
            stage.clock.advance(1)
            assert len(web("GET /admin/v3/transactions/slowTransactions/500").json) == 500
            metrics = web("GET /metrics").body.decode()
            assert re.search(r"^pulsar_txn_active_count\S* 500(\.0)?$", metrics, re.M), metrics
            refused = r"^milepost_transactions_refused_total\S* 100(\.0)?$"
            assert re.search(refused, metrics, re.M), metrics
            client.hang_up()
            stage.clock.advance(61)
            service = stage.broker.transactions
            ended = stage.run(_ended_by_tick(service, stage.clock.monotonic()))
            assert ended == ENDS_STEP, "others have their turns between"
            assert not service.coordinator.open
            assert stage.broker.counters.transactions_timed_out == 500
            new(stage, stage.client())

    def test_a_transaction_over_a_thousand_topics(self, stage: Stage) -> None:
        names = [f"persistent://public/default/wide-{number}" for number in range(1000)]
        client = stage.client()
        for name in names:
            stage.topic(name)
        txn = new(stage, client)
        assert not error_of(add_topics(stage, client, txn, *names))
        for number, name in enumerate(names):
            produce(stage, client, number, f"p{number}", topic=name)
            metadata = pb.MessageMetadata(
                producer_name=f"p{number}", sequence_id=0, publish_time=1, **within(txn)
            )
            client.publish(number, metadata, b"wide", txn_id=txn)
        stage.turn()
        client.take()
        records = stage.store.journal.last_sequence
        stage.engine.holds_journal = True
        ask(client, pb.CommandEndTxn(txn_action=COMMIT, **within(txn)))
        stage.turn()
        assert stage.store.journal.last_sequence == records + 1, "one record for all"
        stage.engine.holds_journal = False
        stage.turn()
        assert {stage.topic(name).visible_end for name in names} == {2}
        later = stage.restarted()
        for name in names[::100]:
            assert later.topic(name).visible_end == 2


class _Walked(set[tuple[str, str]]):
    """Counts how often it was walked through."""

    walks = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        type(self).walks += 1
        return super().__iter__()


@pytest.mark.parametrize("topics", [2, 20])
def test_an_end_walks_through_the_subscriptions_of_a_transaction_as_often_for_many_topics(
    stage: Stage, topics: int
) -> None:
    names = [f"persistent://public/default/acked-{number}" for number in range(topics)]
    client = stage.client()
    txn = new(stage, client)
    for number, name in enumerate(names):
        produce(stage, client, number, f"p{number}", topic=name)
        subscribe(stage, client, "s", SHARED, number, permits=9, topic=name)
        metadata = pb.MessageMetadata(producer_name=f"p{number}", sequence_id=0, publish_time=1)
        client.publish(number, metadata, b"one")
        stage.turn()
        add_subscription(stage, client, txn, "s", name)
        ledger_id = stage.topic(name).log.ledgers[0].ledger_id
        reply = ack_in(stage, client, txn, wire_id(ledger_id, 0), consumer_id=number)
        assert not error_of(reply), reply
    found = stage.broker.transactions.coordinator.find(txn)
    found.subscriptions = _Walked(found.subscriptions)
    _Walked.walks = 0
    assert not error_of(end(stage, client, txn))
    assert _Walked.walks <= 2
    assert {counts(stage, "s", name).acked for name in names} == {1}


async def _ended_by_tick(service: Transactions, now_s: float) -> int:
    service.tick(now_s)
    return sum(txn.is_ending for txn in service.coordinator.open.values())


def _added(txn: TxnId, *topics: str) -> pb.CommandAddPartitionToTxn:
    return pb.CommandAddPartitionToTxn(
        txnid_least_bits=txn.least, txnid_most_bits=txn.most, partitions=topics
    )


def _publish_other(client: Loopback, txn: TxnId) -> None:
    metadata = pb.MessageMetadata(producer_name="q", sequence_id=0, publish_time=1, **within(txn))
    client.publish(1, metadata, b"other", txn_id=txn)


class TestWhatIsNotVisible:
    def _open(self, stage: Stage) -> tuple[Loopback, TxnId]:
        client = started(stage, sub_type=SHARED)
        txn = new(stage, client)
        add_topics(stage, client, txn)
        client.say(message(0), message(1, **within(txn)), batch(2, 3, **within(txn)), message(3))
        stage.turn()
        client.take()
        return client, txn

    @pytest.mark.parametrize("entry_id", [1, 2, 3])
    def test_an_ack_of_it_changes_nothing(self, stage: Stage, entry_id: int) -> None:
        client, txn = self._open(stage)
        request(stage, client, ack_command(wire_id(1, entry_id)))
        request(stage, client, ack_command(wire_id(1, entry_id, ack_set=[0b101])))
        add_subscription(stage, client, txn)
        ack_in(stage, client, txn, wire_id(1, entry_id))
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["1", "2.0", "2.1", "2.2", "3"]

    @pytest.mark.parametrize("entry_id", [1, 2, 3])
    def test_a_seek_to_it_goes_to_what_is_visible(self, stage: Stage, entry_id: int) -> None:
        client, txn = self._open(stage)
        request(stage, client, seek_command(wire_id(1, entry_id)))
        client = started(stage, sub_type=SHARED)
        assert not error_of(end(stage, client, txn))
        assert bodies(client) == ["1", "2.0", "2.1", "2.2", "3"]
