"""The agent of a broker: orders, the right to serve, and others that are gone."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from stage.certificates import Authority
from stage.hurried import hurry
from stage.ports import free_port

from milepost.errors import CallCut, ServiceNotReady
from milepost.storage.bucket.objects import Failed, Get, Put, Reply, Request, Scan
from milepost.storage.bucket.watched import WatchedObjects
from milepost.storage.cluster import agent, hail, member
from milepost.storage.cluster.agent import Agent
from milepost.storage.cluster.link_tls import LinkTls
from milepost.storage.cluster.member import Close, Fetch, Member, Open, Order
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.owners import OwnersFile
from milepost.storage.cluster.right import SharedRight
from milepost.testing.bucket import MemoryBucket

WAIT_S = 120
SECRET = b"s" * 32


class Side:
    """An agent, and what it ordered; orders are carried out at once."""

    def __init__(
        self, name: str, bucket: MemoryBucket, data: Path, tls: LinkTls | None = None
    ) -> None:
        data.mkdir()
        self.data = data
        self.hail = socket.create_server(("127.0.0.1", 0))
        self.hail.setblocking(False)
        notice = Notice(
            name, "127.0.0.1", "m", 1, 0, self.hail.getsockname()[1], "", "", "", False, {}
        )
        self.member = Member(notice, 2)
        now = asyncio.get_running_loop().time
        self.right = SharedRight(now)
        self.orders: list[Order] = []
        self.standby = 0
        self.agent = Agent(
            WatchedObjects(bucket, now),
            self.member,
            self.right,
            data,
            SECRET,
            self.ordered,
            now,
            tls,
        )
        self.fetches_from: Side | None = None
        # Does a process that is told to end take its time?
        self.lingers = False
        self.task = asyncio.get_running_loop().create_task(
            self.agent.run(self.hail, self.stands_by)
        )

    def stands_by(self) -> None:
        self.standby += 1

    def ordered(self, order: Order) -> None:
        self.orders.append(order)
        loop = asyncio.get_running_loop()
        if isinstance(order, Open):
            seat = Seat(order.epoch + 1, "127.0.0.1", 1, -1, 2)
            loop.call_soon(self.agent.opened, order.shard, seat)
        elif isinstance(order, Fetch):
            loop.call_soon(self.fetched, order.shard)
        elif not self.lingers:
            loop.call_soon(self.agent.ended, order.shard)

    def fetched(self, shard: int) -> None:
        """Its owner hands it over, unless it hangs."""
        if self.fetches_from is not None:
            self.agent.opened(shard, Seat(2, "127.0.0.1", 1, -1, 2))
            self.fetches_from.agent.ended(shard)

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        self.hail.close()

    def shards(self) -> set[int]:
        return set(OwnersFile(self.data).served)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not holds():
            await asyncio.sleep(0.01)  # sleep: between two looks


def run(tmp_path: Path, play: Callable[[MemoryBucket, Side, Side], Awaitable[None]]) -> None:
    async def played() -> None:
        bucket = MemoryBucket()
        one = Side("a", bucket, tmp_path / "a")
        await until(lambda: len(one.member.notice.shards) == 2)
        other = Side("b", bucket, tmp_path / "b")
        one.fetches_from, other.fetches_from = other, one
        try:
            await until(lambda: other.orders != [] and 1 in other.shards() and 1 in one.shards())
            await play(bucket, one, other)
        finally:
            for side in (one, other):
                await side.die()

    hurry(played())


def test_shards_are_shared_and_taken_from_a_broker_that_is_gone(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        assert one.orders == [Open(0, 0), Open(1, 0)]
        assert other.orders == [Fetch(1)]
        await one.die()
        await until(lambda: Open(0, 0) in other.orders)

    run(tmp_path, play)


def test_a_shard_that_comes_back_waits_for_the_process_that_gave_it_away(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        # The other broker has shard 1; the process that gave it away is not gone.
        one.lingers = True
        one.member.opened(1, Seat(1, "127.0.0.1", 1, -1, 2))
        question = {"fetch": 1, "stays": True}
        port = one.member.notice.hail_port
        asking = asyncio.ensure_future(hail.ask("127.0.0.1", port, SECRET, question))
        await asyncio.sleep(0.1)  # sleep: the question arrives
        assert not asking.done()
        assert Fetch(1) not in one.orders
        one.agent.ended(1)
        assert await asking == {"broker": "a"}
        assert one.orders.count(Fetch(1)) == 1

    run(tmp_path, play)


def test_a_question_that_may_have_been_heard_is_told_from_one_that_was_not_asked(
    tmp_path: Path,
) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        port = one.member.notice.hail_port
        with pytest.raises(CallCut, match="does not answer"):
            await hail.ask("127.0.0.1", port, b"x" * 32, {"fetch": 1})  # hung up on behind it
        with pytest.raises(ServiceNotReady) as told:
            await hail.ask("127.0.0.1", free_port(), SECRET, {"fetch": 1})
        assert not isinstance(told.value, CallCut)

    run(tmp_path, play)


def test_a_shard_that_is_being_fetched_already_is_fetched_once(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        one.fetches_from = None  # the owner takes its time
        question = {"fetch": 1, "stays": True}
        port = one.member.notice.hail_port
        for _ in range(2):
            assert await hail.ask("127.0.0.1", port, SECRET, question) == {"broker": "a"}
        assert one.orders.count(Fetch(1)) == 1

    run(tmp_path, play)


def test_a_broker_that_leaves_gives_all_back_and_takes_its_notice_away(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        one.agent.leave()
        await asyncio.wait_for(one.task, WAIT_S)
        assert Fetch(0) in other.orders
        assert not any(isinstance(order, Close) for order in one.orders)
        assert "board/a" not in bucket.objects

    run(tmp_path, play)


def test_a_shard_that_is_not_fetched_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        monkeypatch.setattr(member, "OFFER_S", 0.2)
        other.fetches_from = None
        one.agent.leave()
        await asyncio.wait_for(one.task, WAIT_S)
        assert one.orders[-1] == Close(0)

    run(tmp_path, play)


def test_a_question_to_an_agent_needs_the_secret_and_a_shard_that_it_can_fetch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        port = one.member.notice.hail_port
        for secret, values, told in (
            (b"x" * 32, {"fetch": 1}, "does not answer"),
            (SECRET, {"fetch": 0}, "broker a has shard 0"),
            (SECRET, {"fetch": 7}, "there is no shard 7"),
            (SECRET, {"fetch": "1"}, "does not understand"),
            (SECRET, {"fetch": True}, "does not understand"),
            (SECRET, {"fetch": 1, "to": "c"}, "broker c is gone; broker a has its port"),
            (SECRET, {}, "does not understand"),
        ):
            with pytest.raises(ServiceNotReady, match=told):
                await hail.ask("127.0.0.1", port, secret, values)
        for line in (b"?\n", b"?[]\n", b"?" + b"[" * 60_000 + b"\n", b"?" + b"x" * 100_000 + b"\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(line)
            assert await reader.read() == b""
            writer.close()
        answer = await hail.ask("127.0.0.1", port, SECRET, {"fetch": 1, "to": "a"})
        assert answer == {"broker": "a"}
        await until(lambda: one.orders[-1] == Fetch(1))

    run(tmp_path, play)
    assert caplog.text.count("a question to the agent was not answered") == 5
    assert "Traceback" not in caplog.text


def test_a_notice_that_is_not_taken_renews_no_right(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        def fault(request: Request) -> Failed | None:
            is_own = isinstance(request, Put) and request.key == "board/a"
            return Failed("no") if is_own else None

        bucket.fault = fault
        idle = one.right.idle_s()
        await until(lambda: one.right.idle_s() > idle + 1.5)
        await until(lambda: other.right.idle_s() < one.right.idle_s() - 1)

    run(tmp_path, play)


@pytest.mark.parametrize(
    ("expired", "foreign", "why"),
    [
        (True, False, "certificate has expired"),
        (False, True, "self-signed|unable to get local issuer"),
    ],
)
def test_a_broker_that_is_not_trusted_is_named_once(
    tmp_path: Path, expired: bool, foreign: bool, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its shards would not move, and nothing else would say why."""
    authority, other_authority = Authority("of the cluster"), Authority("another")
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    good = authority.issue("one", is_server=True).write(tmp_path, "one")
    issuer = other_authority if foreign else authority
    bad = issuer.issue("other", is_server=True, expired=expired).write(tmp_path, "other")

    def tls_of(files: Any) -> LinkTls:
        return LinkTls(files.certificate, files.key, tmp_path / "ca.pem")

    async def play() -> None:
        bucket = MemoryBucket()
        one = Side("one", bucket, tmp_path / "1", tls_of(good))
        other = Side("other", bucket, tmp_path / "2", tls_of(bad))
        try:
            await until(lambda: "no TLS with it" in caplog.text)
            for _ in range(3):
                one.agent.opened(0, Seat(1, "127.0.0.1", 1, -1, 2))  # news for the other
                await asyncio.sleep(0.1)  # sleep: it is told
        finally:
            await one.die()
            await other.die()

    hurry(play())
    lines = [
        line for line in caplog.text.splitlines() if "broker other at 127.0.0.1: no TLS" in line
    ]
    assert len(lines) == 1
    assert re.search(why, lines[0])


