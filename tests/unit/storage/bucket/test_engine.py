"""The store on a bucket: durable when the bucket has it, found again by the next broker, fenced by it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from random import Random

import pytest
from stage.hurried import hurry

from milepost.errors import (
    BucketUnusable,
    CorruptData,
    Fenced,
    PersistenceError,
    UnknownFormat,
    WrongBucket,
    WrongDataDirectory,
)
from milepost.positions.ids import Position
from milepost.storage.bucket import engine, start
from milepost.storage.bucket.board import Sign
from milepost.storage.bucket.engine import BucketEngine
from milepost.storage.bucket.manifest import Manifest
from milepost.storage.bucket.objects import (
    Create,
    Delete,
    Failed,
    Get,
    Put,
    Replace,
    Request,
)
from milepost.storage.bucket.start import open_bucket
from milepost.storage.catalog.catalog import TopicRow
from milepost.storage.engine import FILE_THREADS
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.ledgers.log import Log, RollPolicy
from milepost.testing import ManualClock
from milepost.testing.bucket import MemoryBucket

NOW_MS = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _beats_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that was taken over finds out by what a test has it do, however long the machine takes."""
    monkeypatch.setattr(engine, "BEAT_S", 3600.0)


class Broker:
    """An engine on a bucket, and what it has answered."""

    def __init__(self, engine: BucketEngine) -> None:
        self.engine = engine
        self.answers: list[PersistenceError | None] = []
        self.fatal: list[str] = []
        self._started: list[asyncio.Future[None]] = []
        engine.watch(on_fatal=self.fatal.append)

    async def topic(self, name: str) -> Log:
        row = await self.engine.catalog(lambda catalog: catalog.create_topic(name, {}))
        return self.engine.store.log(row)

    async def found(self, name: str) -> Log:
        row = await self.engine.catalog(lambda catalog: catalog.topic(name))
        assert isinstance(row, TopicRow), f"no topic {name}"
        return self.engine.store.log(row)

    async def publish(self, log: Log, *payloads: bytes) -> None:
        for payload in payloads:
            log.append([NewEntry(payload)], NOW_MS, self.answers.append)
        await self.engine.flush()

    async def read(self, log: Log) -> list[bytes]:
        return [bytes(entry.payload) for entry in await self._entries(log)]

    async def _entries(self, log: Log) -> list:
        entries = []
        for ledger in list(log.ledgers):
            entry_id = 0
            while entry_id < ledger.entries:
                position = Position(ledger.ledger_id, entry_id)
                plan = await self.engine.look(partial(log.plan_read, position))
                got = await self.engine.read(plan)
                entries += got
                entry_id += len(got)
        return entries

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Let something go on beside what follows."""
        self._started.append(asyncio.ensure_future(work))

    async def settled(self) -> None:
        """Everything that was started is over, however it went."""
        if self._started:
            await asyncio.wait(self._started)

    async def kill(self) -> None:
        """End without a word: what the bucket has is what there is."""
        self.engine.committer.stop()
        self.engine.committer.failure = "killed"
        for work in self._started:
            work.cancel()
        await self.settled()
        if (checkpoint := self.engine._checkpoint) is not None:
            checkpoint.add_done_callback(lambda task: task.cancelled() or task.exception())
        await self.engine.close()


class Bench:
    """Brokers that come and go, each with a directory of its own, on one bucket."""

    def __init__(self, tmp_path: Path) -> None:
        self.bucket = MemoryBucket()
        self._root = tmp_path
        self._count = 0
        self.open: list[Broker] = []

    async def broker(self, cluster: str = "test", entries_max: int = 4) -> Broker:
        self._count += 1
        engine = await open_bucket(
            self.bucket,
            "memory://",
            self._root / f"broker{self._count}",
            ManualClock(),
            cluster=cluster,
            owner=f"broker{self._count}",
            linger_s=0.0,
            grace_s=0.0,
            roll_policy=RollPolicy(entries_max=entries_max),
            tail_size_max=0,
        )
        broker = Broker(engine)
        self.open.append(broker)
        return broker

    def keys(self, folder: str) -> list[str]:
        return sorted(key for key in self.bucket.objects if key.startswith(folder))

    @property
    def manifest(self) -> Manifest:
        return Manifest.decode(self.bucket.objects["manifest"])


def on_loop(tmp_path: Path, test: Callable[[Bench], Awaitable[None]]) -> None:
    async def run() -> None:
        bench = Bench(tmp_path)
        try:
            await asyncio.wait_for(test(bench), 60)
        finally:
            bench.bucket.fault = lambda request: None
            bench.bucket.gate.set()
            for broker in bench.open:
                if broker.engine._lock is not None:
                    await broker.kill()

    hurry(run())


def test_what_was_answered_is_there_for_a_broker_with_an_empty_directory(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        await first.publish(log, b"0", b"1", b"2", b"3", b"4", b"5")
        await first.kill()
        second = await bench.broker()
        found = await second.found("a")
        assert await second.read(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
        assert found.next_index == 6

    on_loop(tmp_path, test)


async def _refused(bench: Bench, says: str) -> None:
    """A start is refused, and deletes and seals nothing."""
    before = {key for key in bench.bucket.objects if not key.startswith("board/")}
    with pytest.raises(CorruptData, match=says):
        await bench.broker()
    after = {key for key in bench.bucket.objects if not key.startswith("board/")}
    assert after == before


@pytest.mark.parametrize("is_folded", [False, True])
def test_a_bucket_without_its_manifest_is_not_begun_anew(tmp_path: Path, is_folded: bool) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.publish(await first.topic("a"), b"one", b"two")
        if is_folded:
            await first.engine.checkpoint()
        await first.kill()
        kept = bench.bucket.objects.pop("manifest")
        await _refused(bench, "manifest: is missing, and .* restore it from the store's versions")
        bench.bucket.objects["manifest"] = kept
        second = await bench.broker()
        assert await second.read(await second.found("a")) == [b"one", b"two"]

    on_loop(tmp_path, test)


def test_objects_of_other_programs_do_not_keep_a_bucket_from_being_begun(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.bucket.objects |= {"image/logo.png": b"", "journal/2026-11-19.md": b"", "x": b""}
        bench.bucket.objects |= {"journal/²/1": b"", "journal/1/³": b"", "journal/٣/٤": b""}
        await bench.broker()

    on_loop(tmp_path, test)


def test_a_gap_that_was_filled_is_not_sealed(tmp_path: Path) -> None:
    """Sealed, it would end the epoch: what lies behind it was answered, and would be lost without a word."""

    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        sent = [b"%d" % number for number in range(12)]
        for payload in sent:
            await first.publish(log, payload)
        await first.kill()
        gone = bench.keys("journal/")[2]
        kept = bench.bucket.objects.pop(gone)
        await _refused(bench, f"{gone}: is missing, and journal/00000001/.* proves")
        bench.bucket.objects[gone] = kept
        second = await bench.broker()
        assert await second.read(await second.found("a")) == sent

    on_loop(tmp_path, test)


@pytest.mark.parametrize("is_seal", [False, True])
def test_an_epoch_before_another_was_sealed(tmp_path: Path, is_seal: bool) -> None:
    async def test(bench: Bench) -> None:
        for payload in (b"one", b"two", b"three"):
            broker = await bench.broker()
            log = await (broker.topic("a") if payload == b"one" else broker.found("a"))
            await broker.publish(log, payload)
            await broker.kill()
        *groups, seal = bench.keys("journal/00000002/")
        gone = seal if is_seal else groups[-1]
        kept = bench.bucket.objects.pop(gone)
        await _refused(bench, f"{gone}: is missing, and journal/.* proves that it was there")
        bench.bucket.objects[gone] = kept
        last = await bench.broker()
        assert await last.read(await last.found("a")) == [b"one", b"two", b"three"]

    on_loop(tmp_path, test)


def test_a_manifest_of_an_earlier_time_is_refused(tmp_path: Path) -> None:
    """By it, groups that a later checkpoint has deleted never were there, and later packs are left over."""

    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.publish(await first.topic("a"), b"one")
        await first.kill()
        old = bench.bucket.objects["manifest"]
        for payload in (b"two", b"three"):
            broker = await bench.broker()
            await broker.publish(await broker.found("a"), payload)
            await broker.kill()
        newest, bench.bucket.objects["manifest"] = bench.bucket.objects["manifest"], old
        await _refused(
            bench, "manifest: is of epoch 2, and journal/00000003/ is there: it is an old"
        )
        bench.bucket.objects["manifest"] = newest
        last = await bench.broker()
        assert await last.read(await last.found("a")) == [b"one", b"two", b"three"]

    on_loop(tmp_path, test)


def test_a_checkpoint_moves_everything_into_packs_and_deletes_the_groups(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        for n in range(10):
            await first.publish(log, b"%d" % n)
        groups = bench.keys("journal/")
        await first.engine.checkpoint()
        assert len(groups) > 5
        assert bench.keys("journal/") == []
        assert bench.manifest.floor.number == len(groups)
        assert bench.keys("image/") == [bench.manifest.image]
        await first.publish(log, b"behind")
        await first.kill()
        second = await bench.broker()
        found = await second.found("a")
        assert await second.read(found) == [*(b"%d" % n for n in range(10)), b"behind"]
        await second.publish(found, b"more")
        await second.engine.checkpoint()
        await second.kill()
        third = await bench.broker()
        payloads = await third.read(await third.found("a"))
        assert payloads == [*(b"%d" % n for n in range(10)), b"behind", b"more"]

    on_loop(tmp_path, test)


def test_a_store_that_deletes_nothing_holds_up_no_checkpoint(tmp_path: Path) -> None:
    """Else the journal would grow until the store does, and a start would read all of it."""

    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        no_more = Failed("not permitted", is_denied=True)
        bench.bucket.fault = lambda request: no_more if isinstance(request, Delete) else None
        for number in range(2):
            await first.publish(log, b"a", b"b")
            before = bench.manifest.floor
            async with asyncio.timeout(20):
                await first.engine.checkpoint()
            assert bench.manifest.floor > before, f"checkpoint {number}"
        assert bench.keys("journal/")
        bench.bucket.fault = lambda request: None
        await first.publish(log, b"c")
        await first.engine.checkpoint()
        assert bench.keys("journal/") == []
        assert await first.read(log) == [b"a", b"b", b"a", b"b", b"c"]

    on_loop(tmp_path, test)


def test_ledgers_are_brought_when_they_are_read_and_not_before(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        for name in ("a", "b"):
            await first.publish(await first.topic(name), *(b"x" * 100 for _ in range(9)))
        await first.engine.checkpoint()
        await first.kill()
        second = await bench.broker()
        cache = second.engine._cache
        assert cache.use.size == 0
        assert len(await second.read(await second.found("a"))) == 9
        assert 900 < cache.use.size < 2 * 900

    on_loop(tmp_path, test)


def test_states_and_their_facts_come_back(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        row = await first.engine.catalog(
            lambda catalog: catalog.create_state(log.topic_id, "cursor", "s", {"k": 1})
        )
        store = first.engine.store
        store.open_state(row.state_id, lambda: b"snapshot")
        store.fact(row.state_id, b"one", first.answers.append)
        await first.engine.flush()
        await first.engine.checkpoint()
        store.fact(row.state_id, b"two", first.answers.append)
        await first.engine.flush()
        await first.kill()
        second = await bench.broker()
        found = second.engine.store.open_state(row.state_id, lambda: b"")
        assert (found.data, found.facts) == (b"snapshot", [b"two"])
        (state,) = await second.engine.catalog(lambda catalog: catalog.states(log.topic_id))
        assert state == row

    on_loop(tmp_path, test)


def test_a_change_of_the_catalog_is_answered_when_the_bucket_has_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.topic("before")
        bench.bucket.gate.clear()
        made = asyncio.ensure_future(first.topic("held"))
        seen = asyncio.ensure_future(
            first.engine.catalog(lambda catalog: [row.name for row in catalog.topics()])
        )
        done, _ = await asyncio.wait([made, seen], timeout=0.2)
        assert not done, "neither the change nor what it shows may be answered before it is durable"
        bench.bucket.gate.set()
        await made
        assert await seen == ["before", "held"]
        await first.kill()
        second = await bench.broker()
        await second.found("held")

    on_loop(tmp_path, test)


def test_changes_between_record_and_image_are_applied_once(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.topic("a")
        # The image holds `b`, and so does the journal behind the floor.
        checkpoint = asyncio.ensure_future(first.engine.checkpoint())
        made = [asyncio.ensure_future(first.topic(f"b{n}")) for n in range(30)]
        await asyncio.gather(checkpoint, *made)
        await first.kill()
        second = await bench.broker()
        names = await second.engine.catalog(lambda catalog: {t.name for t in catalog.topics()})
        assert names == {"a", *(f"b{n}" for n in range(30))}

    on_loop(tmp_path, test)


def test_an_owner_that_was_taken_over_answers_nothing_more(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        await first.publish(log, b"0")
        second = await bench.broker()
        log.append([NewEntry(b"lost")], NOW_MS, first.answers.append)
        while not first.fatal:
            await asyncio.sleep(0)
        assert first.answers == [None]
        assert "Fenced" in first.fatal[0]
        with pytest.raises(PersistenceError, match="another broker has taken the bucket over"):
            await first.engine.flush()
        assert await second.read(await second.found("a")) == [b"0"]

    on_loop(tmp_path, test)


def test_an_owner_that_was_taken_over_cannot_prove_its_claim(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.engine.prove_claim()
        bench.bucket.objects.pop(f"board/{bench.manifest.owner}")
        await bench.broker()
        assert first.fatal == [], "it has not written since"
        with pytest.raises(Fenced, match="another broker has claimed it"):
            await first.engine.prove_claim()
        assert first.fatal != []

    on_loop(tmp_path, test)


def test_of_two_that_start_at_once_one_has_the_bucket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has found it free. The one that was faster would have served on beside the other."""
    monkeypatch.setattr(start, "DEAD_S", 0.05)
    monkeypatch.setattr(start, "BEAT_S", 0.01)

    async def test(bench: Bench) -> None:
        for is_new in (True, False):
            if not is_new:  # both wait whether its owner is there
                sign = Sign("elsewhere", 1, 0)
                bench.bucket.objects[f"board/{bench.manifest.owner}"] = sign.encode()
            starts = await asyncio.gather(bench.broker(), bench.broker(), return_exceptions=True)
            (broker,) = (one for one in starts if isinstance(one, Broker))
            (refused,) = (one for one in starts if not isinstance(one, Broker))
            assert isinstance(refused, BucketUnusable)
            assert "another broker has taken the bucket just now: stop it first" in str(refused)
            await broker.engine.prove_claim()

    on_loop(tmp_path, test)


