"""Topics and subscriptions that are deleted and made again under open transactions.

What was added to a transaction is what had the name then. Its later messages and acks are refused, whoever
else uses the new one, until it adds the new one too.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from stage.frames import message
from stage.stage import Stage
from stage.talk import SHARED, error_of, subscribe, wire_id
from stage.transactions import (
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

from milepost.broker.operations import recalling, topic_lifecycle
from milepost.errors import AlreadyExists, PersistenceError
from milepost.positions import TxnId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def _made_again(stage: Stage) -> Loopback:
    """A client of the new topic, which has a subscription of the same name."""
    stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(), force=True))
    return started(stage, sub_type=SHARED)


def _used_by_another(stage: Stage, client: Loopback) -> TxnId:
    """Another transaction adds the topic and its subscription, and has sent a message."""
    txn = new(stage, client)
    assert not error_of(add_topics(stage, client, txn))
    assert not error_of(add_subscription(stage, client, txn))
    assert not _refused(stage, client, txn, "another")
    return txn


def _refused(stage: Stage, client: Loopback, txn: TxnId, text: str) -> str:
    """How a message of the transaction is refused; nothing if it is not."""
    client.take()
    sequence = stage.topic().log.end_index
    client.say(message(sequence, text.encode(), **within(txn)))
    stage.turn()
    kinds = [one for one in client.take() if isinstance(one, pb.CommandSendError)]
    return error_of(kinds[0]) if kinds else ""


def _opened(stage: Stage) -> tuple[Loopback, TxnId]:
    """A transaction that has added the topic and its subscription, and used both."""
    client = started(stage, sub_type=SHARED)
    client.say(message(0))
    stage.turn()
    txn = new(stage, client)
    add_topics(stage, client, txn)
    add_subscription(stage, client, txn)
    assert not _refused(stage, client, txn, "of the old topic")
    assert not error_of(ack_in(stage, client, txn, wire_id(*_first(stage))))
    return client, txn


def _first(stage: Stage) -> tuple[int, int]:
    return stage.topic().log.locate(stage.topic().log.first_index).position


class TestATopic:
    @pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
    @pytest.mark.parametrize("is_folded", [False, True], ids=["journaled", "in a checkpoint"])
    def test_later_messages_and_acks_are_refused_though_another_transaction_uses_the_new_one(
        self, stage: Stage, is_restarted: bool, is_folded: bool
    ) -> None:
        _, txn = _opened(stage)
        client = _made_again(stage)
        client.say(message(0))
        stage.turn()
        other = _used_by_another(stage, client)
        if is_folded:
            stage.run(stage.broker.engine.checkpoint())
        if is_restarted:
            stage = stage.restarted()
            client = started(stage, sub_type=SHARED)
        assert _refused(stage, client, txn, "of the old transaction") == "InvalidTxnStatus"
        acked = ack_in(stage, client, txn, wire_id(*_first(stage)))
        assert error_of(acked) == "InvalidTxnStatus"
        assert not error_of(end(stage, client, txn))
        assert not error_of(end(stage, client, other))
        stage = stage.restarted()
        assert bodies(started(stage, sub_type=SHARED)) == ["0", "another"]

    @pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
    def test_it_may_be_added_again(self, stage: Stage, is_restarted: bool) -> None:
        _, txn = _opened(stage)
        client = _made_again(stage)
        client.say(message(0))
        stage.turn()
        assert not error_of(add_topics(stage, client, txn))
        acked = ack_in(stage, client, txn, wire_id(*_first(stage)))
        assert error_of(acked) == "InvalidTxnStatus"  # its subscription is another one, too
        assert not error_of(add_subscription(stage, client, txn))
        if is_restarted:
            stage = stage.restarted()
            client = started(stage, sub_type=SHARED)
        assert not _refused(stage, client, txn, "of the new topic")
        assert not error_of(ack_in(stage, client, txn, wire_id(*_first(stage))))
        assert not error_of(end(stage, client, txn))
        stage = stage.restarted()
        assert bodies(started(stage, sub_type=SHARED)) == ["of the new topic"]

    def test_a_recalled_message_of_the_new_one_lets_no_message_in(self, stage: Stage) -> None:
        """It is what gives the topic a state for transactions."""
        _, txn = _opened(stage)
        client = _made_again(stage)
        stage.run(recalling.prepare(stage.topic(), stage.broker))
        assert _refused(stage, client, txn, "of the old transaction") == "InvalidTxnStatus"
        stage = stage.restarted()
        client = started(stage, sub_type=SHARED)
        assert _refused(stage, client, txn, "of the old transaction") == "InvalidTxnStatus"

    def test_a_caller_that_goes_takes_nothing_from_one_that_waits_for_the_same(
        self, stage: Stage
    ) -> None:
        _opened(stage)
        _made_again(stage)
        topic, broker = stage.topic(), stage.broker
        stage.engine.holds_journal = True
        going, staying = (stage.loop.begin(recalling.prepare(topic, broker)) for _ in range(2))
        stage.turn()
        going.cancel()
        stage.turn()
        assert not staying.done()
        assert topic.transactions is None
        stage.engine.holds_journal = False
        stage.turn()
        assert not staying.exception()
        assert topic.transactions is not None

    def test_other_topics_of_the_transaction_stay(self, stage: Stage) -> None:
        client, txn = _opened(stage)
        stage.topic(OTHER)
        assert not error_of(add_topics(stage, client, txn, OTHER))
        client = _made_again(stage)
        _used_by_another(stage, client)
        stage = stage.restarted()
        assert stage.broker.transactions.coordinator.find(txn).topics == {OTHER}
        assert not stage.broker.transactions.coordinator.find(txn).subscriptions

    def test_a_refusing_disk_lets_no_transaction_use_the_new_one(self, stage: Stage) -> None:
        """Else a kill would find the old transaction as it was, and the new topic ready for it."""
        _, txn = _opened(stage)
        client = _made_again(stage)
        other = new(stage, client)
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(add_topics(stage, client, other)) == "PersistenceError"
        assert stage.topic().transactions is None
        # It is made ready later, and no other fact of the coordinator goes to the disk with that.
        stage.run(recalling.prepare(stage.topic(), stage.broker))
        stage = stage.restarted()
        client = started(stage, sub_type=SHARED)
        assert stage.topic().transactions is not None
        assert _refused(stage, client, txn, "of the old transaction") == "InvalidTxnStatus"


class TestASubscription:
    @staticmethod
    def _made_again(stage: Stage) -> Loopback:
        stage.run(stage.broker.delete_subscription(stage.topic().subscriptions["s"]))
        client = stage.client()
        earliest = pb.CommandSubscribe.Earliest
        subscribe(stage, client, "s", SHARED, permits=10, initialPosition=earliest)
        return client

    @pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
    def test_later_acks_are_refused_until_it_is_added_again(
        self, stage: Stage, is_restarted: bool
    ) -> None:
        _, txn = _opened(stage)
        client = self._made_again(stage)
        assert bodies(client) == ["0"]
        if is_restarted:
            stage = stage.restarted()
            client = started(stage, sub_type=SHARED)
        first = wire_id(*_first(stage))
        assert error_of(ack_in(stage, client, txn, first)) == "InvalidTxnStatus"
        assert not error_of(add_subscription(stage, client, txn))
        assert not error_of(ack_in(stage, client, txn, first))
        assert not error_of(end(stage, client, txn))
        stage = stage.restarted()
        assert bodies(started(stage, sub_type=SHARED)) == ["of the old topic"]

    def test_one_that_could_not_be_deleted_is_still_of_the_transaction(self, stage: Stage) -> None:
        """A client that subscribes meanwhile waits until that is known: what was acked there counts."""
        client, txn = _opened(stage)
        topic, broker = stage.topic(), stage.broker
        going = stage.loop.begin(broker.delete_subscription(topic.subscriptions["s"]))
        coming = stage.loop.begin(broker.create_subscription(topic, "s", 0))
        stage.loop.turn()
        (change,) = stage.engine._changes  # the deletion: who subscribes waits for it

        def refuse(catalog: Any) -> None:
            raise PersistenceError("the catalog refuses")

        change.change = refuse
        stage.turn()
        assert isinstance(going.exception(), PersistenceError)
        assert isinstance(coming.exception(), AlreadyExists)
        assert not error_of(end(stage, client, txn))
        assert counts(stage) == (1, 0, 0, 2)  # acked is what was, and the marker