class SlowBucket(MemoryBucket):
    """Answers no question for some keys until it is told to."""

    def __init__(self, *slow: str) -> None:
        super().__init__()
        self.slow = slow
        self.hurry = asyncio.Event()

    async def answer(self, request: Request) -> Reply:
        if isinstance(request, Get) and request.key in self.slow:
            await self.hurry.wait()
        return await super().answer(request)


def test_a_manifest_that_is_read_late_keeps_no_other_shard_from_being_opened(
    tmp_path: Path,
) -> None:
    """What was decided before the bucket became slow is ordered, not forgotten: on the board the broker
    says that it is about to have these shards, so no other one opens them."""

    async def play() -> None:
        bucket = SlowBucket("shards/1/manifest")
        one = Side("a", bucket, tmp_path / "a")
        try:
            await until(lambda: one.orders == [Open(0, 0)])
            bucket.hurry.set()
            await until(lambda: one.orders == [Open(0, 0), Open(1, 0)])
        finally:
            await one.die()

    hurry(play())


def test_notices_that_are_read_late_are_read_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each within the time that a look may take, but not one after the other."""
    monkeypatch.setattr(agent, "RIGHT_S", 2.0)

    class LateBucket(MemoryBucket):
        async def answer(self, request: Request) -> Reply:
            if isinstance(request, Get) and request.key.startswith("board/"):
                await asyncio.sleep(0.6)  # sleep: three of them take longer than half of the right
            return await super().answer(request)

    async def play() -> None:
        bucket = LateBucket()
        for name in ("b", "c", "d"):
            leaving = Notice(name, "127.0.0.1", "m", 1, 0, 1, "", "", "", True, {})
            bucket.objects[leaving.key] = leaving.encode()
        one = Side("a", bucket, tmp_path / "a")
        try:
            await until(lambda: one.orders == [Open(0, 0), Open(1, 0)])
        finally:
            await one.die()

    hurry(play())


def test_a_look_that_waits_for_the_bucket_costs_no_right_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that takes a second for each request takes the notice all the same: with the requests of a turn
    between two notices all brokers would hang up on their clients, again and again."""
    monkeypatch.setattr(agent, "RIGHT_S", 2.0 * WAIT_S)

    class Waiting(MemoryBucket):
        looks, notices = 0, 0

        async def answer(self, request: Request) -> Reply:
            if isinstance(request, Scan):
                self.looks += 1
                await asyncio.Event().wait()
            self.notices += isinstance(request, Put)
            return await super().answer(request)

    async def play() -> None:
        bucket = Waiting()
        one = Side("a", bucket, tmp_path / "a")
        try:
            await until(lambda: bucket.notices == 3)
            assert bucket.looks == 1
            assert one.right.lapses == 0
        finally:
            await one.die()

    hurry(play())


