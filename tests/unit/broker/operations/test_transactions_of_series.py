"""Transactions that end together, and series of steps that count once, on a stage."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest
from stage.stage import TOPIC, Stage
from stage.talk import answer, ask, error_of, produce, request, subscribe, text_of
from stage.transactions import (
    ABORT,
    COMMIT,
    OTHER,
    add_topics,
    bodies,
    within,
)

from milepost.broker.operations.unasked_ends import ENDS_STEP
from milepost.broker.transactions.series import RUNS_OVER_MAX, Series, SeriesTable
from milepost.errors import ProducerFenced
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
        assert error_of(end(stage, work.client, loser)) == "InvalidTxnStatus"
        assert not error_of(end(stage, work.client, loser, action=ABORT))
        assert heard(work) == 1

    def _commit_of_unknown_outcome(self, stage: Stage, work: Work, txn: TxnId) -> None:
        stage.files.faults.fail("sync", 1, under="journal")
        stage.files.faults.fail("create", 1, under="journal", forever=True)
        assert error_of(end(stage, work.client, txn)) == "PersistenceError"
        stage.files.faults.heal()

    def test_a_new_run_ends_a_commit_of_unknown_outcome(self, stage: Stage, work: Work) -> None:
        """The disk has half heard of it, and the driver is gone."""
        one = new(stage, work.client, "one")
        work.write(one, 0)
        self._commit_of_unknown_outcome(stage, work, one)
        two = new(stage, work.client, "two")
        assert heard(work) == 1
        assert error_of(end(stage, work.client, two)) == "InvalidTxnStatus"
        assert error_of(ask_new(stage, work.client, "two")) == "TransactionConflict"
        assert not stage.broker.transactions.coordinator.open

    def test_beside_a_commit_of_unknown_outcome_there_is_no_other(
        self, stage: Stage, work: Work
    ) -> None:
        one, two = new(stage, work.client), new(stage, work.client)
        work.write(one, 0)
        work.write(two, 1)
        self._commit_of_unknown_outcome(stage, work, one)
        reply = end(stage, work.client, two)
        assert error_of(reply) == "ServiceNotReady", "it may ask again, and is told then"
        assert "another step of series q may be committed" in text_of(reply)
        assert heard(work) == 1
        assert error_of(end(stage, work.client, two)) == "InvalidTxnStatus"
        stage.tick(70)
        assert heard(work) == 0
        assert not stage.broker.transactions.coordinator.open

    def test_a_run_that_another_followed_is_refused(self, stage: Stage, work: Work) -> None:
        new(stage, work.client, "one")
        new(stage, work.client, "two")
        reply = ask_new(stage, work.client, "one")
        assert error_of(reply) == "ProducerFenced"
        assert "run one of series q is over" in text_of(reply)

    def test_without_a_number_nothing_is_remembered(self, stage: Stage, work: Work) -> None:
        for run in ("one", "two"):
            one = new(stage, work.client, run, step=None)
            new(stage, work.client, run, step=None)
            assert not error_of(end(stage, work.client, one))
        coordinator = stage.broker.transactions.coordinator
        assert not coordinator.open
        assert not coordinator.series.last
        # … but that the run is over: no worker that comes late may hold its topics back.
        reply = ask_new(stage, work.client, "two", step=None)
        assert error_of(reply) == "ProducerFenced"
        assert "run two of series q is over: it has ended" in text_of(reply)

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


def end_run(stage: Stage, client: Loopback, run: str, action: Any = ABORT, name: str = "q") -> Any:
    command = pb.CommandEndTxn(txn_action=action, series=pb.TxnSeries(name=name, run=run))
    return request(stage, client, command)


class _Walked(dict[TxnId, Any]):
    """Counts how often it was walked through."""

    walks = 0

    def values(self) -> Any:
        self.walks += 1
        return super().values()

    def items(self) -> Any:
        self.walks += 1
        return super().items()

    def __iter__(self) -> Iterator[TxnId]:
        self.walks += 1
        return super().__iter__()


class TestManyCommitsOnTheirWay:
    def test_a_commit_does_not_look_at_those_of_other_series(
        self, stage: Stage, work: Work
    ) -> None:
        service = stage.broker.transactions
        service._ends = ends = _Walked()
        txns = [new(stage, work.client, name=f"q{number}") for number in range(20)]
        rival = new(stage, work.client, name="q0", step=2)
        stage.engine.holds_journal = True
        asked = [
            ask(work.client, pb.CommandEndTxn(txn_action=COMMIT, **within(txn))) for txn in txns
        ]
        stage.turn()
        assert len(ends) == 20
        assert not ends.walks
        # Another step of one of these series still has to wait.
        assert error_of(end(stage, work.client, rival)) == "ServiceNotReady"
        stage.engine.holds_journal = False
        stage.turn()
        assert not [one for one in asked if error_of(answer(work.client, one, stage))]
        assert not error_of(end(stage, work.client, rival))
        assert not service._committing


class TestRuns:
    @pytest.mark.parametrize("step", [None, 3])
    def test_an_end_of_a_run_ends_all_that_it_has_open(
        self, stage: Stage, work: Work, step: int | None
    ) -> None:
        one, two = (new(stage, work.client, "one", step) for _ in range(2))
        work.write(one, 0, 1)
        work.write(two, 1)
        other = new(stage, work.client, "one", name="another query")
        records = stage.store.journal.last_sequence
        stage.engine.holds_journal = True
        series = pb.TxnSeries(name="q", run="one")
        work.client.say(pb.CommandEndTxn(request_id=99, txn_action=ABORT, series=series))
        stage.turn()
        assert stage.store.journal.last_sequence == records + 1, "one record for all"
        stage.engine.holds_journal = False
        stage.turn()
        assert [error_of(reply) for reply in answered(work.client)] == [""]
        coordinator = stage.broker.transactions.coordinator
        assert list(coordinator.open) == [other.least]
        for topic in (TOPIC, OTHER):
            assert stage.topic(topic).visible_end == stage.topic(topic).log.end_index
        assert error_of(end(stage, work.client, one)) == "InvalidTxnStatus"
        assert error_of(ask_new(stage, work.client, "one", step)) == "ProducerFenced"
        assert not error_of(end_run(stage, work.client, "one")), "asked for again"
        assert not error_of(ask_new(stage, work.client, "two", step))

    def test_a_run_that_ends_before_there_was_any_transaction(self, stage: Stage) -> None:
        """Its workers may come late on a new broker, too, whose coordinator has no state yet."""
        client = stage.client()
        assert not error_of(end_run(stage, client, "one"))
        assert error_of(ask_new(stage, client, "one")) == "ProducerFenced"
        assert not error_of(ask_new(stage, client, "two"))

    def test_an_end_of_an_earlier_run_leaves_the_later_alone(
        self, stage: Stage, work: Work
    ) -> None:
        new(stage, work.client, "one")
        two = new(stage, work.client, "two")
        work.write(two, 0)
        assert not error_of(end_run(stage, work.client, "one"))
        assert not error_of(end(stage, work.client, two))
        assert heard(work) == 1

    @pytest.mark.parametrize("action", [COMMIT, ABORT])
    def test_ends_that_are_on_their_way_are_waited_for_or_left_alone(
        self, stage: Stage, work: Work, action: Any
    ) -> None:
        one, two = new(stage, work.client), new(stage, work.client)
        work.write(one, 0)
        work.write(two, 1)
        stage.engine.holds_journal = True
        work.client.say(
            pb.CommandEndTxn(request_id=98, txnid_least_bits=one.least, txn_action=action)
        )
        series = pb.TxnSeries(name="q", run="r")
        work.client.say(pb.CommandEndTxn(request_id=99, txn_action=ABORT, series=series))
        stage.turn()
        assert not answered(work.client), "neither is durable"
        stage.engine.holds_journal = False
        stage.turn()
        assert not any(error_of(reply) for reply in answered(work.client))
        stage.turn()
        assert not stage.broker.transactions.coordinator.open
        outcomes = stage.broker.transactions.coordinator.outcome_of
        assert [outcomes(txn) for txn in (one, two)] == [action, ABORT]

    @pytest.mark.parametrize("cause", ["a new run", "a commit", "an end of the run"])
    def test_very_many_that_a_run_has_open_are_aborted_bit_by_bit(
        self, stage: Stage, work: Work, cause: str
    ) -> None:
        client, service = work.client, stage.broker.transactions
        winner = new(stage, client)
        series = Series("q", "r", 1)

        def open_many() -> None:
            for _ in range(3 * ENDS_STEP):
                service.new(timeout_ms=60_000, owner=None, series=series, done=lambda error: None)

        stage.here(open_many)
        stage.turn()
        *_, last = service.coordinator.open.values()
        ends: list[int] = []
        make_true = service._make_true
        service._make_true = lambda done, parts: (  # type: ignore[method-assign]
            ends.append(len(done)),
            make_true(done, parts),
        )
        command: Any = pb.CommandEndTxn(
            request_id=9, txn_action=COMMIT, txnid_least_bits=winner.least
        )
        if cause == "a new run":
            ask = pb.TxnSeries(name="q", run="later", step=1)
            command = pb.CommandNewTxn(request_id=9, txn_ttl_millis=60_000, series=ask)
        elif cause == "an end of the run":
            ask = pb.TxnSeries(name="q", run="r")
            command = pb.CommandEndTxn(request_id=9, txn_action=ABORT, series=ask)
        client.say(command)
        while not last.decided:
            stage.loop.turn()
            stage.engine.work()
        assert service.coordinator.is_open(last.txn_id), "others have their turns between"
        late = end(stage, client, last.txn_id)
        assert error_of(late) == "InvalidTxnStatus", "it may not be committed meanwhile"
        stage.turn()
        assert max(ends) <= ENDS_STEP
        left = service.coordinator.open.values()
        assert [one.series.run for one in left if one.series] == ["later"] * (cause == "a new run")

    def test_the_disk_refuses_the_end_of_a_run(self, stage: Stage, work: Work) -> None:
        one = new(stage, work.client)
        work.write(one, 0)
        stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
        assert error_of(end_run(stage, work.client, "r")) == "PersistenceError"
        assert not error_of(end_run(stage, work.client, "r"))
        assert not stage.broker.transactions.coordinator.open

    def test_what_is_open_is_ended_where_transactions_were_switched_off(
        self, stage: Stage, work: Work
    ) -> None:
        work.write(new(stage, work.client, "one"), 0)
        two = new(stage, work.client, "one")
        work.write(two, 0)
        stage._made_with["transaction_coordinator_enabled"] = False
        later = stage.restarted()
        client = later.client()
        assert error_of(ask_new(later, client, "two")) == "NotAllowedError"
        assert not error_of(end(later, client, two, action=ABORT))
        assert not error_of(end_run(later, client, "one"))
        assert later.topic().visible_end == 4  # two messages, two markers

    def test_a_run_of_another_role_is_not_there(self, stage: Stage, work: Work) -> None:
        """A series belongs to the role that opened its transactions."""
        coordinator = stage.broker.transactions.coordinator
        new(stage, work.client)
        stage.broker.transactions.end_run("someone else", Series("q", "r", 1), lambda error: None)
        assert len(coordinator.open) == 1
        assert not error_of(ask_new(stage, work.client))

    def test_bad_ends_of_runs(self, stage: Stage, work: Work) -> None:
        assert "can be aborted, not committed" in text_of(
            end_run(stage, work.client, "r", action=COMMIT)
        )
        assert "the run of a series has 0" in text_of(end_run(stage, work.client, ""))
        assert not error_of(end_run(stage, work.client, "never was"))

    def test_runs_that_are_over_are_remembered_for_a_while(self) -> None:
        table = SeriesTable()
        runs = [Series("q", f"run {number}", None) for number in range(RUNS_OVER_MAX + 1)]
        for run in runs:
            table.end_run("", run)
        table.check("", runs[0], now_ms=0)
        for run in (runs[1], runs[-1]):
            with pytest.raises(ProducerFenced):
                table.check("", run, now_ms=0)


def answered(client: Loopback) -> list[Any]:
    return [one for one in client.take() if hasattr(one, "request_id")]
