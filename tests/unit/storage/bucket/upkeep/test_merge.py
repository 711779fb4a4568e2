"""Which packs are merged, where the bytes lie then, and a broker that is killed at any step of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from stage.stored import StoredHistory
from unit.storage.bucket.test_engine import NOW_MS, Bench, Broker, on_loop

from milepost.errors import MilepostError
from milepost.storage.bucket.engine import BucketEngine
from milepost.storage.bucket.image import Extent, Extents, Image, packs_of
from milepost.storage.bucket.objects import (
    Failed,
    Listed,
    Reply,
    Request,
    Scan,
    deleted,
    perform,
)
from milepost.storage.bucket.upkeep.merge import (
    FAN,
    MERGE_SIZE,
    SMALLEST,
    chosen,
    live_sizes,
    relocated,
    sources,
)
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.ledgers.log import Log

FULL = 32 * 1024 * 1024


def bytes_of(extents: Extents, packs: dict[str, bytes]) -> dict[str, bytes]:
    return {
        path: b"".join(packs[one.pack][one.start : one.start + one.size] for one in rows)
        for path, rows in extents.items()
    }


@pytest.mark.parametrize("seed", range(40))
def test_merged_packs_hold_the_same_bytes(seed: int) -> None:
    random = Random(seed)
    packs = {f"p{n}": random.randbytes(random.randrange(1, 400)) for n in range(12)}
    extents: dict[str, list[Extent]] = {}
    for pack, data in packs.items():
        at = 0
        while at < len(data):
            size = min(random.randrange(1, 90), len(data) - at)
            if random.random() < 0.7:
                path = f"f{random.randrange(5)}"
                extents.setdefault(path, []).append(Extent(pack, at, size))
            at += size
    before = bytes_of(extents, packs)
    wanted = random.sample(sorted(packs), 6)
    groups = {f"n{n}": one for n, one in enumerate(sources(extents, wanted, 300))}
    made = {
        key: b"".join(packs[one.pack][one.start : one.start + one.size] for _, _, one in group)
        for key, group in groups.items()
    }
    after = relocated(extents, groups)
    assert bytes_of(after, packs | made) == before
    assert not set(wanted) & live_sizes(after).keys()
    assert sum(map(len, after.values())) <= sum(map(len, extents.values()))


def test_small_packs_are_merged_when_there_are_enough_of_one_tier() -> None:
    rows = [Extent(f"p{n}", 0, 100) for n in range(FAN)]
    sizes = {one.pack: 100 for one in rows}
    assert chosen({"a": rows[:-1]}, sizes, FULL) == []
    assert sorted(chosen({"a": rows}, sizes, FULL)) == sorted(sizes)
    # One of another tier does not make them enough.
    assert (
        chosen({"a": [*rows[:-1], Extent("q", 0, SMALLEST)]}, {**sizes, "q": SMALLEST}, FULL) == []
    )


def test_a_sparse_pack_is_merged_and_a_full_one_is_not() -> None:
    extents = {"a": [Extent("sparse", 0, 49)], "b": [Extent("half", 0, 50)]}
    assert chosen(extents, {"sparse": 100, "half": 100, "dead": 100}, FULL) == ["sparse"]
    large = {f"f{n}": [Extent(f"p{n}", 0, FULL // 2)] for n in range(20)}
    assert chosen(large, {f"p{n}": FULL // 2 for n in range(20)}, FULL) == []


def test_one_checkpoint_reads_only_so_much() -> None:
    size = FULL // 3
    extents = {f"f{n}": [Extent(f"p{n}", 0, size)] for n in range(30)}
    taken = chosen(extents, {f"p{n}": size for n in range(30)}, FULL)
    assert len(taken) >= 2
    assert len(taken) * size <= MERGE_SIZE
    huge = {"f": [Extent("p", 0, 10)]}
    assert chosen(huge, {"p": 5 * MERGE_SIZE}, FULL) == ["p"], "a large one goes alone"


def test_the_number_of_packs_stays_small_whatever_the_checkpoints() -> None:
    """Each byte is written a few times, and few packs remain."""
    extents: dict[str, list[Extent]] = {}
    sizes: dict[str, int] = {}
    written = total = 0
    for n in range(2000):
        extents.setdefault(f"f{n % 5}", []).append(Extent(f"p{n}", 0, 10_000))
        sizes[f"p{n}"] = 10_000
        total += 10_000
        wanted = chosen(extents, sizes, FULL)
        groups = {f"m{n}-{i}": one for i, one in enumerate(sources(extents, wanted, FULL))}
        for key, group in groups.items():
            sizes[key] = sum(one.extent.size for one in group)
            written += sizes[key]
        extents = relocated(extents, groups)
        sizes = {pack: sizes[pack] for pack in live_sizes(extents)}
    assert len(sizes) < 4 * FAN
    assert written < 8 * total
    assert sum(len(rows) for rows in extents.values()) < 200


# -- in a broker -------------------------------------------------------------------------------------


def image_of(bench: Bench) -> Image:
    return Image.decode(bench.bucket.objects[bench.manifest.image], "image")


async def grow(bench: Bench, broker: Broker, checkpoints: int) -> list[bytes]:
    """A topic that grows slowly: a checkpoint for each few messages."""
    log = await broker.topic("a")
    payloads: list[bytes] = []
    for n in range(checkpoints):
        payloads.append(b"%d" % n)
        await broker.publish(log, payloads[-1])
        await broker.engine.checkpoint()
    return payloads


def test_a_ledger_that_grows_slowly_lies_in_few_packs(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker(entries_max=1000)
        payloads = await grow(bench, first, 40)
        assert first.engine.bucket.upkeep.merged_bytes > 0
        assert len(bench.keys("pack/")) < 2 * FAN
        assert set(bench.keys("pack/")) == live_sizes(image_of(bench).extents).keys()
        await first.kill()
        second = await bench.broker()
        assert await second.read(await second.found("a")) == payloads

    on_loop(tmp_path, test)


def test_a_pack_whose_ledgers_are_mostly_deleted_is_freed(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker(entries_max=1000)
        kept = await first.topic("kept")
        gone = await first.topic("gone")
        await first.publish(kept, b"kept")
        await first.publish(gone, *(b"x" * 10_000 for _ in range(20)))
        await first.engine.checkpoint()
        assert sum(len(bench.bucket.objects[key]) for key in bench.keys("pack/")) > 200_000
        row = await first.engine.catalog(lambda catalog: catalog.topic("gone"))
        assert row is not None
        await first.engine.delete_topic(row, gone)
        assert first.engine._has_news, (
            "the ticker is to make a checkpoint although nothing is written"
        )
        await first.engine.checkpoint()
        assert sum(len(bench.bucket.objects[key]) for key in bench.keys("pack/")) < 1000
        assert not first.engine._has_news
        await first.kill()
        second = await bench.broker()
        assert await second.read(await second.found("kept")) == [b"kept"]

    on_loop(tmp_path, test)


def test_a_pack_that_is_missing_is_left_out_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(bench: Bench) -> None:
        first = await bench.broker(entries_max=1000)
        await grow(bench, first, FAN - 1)
        lost = bench.keys("pack/")[0]
        shown = bench.bucket.objects.pop(lost)
        # The list shows it, and it is gone when it is read.
        original = bench.bucket.apply

        def apply(request: Request) -> Reply:
            reply = original(request)
            if (
                isinstance(request, Scan)
                and request.prefix == "pack/"
                and isinstance(reply, Listed)
            ):
                return Listed([*reply.objects, (lost, len(shown))])
            return reply

        bench.bucket.apply = apply  # type: ignore[method-assign]
        log = await first.found("a")
        for n in range(3):
            await first.publish(log, b"more %d" % n)
            await first.engine.checkpoint()
        bench.bucket.apply = original  # type: ignore[method-assign]
        assert lost in live_sizes(image_of(bench).extents), "what is lost stays named"

    on_loop(tmp_path, test)
    assert "is missing, and the image names it" in caplog.text


async def life(bench: Bench, fatal: int, is_carried_out: bool) -> bool:
    """A broker that dies at a request of its last checkpoint; False if there are not so many."""
    first = await bench.broker(entries_max=5)
    told = StoredHistory()
    log = await first.topic("a")

    async def publish(broker: Broker, log: Log, payload: bytes) -> None:
        log.append([NewEntry(payload)], NOW_MS, told.publish("a", payload))
        await broker.engine.flush()

    async def look(broker: Broker) -> Log:
        found = await broker.found("a")
        told.found("a", 0, await broker.read(found))
        return found

    for n in range(FAN):
        await publish(first, log, b"%d" % n)
        await first.engine.checkpoint()
    assert not first.engine.bucket.upkeep.merged_bytes
    await publish(first, log, b"last")
    count = -1
    dead = asyncio.Event()

    def fault(request: Request) -> Failed | None:
        nonlocal count
        if dead.is_set():
            return Failed("dead")
        count += 1
        if count == fatal:
            dead.set()
            if is_carried_out:
                bench.bucket.apply(request)
            return Failed("dead")
        return None

    bench.bucket.fault = fault
    dying = asyncio.ensure_future(dead.wait())
    checkpoint = asyncio.ensure_future(first.engine.checkpoint())
    await asyncio.wait([dying, checkpoint], return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    has_died = dead.is_set()
    if not has_died:
        assert first.engine.bucket.upkeep.merged_bytes > 0, "the test is to cover a merge"
    assert first.engine._checkpoint is not None
    first.engine._checkpoint.cancel()
    await asyncio.wait([checkpoint])
    await first.kill()
    told.killed()
    bench.bucket.fault = lambda request: None
    second = await bench.broker(entries_max=5)
    found = await look(second)
    await publish(second, found, b"on")
    await second.engine.checkpoint()
    await look(second)
    named = live_sizes(image_of(bench).extents).keys()
    assert set(bench.keys("pack/")) == named, "what the kill left is collected"
    assert bench.keys("image/") == [bench.manifest.image]
    await second.kill()
    told.killed()
    third = await bench.broker(entries_max=5)
    assert len(await third.read(await look(third))) == FAN + 2
    assert told.anomalies() == []
    return has_died


def lives(tmp_path: Path, is_carried_out: bool) -> int:
    """A life for each request of the checkpoint that merges; how many there were."""
    fatal, goes_on = 0, True
    while goes_on:

        async def test(bench: Bench, fatal: int = fatal) -> None:
            nonlocal goes_on
            goes_on = await life(bench, fatal, is_carried_out)

        on_loop(tmp_path / f"{fatal}", test)
        fatal += 1
    return fatal


@pytest.mark.slow
@pytest.mark.parametrize("is_carried_out", [False, True], ids=["before", "after"])
def test_a_kill_at_any_step_of_a_merge_loses_nothing(is_carried_out: bool, tmp_path: Path) -> None:
    """The kill comes before the request is carried out, or after it and before its answer."""
    # Each pack that is read, each that is written, the image, the manifest, each deletion.
    assert lives(tmp_path, is_carried_out) > 2 * FAN


def test_packs_that_are_deleted_before_the_manifest_is_moved_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge_rightly = BucketEngine._merge

    async def merge_wrongly(self: BucketEngine) -> None:
        before = packs_of(self._extents)
        await merge_rightly(self)
        await perform(self.objects, deleted(sorted(before - packs_of(self._extents))))

    monkeypatch.setattr(BucketEngine, "_merge", merge_wrongly)
    with pytest.raises((AssertionError, MilepostError, OSError)):
        lives(tmp_path, is_carried_out=False)


def test_ledgers_are_read_while_their_packs_are_merged(tmp_path: Path) -> None:
    """The old packs are gone at once here, and a reader finds the new ones."""

    async def test(bench: Bench) -> None:
        first = await bench.broker(entries_max=1000)
        payloads = await grow(bench, first, 5)
        await first.kill()
        second = await bench.broker(entries_max=1000)
        log = await second.found("a")
        for n in range(2 * FAN):
            other = await second.topic(f"b{n}")
            await second.publish(other, b"x")
            await second.engine.checkpoint()
        assert second.engine.bucket.upkeep.merged_bytes > 0
        assert await second.read(log) == payloads

    on_loop(tmp_path, test)