def test_an_orphan_gives_no_orders_and_ends_when_nobody_is_left(tmp_path: Path) -> None:
    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        before = list(one.orders)
        one.agent.orphaned()
        await until(lambda: one.member.notice.is_leaving)
        await asyncio.sleep(1.5)  # sleep: a turn, in which it would give its shard away
        assert one.orders == before
        assert Fetch(0) not in other.orders
        assert "board/a" in bucket.objects
        one.agent.abandon()
        await asyncio.wait_for(one.task, WAIT_S)
        assert "board/a" not in bucket.objects
        await until(lambda: Open(0, 0) in other.orders)

    run(tmp_path, play)


def test_a_data_directory_that_cannot_be_written_keeps_no_agent_from_its_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end and be started again several times a second, and claim nothing of brokers that die."""

    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        (other.data / "owners.json.new").mkdir()
        await one.die()
        await until(lambda: Open(0, 0) in other.orders)
        await asyncio.sleep(1.5)  # sleep: turns in which it cannot be written
        (other.data / "owners.json.new").rmdir()
        await until(lambda: other.shards() == {0, 1})

    run(tmp_path, play)
    assert caplog.text.count("cannot be written to") == 1


def test_a_shard_whose_asker_has_given_up_is_not_said_to_be_on_its_way_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is slow while another broker asks this one to fetch a shard. No process is made for it, and
    as long as the notice names the shard no broker claims it."""

    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        monkeypatch.setattr(hail, "TIMEOUT_S", 0.3)
        bucket.gate.clear()
        with pytest.raises(ServiceNotReady, match="does not answer"):
            await hail.ask("127.0.0.1", one.member.notice.hail_port, SECRET, {"fetch": 1})
        await asyncio.sleep(0.1)  # sleep: the side that is asked gives up as well
        bucket.gate.set()
        beat = one.member.notice.beat
        await until(lambda: one.member.notice.beat > beat + 1)
        assert Fetch(1) not in one.orders
        assert 1 not in one.member.notice.shards

    run(tmp_path, play)


