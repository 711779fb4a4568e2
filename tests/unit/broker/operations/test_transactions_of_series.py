"""Transactions that end together, and series of steps that count once, on a stage."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from stage.stage import TOPIC, Stage
from stage.talk import error_of, produce, request, subscribe, text_of
from unit.broker.operations.test_transactions import (
    ABORT,
    COMMIT,
    OTHER,
    add_topics,
    bodies,
    within,
)

from milepost.positions import TxnId
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as one:
        yield one


def ask_new(
    stage: Stage, client: Loopback, run: str = "r", step: int | None = 1, name: str = "q"
) -> Any:
    series = pb.TxnSeries(name=name, run=run, step=step)
    return request(stage, client, pb.CommandNewTxn(txn_ttl_millis=60_000, series=series))


def new(stage: Stage, client: Loopback, *args: Any, **more: Any) -> TxnId:
    reply = ask_new(stage, client, *args, **more)
    assert not error_of(reply), reply
    return TxnId(reply.txnid_most_bits, reply.txnid_least_bits)


def end(stage: Stage, client: Loopback, *txns: TxnId, action: Any = COMMIT) -> Any:
    first, *others = txns
    command = pb.CommandEndTxn(
        txnid_least_bits=first.least,
        txnid_most_bits=first.most,
        txn_action=action,
        also_txnid_least_bits=[one.least for one in others],
    )
    return request(stage, client, command)


class Work:
    """A client that writes to two topics, and hears both."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.client = stage, stage.client()
        stage.topic(OTHER)
        for number, topic in enumerate((TOPIC, OTHER)):
            produce(stage, self.client, number, f"p{number}", topic=topic)
            subscribe(stage, self.client, "s", consumer_id=number, topic=topic, permits=100)
        self._sequence = 0

    def write(self, txn: TxnId, *producers: int) -> None:
        topics = (TOPIC, OTHER)
        added = add_topics(self.stage, self.client, txn, *(topics[one] for one in producers))
        assert not error_of(added)
        for one in producers:
            metadata = pb.MessageMetadata(
                producer_name=f"p{one}", sequence_id=self._sequence, publish_time=1, **within(txn)
            )
            self.client.publish(one, metadata, b"%d" % self._sequence, txn_id=txn)
            self._sequence += 1
        self.stage.turn()
        assert bodies(self.client) == []


@pytest.fixture
def work(stage: Stage) -> Work:
    return Work(stage)


def heard(work: Work) -> int:
    work.stage.turn()
    return len(bodies(work.client))


class TestTogether:
    @pytest.mark.parametrize("checkpoint", [False, True])
    def test_they_are_seen_at_once_and_after_a_restart(
        self, stage: Stage, work: Work, checkpoint: bool
    ) -> None:
        one, two = new(stage, work.client), new(stage, work.client)
        work.write(one, 0, 1)
        work.write(two, 1)
        assert not error_of(end(stage, work.client, one, two))
        assert heard(work) == 3
        with stage.restarted(checkpoint=checkpoint) as later:
            assert later.topic(OTHER).visible_end == 4  # two messages, two markers
            client = later.client()
            assert error_of(ask_new(later, client, run="later")) == "TransactionConflict"
            # The same end again is answered the same way.
            assert not error_of(end(later, client, one, two))
            assert error_of(end(later, client, one, two, action=ABORT)) == "InvalidTxnStatus"

    def test_an_end_that_the_disk_has_not_is_none_for_all(self, stage: Stage, work: Work) -> None:
        one, two = new(stage, work.client), new(stage, work.client)
        work.write(one, 0)
        work.write(two, 1)
        command = pb.CommandEndTxn(
            request_id=99,
            txnid_least_bits=one.least,
            txn_action=COMMIT,
            also_txnid_least_bits=[two.least],
        )
        records = stage.store.journal.last_sequence
        stage.engine.holds_journal = True
        work.client.say(command)
        stage.turn()
        assert stage.store.journal.last_sequence == records + 1
        with stage.restarted() as later:
            for topic in (TOPIC, OTHER):
                assert later.topic(topic).visible_end == 0
            client = later.client()
            assert not error_of(end(later, client, one, two, action=ABORT))
            assert not error_of(ask_new(later, client))

    def test_aborts_pass_over_what_was_aborted_before(self, stage: Stage, work: Work) -> None:
        one, two = new(stage, work.client), new(stage, work.client)
        end(stage, work.client, one, action=ABORT)
        assert not error_of(end(stage, work.client, two, one, action=ABORT))
        assert not stage.broker.transactions.coordinator.open

    def test_what_was_committed_alone_is_no_step_with_others(
        self, stage: Stage, work: Work
    ) -> None:
        one = new(stage, work.client, step=1)
        two = new(stage, work.client, step=2)
        end(stage, work.client, one)
        reply = end(stage, stage.client(), one, two)
        assert error_of(reply) == "InvalidTxnStatus", reply
        assert not error_of(end(stage, work.client, two))

    def test_different_series_are_no_step(self, stage: Stage, work: Work) -> None:
        one, two = new(stage, work.client), new(stage, work.client, name="other")
        reply = end(stage, work.client, one, two)
        assert "they are of different series" in text_of(reply)
        assert len(stage.broker.transactions.coordinator.open) == 2

    def test_unknown_ones_keep_the_others_open(self, stage: Stage, work: Work) -> None:
        one = new(stage, work.client)
        reply = end(stage, work.client, one, TxnId(0, 77))
        assert error_of(reply) == "TransactionNotFound"
        assert not error_of(end(stage, work.client, one))