def test_an_owner_that_was_taken_over_finds_out_without_anything_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine was taken for dead, and is not: it would tell what it knew last for ever."""
    monkeypatch.setattr(engine, "BEAT_S", 0.02)

    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await asyncio.sleep(0.1)  # sleep: it has said that it is there, and looked
        assert first.fatal == []
        await bench.broker()
        while not first.fatal:
            await asyncio.sleep(0.01)  # sleep: until it has looked
        assert first.fatal == ["the bucket is lost: Fenced: another broker has claimed it"]

    on_loop(tmp_path, test)


@pytest.mark.parametrize("is_taken", [True, False])
def test_an_owner_that_was_suspended_serves_on_only_if_the_bucket_is_still_its_own(
    tmp_path: Path, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sign on the board has no condition, so that the store takes it from the former owner too."""
    monkeypatch.setattr(engine, "BEAT_S", 0.02)

    async def test(bench: Bench) -> None:
        first = await bench.broker()
        lapsed: list[bool] = []
        first.engine.watch(on_lapse=lambda: lapsed.append(True))
        assert first.engine.may_serve
        if is_taken:
            bench.bucket.objects["manifest"] = bench.manifest.claimed("other", "00").encode()
        first.engine.objects.last_write -= 60.0  # it was suspended for so long
        assert not first.engine.may_serve
        beats = len(bench.bucket.requests)
        while not any(isinstance(one, Put) for one in bench.bucket.requests[beats:]):
            assert not first.engine.may_serve
            await asyncio.sleep(0.01)  # sleep: until it has said that it is there
        while not (first.fatal if is_taken else first.engine.may_serve):
            assert not first.engine.may_serve, "two owners answer"
            await asyncio.sleep(0.01)  # sleep: until it has looked
        assert lapsed == [True]
        assert first.engine.may_serve != is_taken

    on_loop(tmp_path, test)


