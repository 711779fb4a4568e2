"""The link between workers: answers, refusals, strangers, and workers that are not there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from milepost.broker.connection.listener import stop_listening
from milepost.broker.workers import link as link_module
from milepost.broker.workers.link import (
    CALLS_MAX,
    STRANGERS_MAX,
    Answer,
    Check,
    Doc,
    Link,
    Where,
    ask_at,
)
from milepost.errors import NotAuthenticated, ServiceNotReady, ShardAway, TopicNotFound

SECRET = bytes(32)
EPOCH = 3


def serving(number: int) -> Check:
    """The check of a process that serves one shard, since one claim."""

    def check(call: str, shard: int, epoch: int) -> None:
        if (shard, epoch) != (number, EPOCH):
            raise ShardAway(f"shard {shard} of claim {epoch} is served elsewhere")

    return check


def run(play: Callable[[Link, Link, list[str]], Awaitable[None]]) -> None:
    """With two ends, 0 and 1, and the places of errors that no code foresaw."""

    async def played() -> None:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        where = [Where(*one.getsockname(), epoch=EPOCH) for one in sockets]
        unforeseen: list[str] = []
        links = [
            Link(
                where.__getitem__,
                SECRET,
                lambda where, _: unforeseen.append(where),
                serving(number),
            )
            for number in range(2)
        ]
        for link, sock in zip(links, sockets, strict=True):
            sock.setblocking(False)
            await link.listen(sock)
        try:
            await play(*links, unforeseen)
        finally:
            for link in links:
                await link.close(stop_listening)

    asyncio.run(played())


async def echo(said: Doc, body: bytes) -> Answer:
    return {"said": said}, body[::-1]


def test_a_call_is_answered_with_values_and_bytes() -> None:
    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["echo"] = one.answers["echo"] = echo
        large = b"ab" * 1_000_000
        assert await one.ask(1, "echo", {"a": "ü"}, large) == ({"said": {"a": "ü"}}, large[::-1])
        assert await one.ask(0, "echo", {"n": 1}) == ({"said": {"n": 1}}, b"")

    run(play)


def test_a_refusal_is_raised_where_it_was_asked_as_what_it_was() -> None:
    async def missing(said: Doc, body: bytes) -> Answer:
        raise TopicNotFound("topic t does not exist")

    async def stranger(said: Doc, body: bytes) -> Answer:
        raise NotAuthenticated("no_token", "there is no token")

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers |= {"missing": missing, "stranger": stranger}
        with pytest.raises(TopicNotFound, match="topic t does not exist"):
            await one.ask(1, "missing", {})
        with pytest.raises(NotAuthenticated, match="there is no token"):
            await one.ask(1, "stranger", {})
        assert unforeseen == []

    run(play)


def test_a_call_that_reaches_the_process_of_another_shard_or_claim_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is asked: a port is another process's by now."""
    asked: list[str] = []

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        async def noted(said: Doc, body: bytes) -> Answer:
            asked.append("noted")
            return {}, b""

        other.answers["note"] = noted
        right = one._where(1)
        monkeypatch.setattr(one, "_where", lambda number: right)
        for call in ("note", "alive"):
            with pytest.raises(ShardAway, match="shard 0 of claim 3 is served elsewhere"):
                await one.ask(0, call, {})
            with pytest.raises(ShardAway, match="shard 0 of claim 3 is served elsewhere"):
                await ask_at(right, 0, SECRET, call, {}, 5)
            with pytest.raises(ShardAway, match="shard 1 of claim 4 is served elsewhere"):
                await ask_at(right._replace(epoch=4), 1, SECRET, call, {}, 5)
        assert asked == unforeseen == []
        await one.ask(1, "note", {})
        assert asked == ["noted"]

    run(play)


def test_a_call_of_an_earlier_release_names_no_shard_and_is_answered() -> None:
    """Brokers of a cluster are upgraded one at a time."""

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["echo"] = echo
        said = await link_module.exchanged(one._where(1), SECRET, {"call": "echo", "n": 1}, b"ab")
        assert said == ({"said": {"n": 1}}, b"ba")

    run(play)


def test_a_bug_is_told_to_the_log_and_costs_one_call() -> None:
    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["echo"] = echo
        with pytest.raises(ServiceNotReady, match="KeyError: an internal error; the log has it"):
            await one.ask(1, "no such call", {})
        assert unforeseen == ["link"]
        assert await one.ask(1, "echo", {}) == ({"said": {}}, b"")

    run(play)


