"""Transactions with topics of two workers: decided once, carried out by both, whoever is away in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from stage.frames import message, sends
from stage.transactions import within
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.operations.topic_lifecycle import delete_topic
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.topic import Topic
from milepost.broker.transactions.coordinator import Outcome
from milepost.broker.workers import shared_transactions, workers
from milepost.broker.workers.link import Answer, Doc
from milepost.broker.workers.shared_transactions import LOOK_S, SharedTransactions
from milepost.errors import (
    CorruptData,
    InvalidTransactionStatus,
    MilepostError,
    PersistenceError,
    ServiceNotReady,
    TopicNotFound,
    TransactionNotFound,
)
from milepost.positions import TxnId
from milepost.positions.names import TopicName
from milepost.testing.peer import RecordingPeer

WAIT_S = 120
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT


class Scene:
    """A transaction of worker 0 with a message in a topic of each worker."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group
        self.topics = [group.names(number, 1)[0] for number in range(2)]
        self.txn_id = TxnId(0, 0)

    async def begin(self) -> None:
        for number, name in enumerate(self.topics):
            await self.group.brokers[number].topic(TopicName.parse(name))
        self.txn_id = await opened(self.group)
        await added(self.group, self.txn_id, *self.topics)
        for number, name in enumerate(self.topics):
            await sent(self.group, number, name, self.txn_id)

    def shared(self, number: int) -> SharedTransactions:
        found = self.group.brokers[number].transactions.shared
        assert found is not None
        return found

    def end(self, outcome: Outcome) -> asyncio.Future[MilepostError | None]:
        answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()
        service = self.group.brokers[0].transactions
        service.end(self.txn_id, outcome, answer.set_result)
        return answer

    async def found(self, number: int) -> str:
        """What is to be seen of the message in a worker's topic."""
        name = TopicName.parse(self.topics[number])
        topic = await self.group.brokers[number].topic(name, create=False)
        assert topic.transactions is not None
        if topic.visible_end == 0:
            return "held back"
        return "hidden" if 0 in topic.transactions.hidden else "visible"

    async def until(self, number: int, state: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while await self.found(number) != state:
                await asyncio.sleep(0.01)  # sleep: between two looks

    async def restart(self, number: int) -> None:
        await self.group.restart(number)

    def refuse(self, number: int, call: str, error: MilepostError) -> Callable[[], None]:
        """Let a worker refuse a call; what is returned lets it answer again."""
        broker = self.group.brokers[number]
        assert broker.workers is not None
        answers = broker.workers.link.answers
        real = answers[call]

        async def refuse(said: Doc, body: bytes) -> Answer:
            raise error

        answers[call] = refuse
        return lambda: answers.__setitem__(call, real)


async def opened(group: WorkerGroup) -> TxnId:
    service = group.brokers[0].transactions
    await service.make_ready()
    answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()
    txn_id = service.new(timeout_ms=60_000, owner=None, done=answer.set_result)
    assert await answer is None
    return txn_id


async def added(group: WorkerGroup, txn_id: TxnId, *topics: str) -> None:
    service, names = group.brokers[0].transactions, [TopicName.parse(name) for name in topics]
    await service.make_ready_for(txn_id, names)
    answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()
    service.add_topics(txn_id, names, answer.set_result)
    assert await answer is None


async def sent(group: WorkerGroup, number: int, name: str, txn_id: TxnId) -> Topic:
    broker = group.brokers[number]
    topic = await broker.topic(TopicName.parse(name))
    producer = Producer(0, "p", RecordingPeer(), topic)
    topic.publish(producer, sends(message(0, **within(txn_id))))
    await broker.engine.flush()
    return topic


def run(data: Path, play: Callable[[Scene], Awaitable[None]]) -> None:
    async def played() -> None:
        async with worker_group(data, 2) as group:
            scene = Scene(group)
            await scene.begin()
            await play(scene)

    asyncio.run(played())


@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, "visible"), (ABORT, "hidden")])
def test_it_is_answered_when_all_workers_have_carried_it_out(
    tmp_path: Path, outcome: Outcome, state: str
) -> None:
    async def play(scene: Scene) -> None:
        assert [await scene.found(number) for number in range(2)] == ["held back"] * 2
        assert await scene.end(outcome) is None
        assert [await scene.found(number) for number in range(2)] == [state] * 2
        coordinator = scene.group.brokers[0].transactions.coordinator
        assert not coordinator.untold
        assert not scene.group.brokers[1].transactions.coordinator.guests[0].open

    run(tmp_path, play)