class TestSteps:
    def test_a_step_is_committed_once(self, stage: Stage, work: Work) -> None:
        """Two runs try it, the second while the first is about to commit."""
        one = new(stage, work.client, "one")
        work.write(one, 0)
        two = new(stage, work.client, "two")
        work.write(two, 0)
        assert error_of(end(stage, work.client, one)) == "InvalidTxnStatus"  # aborted by two
        assert not error_of(end(stage, work.client, two))
        assert heard(work) == 1
        reply = ask_new(stage, work.client, "three")
        assert error_of(reply) == "TransactionConflict"
        assert text_of(reply) == "step 1 of series q was committed before"
        reply = ask_new(stage, work.client, "three", step=0)
        assert error_of(reply) == "NotAllowedError"
        assert "has committed step 1, and is at step 0 again" in text_of(reply)
        assert not error_of(ask_new(stage, work.client, "three", step=2))

    def test_a_commit_of_an_old_run_that_is_on_its_way_wins(self, stage: Stage, work: Work) -> None:
        one = new(stage, work.client, "one")
        work.write(one, 0)
        stage.engine.holds_journal = True
        command = pb.CommandEndTxn(request_id=98, txnid_least_bits=one.least, txn_action=COMMIT)
        work.client.say(command)
        two = pb.TxnSeries(name="q", run="two", step=1)
        work.client.say(pb.CommandNewTxn(request_id=99, txn_ttl_millis=60_000, series=two))
        stage.turn()
        (late,) = [
            txn for txn in stage.broker.transactions.coordinator.open.values() if not txn.is_ending
        ]
        command = pb.CommandEndTxn(
            request_id=100, txnid_least_bits=late.txn_id.least, txn_action=COMMIT
        )
        work.client.say(command)
        stage.turn()
        stage.engine.holds_journal = False
        stage.turn()
        answers = {one.request_id: one for one in answered(work.client)}
        assert not error_of(answers[98])
        assert error_of(answers[100]) == "ServiceNotReady", "it may ask again, and is told then"
        stage.turn()
        assert not stage.broker.transactions.coordinator.open
        assert error_of(ask_new(stage, work.client, "two")) == "TransactionConflict"

    def test_what_a_series_has_open_beside_a_commit_is_aborted(
        self, stage: Stage, work: Work
    ) -> None:
        winner, loser = new(stage, work.client), new(stage, work.client)
        work.write(loser, 0)
        work.write(winner, 0)
        assert not error_of(end(stage, work.client, winner))
        assert heard(work) == 1
        coordinator = stage.broker.transactions.coordinator
        assert not coordinator.open
        assert error_of(end(stage, work.client, loser)) == "InvalidTxnStatus"

    def test_a_loser_that_the_disk_keeps_open_cannot_be_committed(
        self, stage: Stage, work: Work
    ) -> None:
        winner, loser = new(stage, work.client), new(stage, work.client)
        work.write(loser, 0)
        work.write(winner, 0)
        stage.files.faults.fail("sync", 2, error=errno.ENOSPC)  # the first is of the commit
        assert not error_of(end(stage, work.client, winner))
        assert [txn.txn_id for txn in stage.broker.transactions.coordinator.open.values()] == [
            loser
        ]
        assert error_of(end(stage, work.client, loser)) == "TransactionConflict"
        assert not error_of(end(stage, work.client, loser, action=ABORT))
        assert heard(work) == 1

    def test_a_run_that_another_followed_is_refused(self, stage: Stage, work: Work) -> None:
        new(stage, work.client, "one")
        new(stage, work.client, "two")
        reply = ask_new(stage, work.client, "one")
        assert error_of(reply) == "ProducerFenced"
        assert "run one of series q is over" in text_of(reply)

    def test_without_a_number_nothing_is_remembered(self, stage: Stage, work: Work) -> None:
        for _ in range(2):
            one = new(stage, work.client, step=None)
            new(stage, work.client, step=None)
            assert not error_of(end(stage, work.client, one))
        coordinator = stage.broker.transactions.coordinator
        assert not coordinator.open
        assert not coordinator.series.last

    def test_the_parts_of_a_step_are_limited_together(self, work: Work) -> None:
        with Stage(transaction_parts_max=2) as stage:
            work = Work(stage)
            one, two = new(stage, work.client), new(stage, work.client)
            work.write(one, 0, 1)
            reply = add_topics(stage, work.client, two, TOPIC)
            assert error_of(reply) == "TooManyRequests"
            assert "more than 2 topics and subscriptions" in text_of(reply)

    @pytest.mark.parametrize(
        ("name", "run", "said"),
        [("", "r", "the name of a series has 0"), ("q", "r" * 513, "the run of a series has 513")],
    )
    def test_bad_names(self, stage: Stage, work: Work, name: str, run: str, said: str) -> None:
        assert said in text_of(ask_new(stage, work.client, run, name=name))
        assert not stage.broker.transactions.coordinator.open


def answered(client: Loopback) -> list[Any]:
    return [one for one in client.take() if hasattr(one, "request_id")]
