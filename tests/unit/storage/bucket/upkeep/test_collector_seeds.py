"""Packs, merges and deletions under a scheduler that may do anything to a request.

The brokers of `test_chain_seeds.py`, with real images: items lie in packs, packs are merged, and what no
image names is deleted a while later. Brokers that lost their claim go on until they notice. Whatever the
scheduler does,

- a broker that takes over finds every group that was ever answered, in its packs or in the journal;
- a broker that still has the claim can read every pack that it counts on;
- when all faults are over, one more checkpoint leaves nothing behind that no image names.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage.counts import examples
from unit.storage.bucket.test_chain_seeds import Broker, Fiber, World

from milepost.errors import Fenced
from milepost.storage.bucket import chain
from milepost.storage.bucket.chain import Claim
from milepost.storage.bucket.image import Extents, Image, Piece, extended, packed, packs_of
from milepost.storage.bucket.manifest import Place
from milepost.storage.bucket.objects import Steps, deleted, fetched, listed, stored
from milepost.storage.bucket.upkeep import collector, merge

PACK_SIZE = 200
FILES = 3


def encoded(items: list[str]) -> bytes:
    return b"".join(item.encode() + b"\n" for item in items)


class PackBroker(Broker):
    """A broker whose image names packs."""

    world: PackWorld

    def __init__(self, world: PackWorld, name: str) -> None:
        self.extents: Extents = {}
        self.packed = 0  # of its past, in packs
        self.garbage: list[str] = []
        self.sleeps = 0  # for so many of its turns
        super().__init__(world, name)

    # -- taking over -------------------------------------------------------------------------------

    def taking_over(self, claim: Claim) -> Steps[object]:
        past: list[str] = []
        if claim.manifest.image:
            found = yield from fetched(claim.manifest.image)
            if found is None:
                yield from chain.sealed_groups(claim)
                return None  # a later owner's checkpoint has replaced it
            image = Image.decode(found.data, claim.manifest.image)
            self.extents = image.extents
            files = yield from self.reading(image.extents)
            if files is None:
                return None
            count = int(image.catalog)
            lines = {path: data.decode().split() for path, data in files.items()}
            past = [lines[f"f{n % FILES}"][n // FILES] for n in range(count)]
            self.packed = count
        groups = yield from chain.sealed_groups(claim)
        return past + [group.body.decode() for group in groups]

    def reading(self, extents: Extents) -> Steps[dict[str, bytes] | None]:
        """The files; None if a pack is gone and so is the claim."""
        data: dict[str, bytes] = {}
        for pack in sorted(packs_of(extents)):
            found = yield from fetched(pack)
            if found is None:
                assert self.claim is not None
                if self.world.epoch() == self.claim.manifest.epoch and pack in packs_of(
                    self.extents
                ):
                    raise AssertionError(f"{pack} is gone, and the owner needs it")
                return None
            data[pack] = found.data
        return {
            path: b"".join(data[one.pack][one.start : one.start + one.size] for one in rows)
            for path, rows in extents.items()
        }

    # -- owning ------------------------------------------------------------------------------------

    def act(self) -> None:
        luck = self.world.random.random()
        if self.window is not None and self.garbage and luck < 0.2:
            self.world.sweepers.append(Fiber(self.collecting(), no_result))
        elif self.window is not None and self.extents and luck < 0.25:
            self.start(self.reading(self.extents), lambda _: None)
        else:
            super().act()

    def checkpoint(self, claim: Claim, floor: Place, items: list[str]) -> Steps[object]:
        there = yield from collector.found()
        pieces = [
            Piece(f"f{file}", sum(one.size for one in self.extents.get(f"f{file}", ())), data)
            for file in range(FILES)
            if (
                data := encoded(
                    [items[n] for n in range(self.packed, len(items)) if n % FILES == file]
                )
            )
        ]
        packs = {f"pack/{self.world.nonce()}": one for one in packed(pieces, PACK_SIZE)}
        for key, pack in packs.items():
            yield from stored(key, b"".join(piece.data for piece in pack))
        self.extents, self.packed = extended(self.extents, packs), len(items)
        yield from self.merging(there)
        key = f"image/{self.world.nonce()}"
        image = Image(b"%d" % len(items), self.extents)
        yield from self.recorded(claim, floor, key, image, there)
        keys = chain.collectable((yield from listed(chain.FOLDER)), floor)
        yield from deleted(keys)
        self.checkpointing = False
        return None

    def merging(self, there: dict[str, int]) -> Steps[None]:
        wanted = merge.chosen(self.extents, there, 10 * PACK_SIZE)
        data: dict[str, bytes] = {}
        for pack in wanted:
            found = yield from fetched(pack)
            if found is not None:
                data[pack] = found.data
        groups = merge.sources(self.extents, list(data), PACK_SIZE)
        packs = {f"pack/{self.world.nonce()}": group for group in groups}
        for key, group in packs.items():
            body = b"".join(data[one.pack][one.start : one.start + one.size] for _, _, one in group)
            yield from stored(key, body)
        self.extents = merge.relocated(self.extents, packs)
        self.world.merges += len(packs)

    def recorded(
        self, claim: Claim, floor: Place, key: str, image: Image, there: dict[str, int]
    ) -> Steps[None]:
        yield from stored(key, image.encode())
        self.claim = yield from chain.moved(claim, floor, key, self.world.nonce())
        self.garbage += collector.unnamed(there, key, image.extents)

    def collecting(self) -> Steps[None]:
        keys, self.garbage = self.garbage, []
        yield from deleted(keys)


class PackWorld(World):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.merges = 0
        self.sweepers: list[Fiber] = []
        """Deletions that go on, slowly, even if their broker has lost its claim."""

    def begin(self) -> None:
        self._names += 1
        self.brokers.append(PackBroker(self, f"b{self._names}"))

    def turn(self, broker: Broker) -> None:
        assert isinstance(broker, PackBroker)
        if self.sweepers and self.random.random() < 0.1:
            fiber = self.random.choice(self.sweepers)
            if fiber.request is None:
                self.sweepers.remove(fiber)
            else:
                fiber.resume(self.reply(fiber.request))
        elif broker.sleeps:
            broker.sleeps -= 1
        elif self.random.random() < 0.02:
            broker.sleeps = self.random.choice((10, 40, 120))
        else:
            super().turn(broker)

    def settle(self) -> None:
        super().settle()
        (last,) = self.brokers
        assert isinstance(last, PackBroker)
        assert last.window is not None
        assert last.claim is not None
        fiber = Fiber(
            last.checkpoint(last.claim, last.window.next_place, list(last.past)), no_result
        )
        while fiber.request is not None:
            fiber.resume(self.bucket.apply(fiber.request))
        for sweeper in self.sweepers:
            while sweeper.request is not None:
                sweeper.resume(self.bucket.apply(sweeper.request))
        for key in last.garbage:
            self.bucket.objects.pop(key, None)
        named = packs_of(last.extents) | {last.claim.manifest.image}
        there = {key for key in self.bucket.objects if key.startswith(("pack/", "image/"))}
        assert there == named, f"left behind: {there - named}, missing: {named - there}"


def no_result(result: object) -> None:
    """A checkpoint has no result."""


def worlds(seeds: range, turns: int) -> Iterator[PackWorld]:
    for seed in seeds:
        world = PackWorld(seed)
        try:
            world.run(turns)
            world.settle()
        except (AssertionError, Fenced) as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
        yield world


@pytest.fixture(autouse=True)
def packs_are_merged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "FAN", 2)


def judged(seeds: range, turns: int) -> None:
    takeovers = answered = merges = 0
    for world in worlds(seeds, turns):
        takeovers += world.takeovers
        answered += len(world.answered)
        merges += world.merges
    # The search is worth something.
    assert takeovers > len(seeds) * 2
    assert answered > len(seeds) * 5
    assert merges > len(seeds) // 2


def test_whatever_happens_no_pack_that_is_needed_is_deleted() -> None:
    judged(range(200), 500)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_more_seeds(part: int) -> None:
    first = 200 + part * examples(1000)
    judged(range(first, first + examples(1000)), 500)


@pytest.mark.parametrize(
    "rule",
    [
        # A thousand worlds go by before one meets it.
        pytest.param("listed before the manifest is moved", marks=pytest.mark.slow),
        "the image is stored first",
        "named packs stay",
    ],
)
def test_the_scheduler_finds_a_rule_that_was_left_out(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "listed before the manifest is moved":
        monkeypatch.setattr(PackBroker, "collecting", listed_when_deleted)
    elif rule == "the image is stored first":
        monkeypatch.setattr(PackBroker, "recorded", image_after_manifest)
    elif rule == "named packs stay":
        monkeypatch.setattr(PackBroker, "merging", deleted_with_the_merge)
    with pytest.raises(AssertionError, match="seed"):
        list(worlds(range(3000), 500))


def image_after_manifest(
    self: PackBroker, claim: Claim, floor: Place, key: str, image: Image, there: dict[str, int]
) -> Steps[None]:
    """Move the manifest, and store the image afterwards."""
    self.claim = yield from chain.moved(claim, floor, key, self.world.nonce())
    yield from stored(key, image.encode())
    self.garbage += collector.unnamed(there, key, image.extents)


def listed_when_deleted(self: PackBroker) -> Steps[None]:
    """List what is there and delete what the own image does not name: the claim may be over by then."""
    assert self.claim is not None
    self.garbage = []
    there = yield from collector.found()
    if not self.checkpointing:
        yield from deleted(collector.unnamed(there, self.claim.manifest.image, self.extents))


_merging = PackBroker.merging


def deleted_with_the_merge(self: PackBroker, there: dict[str, int]) -> Steps[None]:
    """Delete packs as soon as they are merged, while the manifest's image still names them."""
    before = packs_of(self.extents)
    yield from _merging(self, there)
    yield from deleted(sorted(before - packs_of(self.extents)))