def test_operators_are_told_what_it_has_done_to_topics_of_all_workers(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        group, base = scene.group, "/admin/v3/transactions"
        service, there = group.brokers[0].transactions, TopicName.parse(scene.topics[1])
        await service.make_ready_for(scene.txn_id, [there])
        answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()
        service.add_subscriptions(scene.txn_id, [(there, "s")], answer.set_result)
        assert await answer is None
        most, least = scene.txn_id
        for number in range(2):  # whichever is asked
            path = f"{base}/transactionMetadata/{most}/{least}"
            found = (await group.call(number, "GET", path)).json
            slow = (await group.call(number, "GET", f"{base}/slowTransactions/0")).json
            assert slow[str(scene.txn_id)]["producedPartitions"] == found["producedPartitions"]
            starts = {}
            for shard, name in enumerate(scene.topics):
                topic = await group.brokers[shard].topic(TopicName.parse(name), create=False)
                starts[name] = {
                    "startPosition": str(topic.log.locate(0).position),
                    "aborted": False,
                    "messages": 1,
                }
            assert found["producedPartitions"] == starts
            assert found["ackedPartitions"] == {scene.topics[1]: {"s": {}}}

    run(tmp_path, play)


def test_a_worker_that_does_not_say_what_it_has_done_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "TIMEOUT_S", 0.3)

    async def play(scene: Scene) -> None:
        scene.refuse(1, "txn_parts", ServiceNotReady("worker 1 is busy"))
        path = f"/admin/v3/transactions/transactionMetadata/0/{scene.txn_id.least}"
        answer = await scene.group.call(0, "GET", path)
        assert (answer.status, answer.json["reason"]) == (503, "worker 1 is busy")

    run(tmp_path, play)


@pytest.mark.parametrize(("outcome", "state"), [(COMMIT, "visible"), (ABORT, "hidden")])
def test_what_is_decided_is_told_by_the_next_process(
    tmp_path: Path, outcome: Outcome, state: str
) -> None:
    """The coordinator ends between its decision and the answer of the other worker."""

    async def play(scene: Scene) -> None:
        answer_again = scene.refuse(1, "txn_end", ServiceNotReady("away"))
        answer = scene.end(outcome)
        await scene.until(0, state)
        assert not answer.done()
        assert await scene.found(1) == "held back"
        await scene.restart(0)
        assert scene.group.brokers[0].transactions.coordinator.untold
        answer_again()
        await scene.until(1, state)

    run(tmp_path, play)


def test_the_process_of_another_shard_is_not_believed_that_it_has_carried_an_end_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The port of worker 1 is another process's by now, which has no part of the transaction."""
    caplog.set_level("INFO")

    async def play(scene: Scene) -> None:
        answer_again = scene.refuse(1, "txn_end", ServiceNotReady("away"))
        answer = scene.end(COMMIT)
        await scene.until(0, "visible")
        with monkeypatch.context() as patched:
            there = scene.group.brokers[0].workers
            assert there is not None
            patched.setattr(there.link, "_where", lambda number: there.placement.link_of(0))
            async with asyncio.timeout(WAIT_S):
                while "shard 1 is served elsewhere" not in caplog.text and not answer.done():
                    await asyncio.sleep(0.01)  # sleep: between two looks
            assert not answer.done()
            assert scene.group.brokers[0].transactions.coordinator.untold
        answer_again()
        assert await asyncio.wait_for(answer, WAIT_S) is None
        assert await scene.found(1) == "visible"

    run(tmp_path, play)


def test_a_worker_with_a_guest_is_started_again(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        await scene.restart(1)
        assert await scene.found(1) == "held back"
        assert await scene.end(COMMIT) is None
        assert await scene.found(1) == "visible"
        await scene.restart(1)
        assert await scene.found(1) == "visible"

    run(tmp_path, play)


def test_a_process_that_had_the_coordinator_before_does_not_call_open_transactions_aborted(
    tmp_path: Path,
) -> None:
    """Its shard has moved, and the worker with the guest has not heard of it: the next process has given
    ids that this one does not know."""

    async def play(scene: Scene) -> None:
        service = scene.group.brokers[1].transactions
        later = TxnId(0, scene.txn_id.least + 5)
        await service.admit(later, timeout_ms=60_000, owner=None)
        scene.shared(1).tick(LOOK_S)
        answers = scene.shared(0).answers
        with pytest.raises(ServiceNotReady, match="not the process of coordinator 0 any more"):
            await answers["txn_ask"]({"leasts": [scene.txn_id.least, later.least]}, b"")
        await asyncio.sleep(0.2)  # sleep: time to ask, and to end it
        assert service.coordinator.is_open(later)
        said, _ = await answers["txn_ask"]({"leasts": [scene.txn_id.least]}, b"")
        assert said == {"ended": []}

    run(tmp_path, play)


def test_a_caller_that_has_waited_for_long_is_told_that_it_is_decided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_transactions, "ANSWER_S", 0.0)

    async def play(scene: Scene) -> None:
        answer_again = scene.refuse(1, "txn_end", ServiceNotReady("away"))
        error = await asyncio.wait_for(scene.end(COMMIT), WAIT_S)
        assert isinstance(error, ServiceNotReady)
        assert "decided and not everywhere yet" in str(error)
        monkeypatch.setattr(shared_transactions, "ANSWER_S", WAIT_S)
        again = scene.end(COMMIT)
        with pytest.raises(InvalidTransactionStatus, match="it was committed"):
            scene.end(ABORT)
        answer_again()
        assert await asyncio.wait_for(again, WAIT_S) is None
        assert await scene.found(1) == "visible"

    run(tmp_path, play)


