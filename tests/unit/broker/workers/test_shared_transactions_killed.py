"""Ends of transactions over three shards, with a worker killed or an answer lost at each step.

Whatever happens, and whether the client asks again or not: all of it or nothing is to be seen, the same at
every worker; nothing of what is not decided; nothing is open for ever; and the same end again is answered the
same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from stage.frames import message, sends
from stage.transactions import within
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.operations.topic_lifecycle import delete_topic
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.transaction_ends import End
from milepost.broker.transactions.coordinator import Outcome
from milepost.broker.workers.link import Answer, Doc
from milepost.broker.workers.shared_transactions import LOOK_S
from milepost.errors import CallCut, CorruptData, InvalidTransactionStatus, MilepostError
from milepost.positions import TxnId
from milepost.positions.names import TopicName
from milepost.testing.peer import RecordingPeer

# Each stops and starts workers with real files; the table as a whole takes a minute.
pytestmark = pytest.mark.slow

WAIT_S = 120
WORKERS = 3
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
SEEN = {COMMIT: "visible", ABORT: "hidden"}
# Behind the time-out of every transaction here, on the broker's clock.
LATER_S = 10_000_000.0


class Play:
    """A transaction of coordinator 0 with a message in a topic of each worker."""

    def __init__(self, group: WorkerGroup) -> None:
        self.group = group
        self.topics = [group.names(number, 1)[0] for number in range(WORKERS)]
        self.txn_id = TxnId(0, 0)
        self.happened = asyncio.Event()
        """The step that the play is about has been reached."""

    async def begin(self) -> None:
        names = [TopicName.parse(name) for name in self.topics]
        for number, name in enumerate(names):
            await self.group.brokers[number].topic(name)
        service = self.group.brokers[0].transactions
        await service.make_ready()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[MilepostError | None] = loop.create_future()
        self.txn_id = service.new(timeout_ms=60_000, owner=None, done=answer.set_result)
        assert await answer is None
        await service.make_ready_for(self.txn_id, names)
        answer = loop.create_future()
        service.add_topics(self.txn_id, names, answer.set_result)
        assert await answer is None
        for number, name in enumerate(names):
            broker = self.group.brokers[number]
            topic = await broker.topic(name)
            topic.publish(
                Producer(0, "p", RecordingPeer(), topic),
                sends(message(0, **within(self.txn_id))),
            )
            await broker.engine.flush()

    def end(self, outcome: Outcome) -> asyncio.Future[MilepostError | None]:
        answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()

        def heard(error: MilepostError | None) -> None:
            if not answer.done() and 0 not in self.group.is_cut:  # the dead answer nobody
                answer.set_result(error)

        try:
            self.group.brokers[0].transactions.end(self.txn_id, outcome, heard)
        except MilepostError as error:
            heard(error)
        return answer

    def kill(self, number: int) -> None:
        if not self.happened.is_set():
            self.group.cut(number)
            self.happened.set()

    def replace(self, number: int, call: str, answers: Callable[..., Awaitable[Answer]]) -> None:
        """Let a worker answer a call by what is given, which is given the real answer."""
        workers = self.group.brokers[number].workers
        assert workers is not None
        real = workers.link.answers[call]

        async def answer(said: Doc, body: bytes) -> Answer:
            return await answers(lambda: real(said, body))

        workers.link.answers[call] = answer

    async def found(self, number: int) -> str:
        name = TopicName.parse(self.topics[number])
        topic = await self.group.brokers[number].topic(name, create=False)
        assert topic.transactions is not None
        if topic.visible_end == 0:
            return "held back"
        return "hidden" if 0 in topic.transactions.hidden else "visible"

    async def all_found(self) -> list[str]:
        return [await self.found(number) for number in range(WORKERS)]

    def tick(self, now_s: float) -> None:
        for broker in self.group.brokers.values():
            broker.transactions.tick(now_s)

    def is_open(self) -> bool:
        """Does any worker know the transaction as open, or as one to tell of?"""
        coordinators = [one.transactions.coordinator for one in self.group.brokers.values()]
        return bool(coordinators[0].untold) or any(one.is_open(self.txn_id) for one in coordinators)


# -- the steps ---------------------------------------------------------------------------------------

Step = Callable[[Play], None]


def before_the_check(play: Play) -> None:
    service = play.group.brokers[0].transactions
    real = service._ask_others

    async def ask_others(end: End) -> None:
        play.kill(0)
        await real(end)

    service._ask_others = ask_others  # type: ignore[method-assign]


def before_the_decision(play: Play) -> None:
    service = play.group.brokers[0].transactions
    real = service._submit

    def submit(asked: Any) -> None:
        play.kill(0)
        real(asked)

    service._submit = submit  # type: ignore[method-assign]


def behind_the_decision(play: Play) -> None:
    """It is on the disk, and in no memory yet."""
    service = play.group.brokers[0].transactions
    real = service._make_true

    def make_true(ends: Any, parts: Any) -> None:
        play.kill(0)
        real(ends, parts)

    service._make_true = make_true  # type: ignore[method-assign]


def before_others_are_told(play: Play) -> None:
    shared = play.group.brokers[0].transactions.shared
    assert shared is not None
    real = shared.tell

    def tell(end: End) -> None:
        play.kill(0)
        real(end)

    shared.tell = tell  # type: ignore[method-assign]


def between_the_shards(play: Play) -> None:
    """Worker 1 has carried it out, worker 2 has not heard of it."""
    shared = play.group.brokers[0].transactions.shared
    assert shared is not None
    real = shared._carried

    def carried(least: int, shard: int) -> None:
        play.kill(0)
        real(least, shard)

    async def wait(real: Callable[[], Awaitable[Answer]]) -> Answer:
        await play.happened.wait()
        raise CallCut("the worker that asks is dead")

    shared._carried = carried  # type: ignore[method-assign]
    play.replace(2, "txn_end", wait)


def before_it_is_noted_that_all_know(play: Play) -> None:
    service = play.group.brokers[0].transactions
    real = service.told

    def told(least: int) -> None:
        play.kill(0)
        real(least)

    service.told = told  # type: ignore[method-assign]


def before_the_answer(play: Play) -> None:
    service = play.group.brokers[0].transactions
    real = service.told

    def told(least: int) -> None:
        real(least)
        play.kill(0)

    service.told = told  # type: ignore[method-assign]


def other_killed(call: str, *, is_done: bool) -> Step:
    """Worker 1 is killed when it is asked, or when it has done it and not answered."""

    def step(play: Play) -> None:
        async def answer(real: Callable[[], Awaitable[Answer]]) -> Answer:
            if is_done:
                await real()
            play.kill(1)
            raise EOFError("killed")

        play.replace(1, call, answer)

    return step


def lost(call: str) -> Step:
    """Workers 1 and 2 do what they are asked, and their first answers are lost."""

    def step(play: Play) -> None:
        losses = {1, 2}
        for number in (1, 2):

            async def answer(real: Callable[[], Awaitable[Answer]], number: int = number) -> Answer:
                said = await real()
                if number in losses:
                    losses.discard(number)
                    play.happened.set()
                    raise EOFError("lost")
                return said

            play.replace(number, call, answer)

    return step


COORDINATOR_STEPS = [
    before_the_check,
    before_the_decision,
    behind_the_decision,
    before_others_are_told,
    between_the_shards,
    before_it_is_noted_that_all_know,
    before_the_answer,
]
OTHER_STEPS = {
    "asked whether it can": other_killed("txn_check", is_done=False),
    "has said that it can": other_killed("txn_check", is_done=True),
    "told": other_killed("txn_end", is_done=False),
    "carried out": other_killed("txn_end", is_done=True),
    "answer to the check lost": lost("txn_check"),
    "answer to the end lost": lost("txn_end"),
}
CASES = {one.__name__: one for one in COORDINATOR_STEPS} | OTHER_STEPS
# An abort asks nobody whether it can.
CHECKS = {"before_the_check", *(name for name in OTHER_STEPS if "can" in name or "check" in name)}
# What is not decided then.
UNDECIDED = {"before_the_check", "before_the_decision"}


@pytest.mark.parametrize(
    ("name", "outcome", "asks_again"),
    [
        *((name, COMMIT, asks_again) for name in CASES for asks_again in (True, False)),
        *((name, ABORT, True) for name in CASES if name not in CHECKS),
    ],
)
def test_all_or_nothing(tmp_path: Path, name: str, outcome: Outcome, asks_again: bool) -> None:
    async def played(group: WorkerGroup) -> None:
        play = Play(group)
        await play.begin()
        CASES[name](play)
        answer = play.end(outcome)
        await asyncio.wait_for(play.happened.wait(), WAIT_S)
        assert 0 not in group.is_cut or not answer.done()
        victims = sorted(group.is_cut)
        for number in victims:
            await group.restart(number)
        if victims == [0] and name == "between_the_shards":
            await group.restart(2)  # its answer was held back by the play
        now = await play.all_found()
        final = outcome
        if name in UNDECIDED:
            assert now == ["held back"] * WORKERS
            final = outcome if asks_again else ABORT
        assert set(now) <= {"held back", SEEN[final]}
        if asks_again:
            assert await asyncio.wait_for(play.end(outcome), WAIT_S) is None
            assert await play.all_found() == [SEEN[outcome]] * WORKERS
        async with asyncio.timeout(WAIT_S):
            later_s = LATER_S
            while play.is_open() or set(await play.all_found()) != {SEEN[final]}:
                later_s += LOOK_S
                play.tick(later_s)
                await asyncio.sleep(0.01)  # sleep: between two looks
        if 0 not in victims:
            assert await asyncio.wait_for(answer, WAIT_S) is None
        for number in range(WORKERS):  # and so it stays
            group.cut(number)
            await group.restart(number)
        assert await play.all_found() == [SEEN[final]] * WORKERS
        assert await asyncio.wait_for(play.end(final), WAIT_S) is None
        other = ABORT if final is COMMIT else COMMIT
        assert isinstance(await play.end(other), InvalidTransactionStatus)

    run(tmp_path, played)


def run(data: Path, played: Callable[[WorkerGroup], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with worker_group(data, WORKERS) as group:
            await played(group)

    asyncio.run(whole())


def test_the_time_of_a_transaction_that_is_being_committed_does_not_run_out(
    tmp_path: Path,
) -> None:
    """Neither while others are asked whether they can, nor while they are told."""

    async def played(group: WorkerGroup) -> None:
        play = Play(group)
        await play.begin()

        async def late(real: Callable[[], Awaitable[Answer]]) -> Answer:
            play.tick(LATER_S)
            return await real()

        play.replace(1, "txn_check", late)
        play.replace(2, "txn_end", late)
        assert await asyncio.wait_for(play.end(COMMIT), WAIT_S) is None
        assert await play.all_found() == ["visible"] * WORKERS
        assert group.brokers[0].counters.transactions_timed_out == 0

    run(tmp_path, played)


def test_a_commit_that_comes_when_time_has_run_out_is_refused_and_nothing_is_seen(
    tmp_path: Path,
) -> None:
    """In the turn of the time-out, while others are told of it, and afterwards."""

    async def played(group: WorkerGroup) -> None:
        play = Play(group)
        await play.begin()
        answers = []

        async def late(real: Callable[[], Awaitable[Answer]]) -> Answer:
            answers.append(await play.end(COMMIT))
            return await real()

        play.replace(1, "txn_end", late)
        play.tick(LATER_S)
        answers.append(await play.end(COMMIT))
        async with asyncio.timeout(WAIT_S):
            while play.is_open():
                await asyncio.sleep(0.01)  # sleep: between two looks
        answers.append(await play.end(COMMIT))
        assert [type(one) for one in answers] == [InvalidTransactionStatus] * 3
        assert await play.all_found() == ["hidden"] * WORKERS

    run(tmp_path, played)


def test_a_commit_whose_check_fails_behind_its_time_is_aborted_by_the_next_tick(
    tmp_path: Path,
) -> None:
    async def played(group: WorkerGroup) -> None:
        play = Play(group)
        await play.begin()

        async def refuse(real: Callable[[], Awaitable[Answer]]) -> Answer:
            play.tick(LATER_S)
            raise CorruptData("ledger 7 is damaged")

        play.replace(1, "txn_check", refuse)
        assert isinstance(await asyncio.wait_for(play.end(COMMIT), WAIT_S), CorruptData)
        assert await play.all_found() == ["held back"] * WORKERS
        play.tick(LATER_S)
        async with asyncio.timeout(WAIT_S):
            while play.is_open():
                await asyncio.sleep(0.01)  # sleep: between two looks
        assert await play.all_found() == ["hidden"] * WORKERS

    run(tmp_path, played)


# -- topics that go meanwhile ------------------------------------------------------------------------


async def deleted(play: Play, number: int, *, is_made_again: bool) -> None:
    broker, name = play.group.brokers[number], TopicName.parse(play.topics[number])
    topic = await broker.topic(name, create=False)
    await delete_topic(broker, topic, force=True)
    if is_made_again:
        await broker.topic(name)


@pytest.mark.parametrize("is_made_again", [True, False], ids=["made again", "gone"])
@pytest.mark.parametrize(
    ("moment", "outcome"),
    [
        ("before", COMMIT),
        ("killed behind it", COMMIT),
        ("checked", COMMIT),
        ("told", COMMIT),
        ("told", ABORT),
    ],
)
def test_a_topic_that_is_deleted_meanwhile_does_not_keep_the_others(
    tmp_path: Path, moment: str, is_made_again: bool, outcome: Outcome
) -> None:
    """Deleted, and made again, before the end, before a kill, or while the end is on its way. A message that
    comes to the new topic is of no transaction."""

    async def played(group: WorkerGroup) -> None:
        play = Play(group)
        await play.begin()

        async def delete(real: Callable[[], Awaitable[Answer]]) -> Answer:
            if not play.happened.is_set():
                play.happened.set()
                if moment == "told":
                    await deleted(play, 1, is_made_again=is_made_again)
                    return await real()
                said = await real()
                await deleted(play, 1, is_made_again=is_made_again)
                return said
            return await real()

        if moment == "checked":
            play.replace(1, "txn_check", delete)
        elif moment == "told":
            play.replace(1, "txn_end", delete)
        else:
            await deleted(play, 1, is_made_again=is_made_again)
        if moment == "killed behind it":
            group.cut(1)
            await group.restart(1)
        assert await asyncio.wait_for(play.end(outcome), WAIT_S) is None
        for number in (0, 2):
            assert await play.found(number) == SEEN[outcome]
        assert not play.is_open()
        name = TopicName.parse(play.topics[1])
        assert group.brokers[1].exists(name) is is_made_again
        topic = await group.brokers[1].topic(name)
        topic.publish(Producer(0, "p", RecordingPeer(), topic), sends(message(0)))
        await group.brokers[1].engine.flush()
        for number in range(WORKERS):
            group.cut(number)
            await group.restart(number)
        topic = await group.brokers[1].topic(name, create=False)
        assert (topic.log.end_index, topic.visible_end) == (1, 1)
        assert topic.transactions is None or 0 not in topic.transactions.hidden
        for number in (0, 2):
            assert await play.found(number) == SEEN[outcome]

    run(tmp_path, played)