def test_a_worker_that_is_gone_or_silent_is_named() -> None:
    over = asyncio.Event()

    async def silent(said: Doc, body: bytes) -> Answer:
        await over.wait()
        return {}, b""

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["silent"] = silent
        with pytest.raises(ServiceNotReady, match=r"worker 1 does not answer \(TimeoutError"):
            await one.ask(1, "silent", {}, timeout_s=0.05)
        over.set()
        await other.close(stop_listening)
        with pytest.raises(ServiceNotReady, match="worker 1 does not answer"):
            await one.ask(1, "silent", {}, timeout_s=5)

    run(play)


def test_what_does_not_know_the_secret_is_hung_up_on(caplog: pytest.LogCaptureFixture) -> None:
    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["echo"] = echo
        wrong = Link(one._where, b"\1" * 32, lambda where, _: unforeseen.append(where), serving(0))
        with pytest.raises(ServiceNotReady, match="worker 1 does not answer"):
            await wrong.ask(1, "echo", {})
        reader, writer = await asyncio.open_connection(*one._where(1)[:2])
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
        assert await one.ask(1, "echo", {}) == ({"said": {}}, b"")
        assert unforeseen == []

    run(play)
    assert caplog.text.count("did not know the secret") == 2


def test_very_many_calls_wait_for_their_turn_and_not_for_other_kinds() -> None:
    """A client that asks without end, beside a worker that hangs, does not use up descriptors."""
    over = asyncio.Event()
    under_way: list[int] = []

    async def silent(said: Doc, body: bytes) -> Answer:
        under_way.append(said["n"])
        await over.wait()
        return {}, b""

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers |= {"silent": silent, "echo": echo}
        asked = [
            asyncio.ensure_future(one.ask(1, "silent", {"n": number}))
            for number in range(3 * CALLS_MAX)
        ]
        await one.ask(1, "echo", {})
        async with asyncio.timeout(5):
            while len(under_way) < CALLS_MAX:
                await asyncio.sleep(0)
        with pytest.raises(ServiceNotReady, match=r"worker 1 does not answer \(TimeoutError"):
            await one.ask(1, "silent", {"n": -1}, timeout_s=0.05)
        assert under_way == list(range(CALLS_MAX))
        over.set()
        await asyncio.gather(*asked)
        assert sorted(under_way) == list(range(3 * CALLS_MAX))
        assert unforeseen == []

    run(play)


def test_strangers_that_say_nothing_are_not_kept_in_any_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_module, "GREETING_TIMEOUT_S", 30.0)

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        other.answers["echo"] = echo
        where = one._where(1)[:2]
        silent = [await asyncio.open_connection(*where) for _ in range(STRANGERS_MAX)]
        reader, writer = await asyncio.open_connection(*where)
        async with asyncio.timeout(5):
            assert await reader.read() == b""
        for _, line in (*silent, (reader, writer)):
            line.close()
        async with asyncio.timeout(5):
            while other._strangers:
                await asyncio.sleep(0)
        assert await one.ask(1, "echo", {}) == ({"said": {}}, b"")

    run(play)


def test_a_host_that_is_no_name_is_not_reached() -> None:
    """Another broker gives it: that one's shards are away, and nothing here is a bug."""

    async def play() -> None:
        nowhere = Where("broker..invalid", 1)
        with pytest.raises(ShardAway, match=r"worker 7 does not answer .*label"):
            await ask_at(nowhere, 7, SECRET, "alive", {}, 5.0)

    asyncio.run(play())


def test_a_call_is_cut_when_its_process_hangs_also_if_the_shard_has_another_by_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other one says that it is there, and knows nothing of the call."""
    monkeypatch.setattr(link_module, "PATIENCE_S", 0.05)
    monkeypatch.setattr(link_module, "ALIVE_TIMEOUT_S", 0.1)

    async def play(one: Link, other: Link, unforeseen: list[str]) -> None:
        asked = asyncio.Event()

        async def hang(said: Doc, body: bytes) -> Answer:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("it hangs")

        other.answers |= {"work": hang, "alive": hang}
        before = one._where
        calling = asyncio.ensure_future(one.ask_while_alive(1, "work", {}, b"", 60.0))
        await asked.wait()
        one._where = lambda number: before(0)  # another process serves the shard
        one._check = lambda call, shard, epoch: None
        with pytest.raises(ServiceNotReady, match="worker 1 does not answer"):
            await asyncio.wait_for(calling, 5.0)

    run(play)