def test_a_worker_that_cannot_open_its_topics_keeps_a_commit_from_being_decided(
    tmp_path: Path,
) -> None:
    async def play(scene: Scene) -> None:
        scene.refuse(1, "txn_check", CorruptData("ledger 7 is damaged"))
        assert "ledger 7" in str(await scene.end(COMMIT))
        assert [await scene.found(number) for number in range(2)] == ["held back"] * 2
        assert await scene.end(ABORT) is None
        assert [await scene.found(number) for number in range(2)] == ["hidden"] * 2

    run(tmp_path, play)


def test_one_end_that_cannot_be_carried_out_does_not_keep_others(tmp_path: Path) -> None:
    """And it is carried out when it can be."""

    async def play(scene: Scene) -> None:
        service = scene.group.brokers[1].transactions
        stuck, real = scene.txn_id, service.end

        def end(txn_id: TxnId, outcome: Outcome, done: Callable[..., None]) -> None:
            if txn_id == stuck:
                raise CorruptData("ledger 7 is damaged")
            real(txn_id, outcome, done)

        service.end = end  # type: ignore[method-assign, assignment]
        answer = scene.end(COMMIT)
        await scene.until(0, "visible")
        other = await opened(scene.group)
        await added(scene.group, other, scene.topics[1])
        scene.txn_id = other
        assert await asyncio.wait_for(scene.end(COMMIT), WAIT_S) is None
        assert not answer.done()
        service.end = real  # type: ignore[method-assign]
        assert await asyncio.wait_for(answer, WAIT_S) is None

    run(tmp_path, play)