@pytest.mark.parametrize("manifest", [b'{"format": 2}', b"", None])
def test_a_manifest_that_is_not_of_this_release_is_not_of_this_owner(
    tmp_path: Path, manifest: bytes | None
) -> None:
    """A newer release has claimed the bucket, and this process may not serve on, nor hang."""

    async def test(bench: Bench) -> None:
        broker = await bench.broker()
        if manifest is None:
            del bench.bucket.objects["manifest"]
        else:
            bench.bucket.objects["manifest"] = manifest
        with pytest.raises(Fenced, match="another broker has claimed it"):
            await broker.engine.prove_claim()
        assert broker.fatal != []

    on_loop(tmp_path, test)


def test_an_engine_that_cannot_watch_its_right_any_more_gives_up(tmp_path: Path) -> None:
    """It would serve clients that another broker has, and nothing would say so."""

    async def test(bench: Bench) -> None:
        broker = await bench.broker()

        def fault(request: Request) -> Failed | None:
            if isinstance(request, Put) and request.key.startswith("board/"):
                raise ValueError("a bug")
            return None

        bench.bucket.fault = fault
        async with asyncio.timeout(20):
            while not broker.fatal:
                await asyncio.sleep(0.01)  # sleep: until the next beat
        assert "a bug" in broker.fatal[0]

    on_loop(tmp_path, test)


