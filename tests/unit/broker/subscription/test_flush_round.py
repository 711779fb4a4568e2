"""A round: feeds, flushes, then what comes afterwards; nobody is forgotten behind one that breaks down."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from milepost.broker.subscription.flush_round import WORK_S, FlushRound


def unheard(place: str, error: BaseException) -> None:
    raise AssertionError(f"{place} broke down") from error


def still() -> float:
    """A clock for rounds that take no time."""
    return 0.0


async def next_round() -> None:
    """The round of read loops that had a turn in the last: one turn of the loop lies between."""
    for _ in range(2):
        await asyncio.sleep(0)


class Sink:
    def __init__(self, name: str, flushed: list[str], then: Callable[[], None] | None = None):
        self.name = name
        self.flushed = flushed
        self.then = then

    def flush(self) -> None:
        self.flushed.append(self.name)
        if self.then is not None:
            self.then()


def test_what_was_added_in_a_turn_is_flushed_in_the_next_one_the_last_first() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        for name in "abc":
            this.flush(Sink(name, flushed))
        assert flushed == []
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]

    asyncio.run(run())


def test_receipts_and_answers_of_one_commit_leave_in_one_piece() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)

        def commit() -> None:
            this.flush(Sink("answer", flushed))
            this.afterwards(lambda: flushed.append("receipts"))

        this.during(commit)
        assert flushed == ["receipts", "answer"]
        flushed.clear()
        this.dispatch(lambda: flushed.append("messages"))  # they do not wait for receipts
        this.flush(Sink("consumer", flushed))
        this.afterwards(lambda: flushed.append("receipts"))
        await asyncio.sleep(0)
        assert flushed == ["messages", "consumer", "receipts"]

    asyncio.run(run())


def test_what_a_socket_brings_is_committed_ahead_of_what_feeds_still_have_to_do() -> None:
    happened: list[str] = []

    async def run() -> None:
        this, loop = FlushRound(unheard, still), asyncio.get_running_loop()
        client, server = socket.socketpair()
        is_over = loop.create_future()

        def feed() -> None:
            happened.append("feed")
            if happened.count("feed") == 1:
                client.send(b"a publish")
            if happened.count("feed") < 3:
                this.dispatch(feed)
            else:
                is_over.set_result(None)

        def hear() -> None:
            server.recv(100)
            loop.call_soon(happened.append, "commit")

        with client, server:
            loop.add_reader(server, hear)
            this.dispatch(feed)
            await is_over
            loop.remove_reader(server)

    uvloop.run(run())
    assert happened == ["feed", "commit", "feed", "feed"]


def test_what_feeds_write_goes_along() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        this.flush(Sink("producer", flushed))
        this.dispatch(lambda: this.flush(Sink("consumer", flushed)))
        await asyncio.sleep(0)
        assert flushed == ["consumer", "producer"]

    asyncio.run(run())


def test_one_that_is_added_while_others_are_flushed_has_its_turn() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        late = Sink("late", flushed)
        this.flush(Sink("early", flushed, then=lambda: this.flush(late)))
        await asyncio.sleep(0)
        assert flushed == ["early"]
        await asyncio.sleep(0)
        assert flushed == ["early", "late"]

    asyncio.run(run())


def test_one_that_breaks_down_keeps_nobody_waiting() -> None:
    flushed: list[str] = []
    failures: list[str] = []

    def fail() -> None:
        raise RuntimeError("broken")

    async def run() -> None:
        this = FlushRound(lambda place, error: failures.append(f"{place}: {error}"), still)
        this.flush(Sink("a", flushed))
        this.flush(Sink("b", flushed, then=fail))
        this.flush(Sink("c", flushed))
        await asyncio.sleep(0)
        assert flushed == ["c", "b", "a"]

    asyncio.run(run())
    assert failures == ["flush: broken"]


def test_what_comes_afterwards_is_done_when_the_messages_are_out_and_flushed_in_the_same_round() -> (
    None
):
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        this.afterwards(lambda: this.flush(Sink("receipt", flushed)))
        this.dispatch(lambda: this.flush(Sink("message", flushed)))
        await asyncio.sleep(0)
        assert flushed == ["message", "receipt"]

    asyncio.run(run())


def test_behind_a_piece_of_work_its_round_comes_at_once() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)

        def work() -> None:
            this.afterwards(lambda: this.flush(Sink("receipt", flushed)))
            this.dispatch(lambda: this.flush(Sink("message", flushed)))
            assert flushed == []

        this.during(work)
        assert flushed == ["message", "receipt"]
        await asyncio.sleep(0)
        this.flush(Sink("later", flushed))
        await asyncio.sleep(0)
        assert flushed == ["message", "receipt", "later"]

    asyncio.run(run())


def test_a_round_that_comes_early_takes_nobody_s_turn_who_asks_after_it() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        this.flush(Sink("before", flushed))
        this.during(lambda: this.flush(Sink("work", flushed)))
        assert flushed == ["work", "before"]
        this.flush(Sink("after", flushed))
        await asyncio.sleep(0)
        assert flushed == ["work", "before", "after"]

    asyncio.run(run())


def test_a_feed_that_asks_again_has_its_turn_in_the_next_round() -> None:
    runs: list[int] = []

    async def run() -> None:
        this = FlushRound(unheard, still)

        def feed() -> None:
            runs.append(len(runs))
            if len(runs) < 3:
                this.dispatch(feed)

        this.during(lambda: this.dispatch(feed))
        assert runs == [0]
        await next_round()
        assert runs == [0, 1]
        await next_round()
        assert runs == [0, 1, 2]

    asyncio.run(run())


def test_work_that_fails_is_followed_by_its_round_all_the_same() -> None:
    flushed: list[str] = []

    def work(this: FlushRound) -> None:
        this.flush(Sink("told", flushed))
        raise RuntimeError("broken")

    async def run() -> None:
        this = FlushRound(unheard, still)
        with pytest.raises(RuntimeError, match="broken"):
            this.during(lambda: work(this))
        assert flushed == ["told"]

    asyncio.run(run())


def test_a_feed_that_breaks_down_keeps_nobody_waiting() -> None:
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("broken")

    async def run() -> None:
        this = FlushRound(lambda place, error: done.append(f"{place}: {error}"), still)

        def work() -> None:
            this.afterwards(lambda: done.append("receipt"))
            this.dispatch(fail)
            this.dispatch(lambda: done.append("feed"))
            this.flush(Sink("session", done))

        this.during(work)
        assert done == ["feed: broken", "feed", "session", "receipt"]

    asyncio.run(run())


def test_read_loops_that_wait_for_their_own_turn_do_not_hold_up_the_receipts_of_a_commit() -> None:
    flushed: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, still)
        this.dispatch(lambda: this.flush(Sink("busy", flushed)))

        def work() -> None:
            this.afterwards(lambda: this.flush(Sink("receipt", flushed)))
            this.dispatch(lambda: this.flush(Sink("message", flushed)))

        this.during(work)
        assert flushed == ["message", "receipt"]
        await asyncio.sleep(0)
        assert flushed == ["message", "receipt", "busy"]

    asyncio.run(run())


def test_read_loops_that_take_long_leave_the_others_to_the_next_round() -> None:
    now = 0.0
    happened: list[str] = []

    async def run() -> None:
        this = FlushRound(unheard, lambda: now)

        def reads(name: str) -> Callable[[], None]:
            def work() -> None:
                nonlocal now
                now += 0.6 * WORK_S
                happened.append(name)
                if name == "first":
                    this.dispatch(reads("first again"))

            return work

        def told() -> None:
            for name in ("first", "second", "third", "fourth"):
                this.dispatch(reads(name))
            this.afterwards(lambda: happened.append("receipts"))

        this.during(told)
        assert happened == ["first", "second", "receipts"]
        await next_round()
        assert happened[3:] == ["third", "fourth"]
        await next_round()
        assert happened[5:] == ["first again"]
        await next_round()
        assert len(happened) == 6

    asyncio.run(run())