def test_a_request_to_take_part_that_comes_late_is_refused(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        txn = scene.group.brokers[0].transactions.coordinator.find(scene.txn_id)
        assert await scene.end(COMMIT) is None
        with pytest.raises(InvalidTransactionStatus):
            await scene.shared(0).join(txn, [TopicName.parse(scene.topics[1])], [])

    run(tmp_path, play)


def test_a_request_that_comes_behind_the_end_itself_is_refused(tmp_path: Path) -> None:
    """The end overtook the request: worker 1 had no guest to end, and takes none in any more."""

    async def play(scene: Scene) -> None:
        txn_id = await opened(scene.group)
        txn = scene.group.brokers[0].transactions.coordinator.find(txn_id)
        ends = {"coordinator": 0, "ends": [[txn_id.least, int(ABORT)]]}
        said, _ = await scene.shared(1)._answer_end(ends, b"")
        assert said == {"carried": [txn_id.least], "refused": ""}
        with pytest.raises(InvalidTransactionStatus):
            await scene.shared(0).join(txn, [TopicName.parse(scene.topics[1])], [])

    run(tmp_path, play)


def test_an_end_of_which_a_worker_knows_nothing_is_remembered_by_the_next_process(
    tmp_path: Path,
) -> None:
    async def play(scene: Scene) -> None:
        txn_id = await opened(scene.group)
        ends = {"coordinator": 0, "ends": [[txn_id.least, int(ABORT)]]}
        for _ in range(2):
            said, _ = await scene.shared(1)._answer_end(ends, b"")
            assert said == {"carried": [txn_id.least], "refused": ""}
            scene.group.cut(1)
            await scene.restart(1)
        txn = scene.group.brokers[0].transactions.coordinator.find(txn_id)
        with pytest.raises(InvalidTransactionStatus):
            await scene.shared(0).join(txn, [TopicName.parse(scene.topics[1])], [])

    run(tmp_path, play)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_process_that_can_write_no_more_is_not_believed_that_it_has_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    """It was paused while another broker took its shard over, and the transaction joined there."""

    async def play(scene: Scene) -> None:
        unknown = scene.txn_id.least + 5
        ends = {"coordinator": 0, "ends": [[unknown, int(outcome)]]}

        def gather(state_id: int, fact: bytes, done: Callable[..., None]) -> None:
            done(PersistenceError("the journal is sealed"))

        with monkeypatch.context() as patched:
            patched.setattr(scene.group.brokers[1].store, "gather", gather)
            for _ in range(2):
                said, _ = await scene.shared(1)._answer_end(ends, b"")
                assert said == {"carried": [], "refused": "the journal is sealed"}
        said, _ = await scene.shared(1)._answer_end(ends, b"")
        assert said == {"carried": [unknown], "refused": ""}

    run(tmp_path, play)


def test_an_end_that_meets_the_request_to_take_part_is_told_again(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        service, txn_id = scene.group.brokers[1].transactions, TxnId(0, scene.txn_id.least + 5)
        ends = {"coordinator": 0, "ends": [[txn_id.least, int(COMMIT)]]}
        shared = scene.shared(1)
        real = shared._remember

        def remember(txn_id: TxnId, outcome: Outcome, done: Callable[..., None]) -> None:
            real(txn_id, outcome, done)
            service.coordinator.guests[0].admit(
                txn_id.least, timeout_ms=60_000, now_ms=0, now_s=0, owner=None
            )

        shared._remember = remember  # type: ignore[method-assign]
        said, _ = await scene.shared(1)._answer_end(ends, b"")
        assert said["carried"] == []
        said, _ = await scene.shared(1)._answer_end(ends, b"")
        assert said["carried"] == [txn_id.least]
        assert not service.coordinator.is_open(txn_id)

    run(tmp_path, play)


@pytest.mark.parametrize("outcome", [COMMIT, ABORT])
def test_a_guest_that_was_not_told_is_asked_after(tmp_path: Path, outcome: Outcome) -> None:
    """The coordinator was killed before it had noted that worker 1 takes part."""

    async def play(scene: Scene) -> None:
        txn_id = await opened(scene.group)
        coordinator = scene.group.brokers[0].transactions.coordinator
        await scene.shared(0).join(coordinator.find(txn_id), [TopicName.parse(scene.topics[1])], [])
        guests = scene.group.brokers[1].transactions.coordinator.guests[0]
        scene.shared(1).tick(LOOK_S)
        scene.txn_id = txn_id
        assert await scene.end(outcome) is None
        assert txn_id.least in guests.open
        async with asyncio.timeout(WAIT_S):
            now = LOOK_S
            while txn_id.least in guests.open:
                now += LOOK_S
                scene.shared(1).tick(now)
                await asyncio.sleep(0.01)  # sleep: between two looks
        assert guests.outcome_of(txn_id) is outcome

    run(tmp_path, play)


def test_one_that_its_coordinator_does_not_know_is_aborted(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        coordinator = scene.group.brokers[0].transactions.coordinator
        gone = await opened(scene.group)
        coordinator.never_opened(coordinator.find(gone))
        asked = {"leasts": [scene.txn_id.least, gone.least]}
        said, _ = await scene.shared(0)._answer_ask(asked, b"")
        assert said == {"ended": [[gone.least, int(ABORT)]]}

    run(tmp_path, play)


def test_what_was_not_added_is_refused_at_the_topics_worker(tmp_path: Path) -> None:
    async def play(scene: Scene) -> None:
        coordinator = scene.group.brokers[1].transactions.coordinator
        with pytest.raises(TransactionNotFound):
            coordinator.check_send(TxnId(0, 99), scene.topics[1], None)
        with pytest.raises(InvalidTransactionStatus):
            coordinator.check_send(scene.txn_id, "persistent://public/default/other", None)
        with pytest.raises(TopicNotFound):
            await added(scene.group, scene.txn_id, *scene.group.names(1, 3)[2:])

    run(tmp_path, play)


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("number", [0, 1], ids=["own", "elsewhere"])
def test_a_topic_that_was_made_again_is_not_of_it(
    tmp_path: Path, number: int, is_restarted: bool
) -> None:
    """Though another transaction uses the new one; and it may be added again."""

    async def play(scene: Scene) -> None:
        group, text = scene.group, scene.topics[number]
        topic = await group.brokers[number].topic(TopicName.parse(text), create=False)
        await delete_topic(group.brokers[number], topic, force=True)
        await group.brokers[number].topic(TopicName.parse(text))
        other = await opened(group)
        await added(group, other, text)
        await sent(group, number, text, other)
        if is_restarted:
            await scene.restart(number)

        def check() -> None:
            coordinator = group.brokers[number].transactions.coordinator
            coordinator.check_send(scene.txn_id, text, None)

        with pytest.raises(InvalidTransactionStatus, match="made again"):
            check()
        await added(group, scene.txn_id, text)
        check()
        assert await scene.end(ABORT) is None
        assert [await scene.found(one) for one in (1 - number, number)] == ["hidden", "held back"]

    run(tmp_path, play)