@pytest.mark.parametrize("host", ["broker.invalid", "broker..invalid"])
def test_an_address_that_is_not_reached_is_told_once_by_the_broker_and_by_the_others(
    tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The system does not know the one name, and the other is none."""

    def told(who: str) -> int:
        return caplog.text.count(f"{who} cannot be reached at {host}, port ")

    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        one.member.notice = one.member.notice._replace(host=host)
        one.agent._is_reached = False
        await until(lambda: told("this broker") == 1 and told("broker a") == 1)
        await asyncio.sleep(1)  # sleep: for lines that must not come
        one.member.notice = one.member.notice._replace(host="127.0.0.1")
        await until(lambda: "this broker is reached at 127.0.0.1 again" in caplog.text)
        await until(lambda: "broker a is reached at 127.0.0.1 again" in caplog.text)
        assert (told("this broker"), told("broker a")) == (1, 1)

    run(tmp_path, play)
    assert "set its advertised_address to a name or address that is reached" in caplog.text


@pytest.mark.parametrize("second", ["127.0.0.2", "255.255.255.255"])
def test_a_broker_with_two_addresses_is_gone_when_none_of_them_takes_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, second: str
) -> None:
    """As names with an IPv4 and an IPv6 address have, of which the machine that asks may reach one."""
    asked = socket.getaddrinfo

    def told(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host != "two.invalid":
            return asked(host, port, *rest, **more)
        kind = socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
        return [(*kind, (address, port)) for address in ("127.0.0.1", second)]

    monkeypatch.setattr(socket, "getaddrinfo", told)

    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        one.member.notice = one.member.notice._replace(host="two.invalid")
        await until(lambda: other.member.board.living()["a"].host == "two.invalid")
        await asyncio.sleep(0.5)  # sleep: it is looked after
        assert "cannot be reached" not in caplog.text
        await one.die()
        await until(lambda: Open(0, 0) in other.orders)

    run(tmp_path, play)
    assert "broker a is gone: it refuses connections" in caplog.text


def test_a_broker_that_listens_elsewhere_than_it_says_finds_out_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        side = Side("a", MemoryBucket(), tmp_path / "a")
        side.member.notice = side.member.notice._replace(host="127.0.0.2")
        says = "this broker cannot be reached at 127.0.0.2, port "
        await until(lambda: says in caplog.text)
        await side.die()

    hurry(play())


def test_an_agent_that_looks_after_no_other_broker_any_more_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started again. Without that, brokers that die would be noticed seconds later, and none would be
    told of addresses that are not reached."""

    async def play(bucket: MemoryBucket, one: Side, other: Side) -> None:
        async def hail(notice: Notice, word: bytes) -> bool:
            raise RuntimeError("a bug")

        monkeypatch.setattr(one.agent, "_hail", hail)
        await asyncio.wait([one.task], timeout=WAIT_S)
        with pytest.raises(RuntimeError, match="a bug"):
            one.task.result()

    run(tmp_path, play)