def test_a_checkpoint_of_an_owner_that_was_taken_over_moves_nothing(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.publish(await first.topic("a"), b"0", b"1")
        begun = asyncio.Event()

        def fault(request: Request) -> Failed | None:
            if isinstance(request, Put) and request.key.startswith("pack/"):
                begun.set()
                return Failed("slow down")
            return None

        bench.bucket.fault = fault
        checkpoint = asyncio.ensure_future(first.engine.checkpoint())
        await begun.wait()
        second = await bench.broker()
        bench.bucket.fault = lambda request: None
        with pytest.raises(PersistenceError):
            await checkpoint
        assert first.fatal
        assert bench.manifest.owner == "broker2"
        assert await second.read(await second.found("a")) == [b"0", b"1"]

    on_loop(tmp_path, test)


def test_requests_that_fail_or_lose_their_answer_cost_nothing(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        random = Random(7)
        first = await bench.broker()
        log = await first.topic("a")
        bench.bucket.fault = lambda request: (
            Failed("503")
            if isinstance(request, Create | Replace | Put | Get) and random.random() < 0.2
            else None
        )
        bench.bucket.lose = lambda request: random.random() < 0.2
        payloads = [b"%d" % n for n in range(40)]
        for n, payload in enumerate(payloads):
            await first.publish(log, payload)
            if n == 20:
                await first.engine.checkpoint()
        assert first.answers == [None] * 40
        await first.kill()
        second = await bench.broker()
        assert await second.read(await second.found("a")) == payloads

    on_loop(tmp_path, test)


def test_trimmed_ledgers_are_deleted_from_the_bucket(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        log = await first.topic("a")
        for n in range(4):
            await first.publish(log, *(b"%d" % n for _ in range(4)))
            await first.engine.checkpoint()
        packs = bench.keys("pack/")
        await first.engine.trim(log, 8)
        await first.publish(log, b"new")
        await first.engine.checkpoint()
        assert len(packs) == 4
        assert len(set(packs) & set(bench.keys("pack/"))) < 4
        await first.kill()
        second = await bench.broker()
        found = await second.found("a")
        assert found.first_index == 8
        assert len(await second.read(found)) == 9

    on_loop(tmp_path, test)


def test_a_start_deletes_what_a_killed_checkpoint_left(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker()
        await first.publish(await first.topic("a"), b"0")
        await first.engine.checkpoint()
        await first.kill()
        bench.bucket.objects["pack/left"] = b"x"
        bench.bucket.objects["image/left"] = b"x"
        second = await bench.broker()
        while second.engine.bucket.upkeep.waiting:
            await asyncio.sleep(0)
        assert not {"pack/left", "image/left"} & set(bench.bucket.objects)
        assert await second.read(await second.found("a")) == [b"0"]

    on_loop(tmp_path, test)


class TestBadBuckets:
    def test_one_that_does_not_permit_it_is_refused(self, tmp_path: Path) -> None:
        async def test(bench: Bench) -> None:
            bench.bucket.fault = lambda request: Failed("403", is_denied=True)
            with pytest.raises(BucketUnusable, match="not permitted: 403; the broker needs"):
                await bench.broker()

        on_loop(tmp_path, test)

    def test_one_that_does_not_answer_is_refused(self, tmp_path: Path) -> None:
        async def test(bench: Bench) -> None:
            bench.bucket.fault = lambda request: Failed("no route")
            with pytest.raises(BucketUnusable, match="cannot be reached: no route; look at"):
                await bench.broker()

        on_loop(tmp_path, test)

    def test_one_of_another_cluster_is_refused_and_left_alone(self, tmp_path: Path) -> None:
        async def test(bench: Bench) -> None:
            await (await bench.broker()).kill()
            before = bench.manifest
            with pytest.raises(WrongBucket, match="belongs to cluster 'test'"):
                await bench.broker("other")
            assert bench.manifest == before

        on_loop(tmp_path, test)

    def test_one_of_a_newer_format_is_refused(self, tmp_path: Path) -> None:
        async def test(bench: Bench) -> None:
            doc = {**json.loads(Manifest("c", 1, "o", (1, 0), "", "n").encode()), "format": 2}
            bench.bucket.objects["manifest"] = json.dumps(doc).encode()
            with pytest.raises(UnknownFormat, match="format 2; this release reads 1"):
                await bench.broker()

        on_loop(tmp_path, test)

    def test_a_manifest_of_another_program_is_refused(self, tmp_path: Path) -> None:
        async def test(bench: Bench) -> None:
            bench.bucket.objects["manifest"] = b"hello"
            with pytest.raises(BucketUnusable, match="is not a manifest of Milepost"):
                await bench.broker()

        on_loop(tmp_path, test)

    def test_a_data_directory_of_a_broker_without_a_bucket_is_left_alone(
        self, tmp_path: Path
    ) -> None:
        async def test(bench: Bench) -> None:
            (tmp_path / "broker1").mkdir()
            (tmp_path / "broker1" / "catalog.sqlite").write_bytes(b"precious")
            with pytest.raises(
                WrongDataDirectory, match="holds the data of a broker without a bucket"
            ):
                await bench.broker()
            assert (tmp_path / "broker1" / "catalog.sqlite").read_bytes() == b"precious"

        on_loop(tmp_path, test)


def test_readers_that_wait_for_a_silent_store_hold_up_no_checkpoint(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        names = [f"t{number}" for number in range(FILE_THREADS + 2)]
        first = await bench.broker()
        for name in names:
            await first.publish(await first.topic(name), b"old")
        await first.engine.checkpoint()
        await first.kill()
        second = await bench.broker()
        answers = threading.Event()
        read = bench.bucket.read

        def silent(key: str, start: int, size: int) -> bytes:
            answers.wait()
            return read(key, start, size)

        bench.bucket.read = silent  # type: ignore[method-assign]
        try:
            logs = [await second.found(name) for name in names]
            reads = [asyncio.ensure_future(second.read(log)) for log in logs]
            fresh = await second.topic("fresh")
            await second.publish(fresh, b"new")
            await asyncio.wait_for(second.engine.checkpoint(), 10)
            assert await second.read(fresh) == [b"new"]
            assert not any(one.done() for one in reads)
        finally:
            answers.set()
        assert await asyncio.gather(*reads) == [[b"old"]] * len(names)

    on_loop(tmp_path, test)


def test_a_growing_ledger_that_another_program_deleted_is_no_loss(tmp_path: Path) -> None:
    """The bucket has it: readers get it, the topic takes messages, and so it does after a restart."""

    async def test(bench: Bench) -> None:
        first = await bench.broker(entries_max=100)
        log = await first.topic("a")
        await first.publish(log, b"0", b"1")
        await first.engine.checkpoint()
        for path in tmp_path.rglob("*.ledger"):
            path.unlink()
        assert await first.read(log) == [b"0", b"1"]
        for path in tmp_path.rglob("*.ledger"):
            path.unlink()
        await first.publish(log, b"2")
        await first.engine.checkpoint()
        assert await first.read(log) == [b"0", b"1", b"2"]
        assert (log.refusal, first.engine.store.losses) == (None, {})
        await first.kill()
        second = await bench.broker()
        found = await second.found("a")
        assert await second.read(found) == [b"0", b"1", b"2"]
        assert found.refusal is None

    on_loop(tmp_path, test)
