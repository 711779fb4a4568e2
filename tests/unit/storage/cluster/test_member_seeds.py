"""Several brokers of a cluster under a scheduler that may do anything to a request, and to a broker.

The real steps run on one bucket in memory: notices, looks, claims, seals, groups, checkpoints, releases. The
scheduler takes one request at a time and carries it out, or fails it, or carries it out and loses the answer,
or fails it and carries it out much later. It kills brokers, starts others, lets them sleep for many seconds,
lets them leave, has them fetch shards from each other, and tells lies about who is dead. Whatever it does, in
every shard

- a broker that takes over finds every group that was ever answered, in order;
- the past never changes, and a group that a slow owner answers later is in it already: one owner writes;
- when all faults are over, every shard has one owner, and no broker has two more than another.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest
from stage.board import looked
from stage.counts import examples

from milepost.errors import Fenced
from milepost.storage.bucket import chain
from milepost.storage.bucket.chain import Claim, Group, Window
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.manifest import Manifest, Place
from milepost.storage.bucket.objects import (
    Failed,
    Pause,
    Reply,
    Request,
    Steps,
    deleted,
    fetched,
    listed,
    stored,
)
from milepost.storage.cluster.document import shard_prefix
from milepost.storage.cluster.member import Close, Give, Member, Open, Order, manifest_read
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.part import within, without
from milepost.testing.bucket import MemoryBucket

SHARDS = 3
WINDOW = 2
TURN_S = 1.0


class Fiber:
    """Steps that are under way, and the request that they wait for."""

    def __init__(
        self, steps: Steps[object], then: Callable[[object], None], prefix: str = ""
    ) -> None:
        self._steps = steps
        self._then = then
        self._prefix = prefix
        self.request: Request | None = None
        self._go(None)

    def resume(self, reply: Reply) -> None:
        self._go(without(self._prefix, reply))

    def _go(self, reply: Reply | None) -> None:
        try:
            request = self._steps.send(reply)  # type: ignore[arg-type]
            self.request = within(self._prefix, request) if self._prefix else request
        except StopIteration as end:
            self.request = None
            self._then(end.value)


class Owner:
    """A shard of a broker: claims it, finds its past, adds to it, gives it back or hands it over."""

    def __init__(self, broker: Broker, shard: int, epoch: int | None) -> None:
        """Without an epoch another owner hands the shard over."""
        self.broker, self.world, self.shard = broker, broker.world, shard
        self.fibers: list[Fiber] = []
        self.past: list[str] = []
        self.sent: dict[Place, str] = {}
        self.claim: Claim | None = None
        self.window: Window | None = None
        self.is_checkpointing = self.is_closing = False
        self.successor: Owner | None = None
        if epoch is not None:
            self.take(epoch)

    def take(self, epoch: int) -> None:
        name, nonce = self.broker.member.name, self.world.nonce
        self.start(chain.claimed("test", name, nonce, epoch), self.claimed)

    def start(self, steps: Steps[object], then: Callable[[object], None]) -> None:
        self.fibers = [one for one in self.fibers if one.request is not None]
        self.fibers.append(Fiber(steps, then, shard_prefix(self.shard)))

    def claimed(self, claim: object) -> None:
        assert isinstance(claim, Claim)
        self.claim = claim
        self.start(self.taking_over(claim), self.owns)

    def taking_over(self, claim: Claim) -> Steps[object]:
        image: list[str] = []
        if claim.manifest.image:
            found = yield from fetched(claim.manifest.image)
            if found is None:  # a later owner's checkpoint has replaced it
                raise Fenced("the image is gone")
            image = json.loads(found.data)
        groups = yield from chain.sealed_groups(claim)
        return image + [group.body.decode() for group in groups]

    def owns(self, past: object) -> None:
        assert self.claim is not None
        assert isinstance(past, list)
        epoch = self.claim.manifest.epoch
        if self.world.epoch(self.shard) == epoch:  # else it is fenced, and finds out later
            self.world.judge(self.shard, past)
        self.past = past
        self.window = Window(epoch)
        self.broker.member.opened(self.shard, Seat(epoch, "host", 1, -1, 2))

    def act(self) -> None:
        """Something that an owner does by itself."""
        window, claim = self.window, self.claim
        if window is None or claim is None:
            return
        if self.is_closing:
            if not window.in_flight and not self.is_checkpointing:
                self.window = None
                if (successor := self.successor) is not None:
                    # It serves no more, and stays until the other one does, or does not.
                    if successor.broker.owners.get(self.shard) is successor:
                        successor.take(claim.manifest.epoch)
                    if self.world.random.random() < 0.5:
                        self.broker.lose(self)
                        return
                nonce = self.world.nonce()
                self.start(chain.released(claim, nonce), lambda _: self.broker.lose(self))
        elif window.in_flight < WINDOW and self.world.random.random() < 0.8:
            place = window.send()
            self.sent[place] = (
                f"{self.broker.member.name}-{self.shard}-{place.epoch}-{place.number}"
            )
            group = Group(place, 1, (self.sent[place].encode(),))
            self.start(chain.added(claim.nonce, group), lambda _: self.landed(place))
        elif not self.is_checkpointing:
            self.is_checkpointing = True
            floor = window.next_place
            floor = floor._replace(number=floor.number - window.in_flight)
            self.start(self.checkpoint(claim, floor, list(self.past)), lambda _: None)

    def landed(self, place: Place) -> None:
        assert self.window is not None
        for one in self.window.landed(place):
            self.past.append(self.sent[one])
            self.world.answer(self.shard, place.epoch, self.sent[one])

    def checkpoint(self, claim: Claim, floor: Place, items: list[str]) -> Steps[object]:
        key = f"image/{self.world.nonce()}"
        yield from stored(key, json.dumps(items).encode())
        self.claim = yield from chain.moved(claim, floor, key, self.world.nonce())
        keys = chain.collectable((yield from listed(chain.FOLDER)), floor)
        yield from deleted([*keys, *filter(None, [claim.manifest.image])])
        self.is_checkpointing = False
        return None


class Broker:
    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.member = Member(Notice(name, "host", "m", 1, 0, 1, "", "", "", False, {}), SHARDS)
        self.owners: dict[int, Owner] = {}
        self.sleeps_until = 0.0
        self.turn_due = 0.0
        self.turning: Fiber | None = None

    def turn(self) -> Steps[list[Order]]:
        member, now = self.member, lambda: self.world.now
        yield from member.said(now())
        if not (yield from looked(member, now)):
            return []
        manifests: dict[int, Reply] = {}
        for shard in member.free():
            manifests[shard] = yield from manifest_read(shard)
        orders = member.decided(manifests)
        if any(isinstance(one, Open) for one in orders):
            yield from member.said(now())
        return list(orders)

    def turned(self, orders: object) -> None:
        assert isinstance(orders, list)
        self.turning, self.turn_due = None, self.world.now + TURN_S
        for order in orders:
            if isinstance(order, Open):
                self.owners[order.shard] = Owner(self, order.shard, order.epoch)
            elif (owner := self.owners.get(order.shard)) is not None:
                if isinstance(order, Close):
                    owner.is_closing = True
                elif isinstance(order, Give):
                    if not self.world.fetch(owner, order.broker):
                        self.member.declined(order.shard)
                else:
                    self.lose(owner)

    def lose(self, owner: Owner) -> None:
        """A shard is not served any more; what was on its way may still arrive."""
        self.world.strays += [one.request for one in owner.fibers if one.request is not None]
        owner.fibers.clear()
        if self.owners.get(owner.shard) is owner:
            del self.owners[owner.shard]
            self.member.ended(owner.shard, self.world.now)
        heir = owner.successor
        if heir is not None and heir.claim is None and not heir.fibers:
            heir.broker.lose(heir)  # it was never asked to take over

    def waiting(self) -> list[tuple[Fiber, Owner | None]]:
        own = [(one, owner) for owner in self.owners.values() for one in owner.fibers]
        every = [*own, *([] if self.turning is None else [(self.turning, None)])]
        return [(fiber, owner) for fiber, owner in every if fiber.request is not None]

    def step(self, reply_to: Callable[[Request], Reply]) -> None:
        world = self.world
        if self.turning is None and world.now >= self.turn_due and not self.member.has_left:
            self.turning = Fiber(self.turn(), self.turned)  # type: ignore[arg-type]
        waiting = self.waiting()
        if self.owners and (not waiting or world.random.random() < 0.3):
            world.random.choice(list(self.owners.values())).act()
        elif waiting:
            fiber, owner = world.random.choice(waiting)
            assert fiber.request is not None
            try:
                fiber.resume(reply_to(fiber.request))
            except Fenced:
                assert owner is not None
                self.lose(owner)


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bucket = MemoryBucket()
        self.brokers: list[Broker] = []
        self.strays: list[Request] = []
        self.answered: dict[int, list[str]] = {shard: [] for shard in range(SHARDS)}
        self.known: dict[int, list[str]] = {shard: [] for shard in range(SHARDS)}
        self.known_epoch = dict.fromkeys(range(SHARDS), 0)
        self.takeovers = self.moves = 0
        self.now = 0.0
        self._names = 0

    def nonce(self) -> str:
        return self.random.randbytes(16).hex()

    def manifest(self, shard: int) -> Manifest:
        return Manifest.decode(self.bucket.objects[shard_prefix(shard) + MANIFEST])

    def epoch(self, shard: int) -> int:
        return self.manifest(shard).epoch

    def judge(self, shard: int, past: list[str]) -> None:
        """A broker has taken a shard over, and found this."""
        known = self.known[shard]
        assert past[: len(known)] == known, "the past has changed"
        missing = [item for item in self.answered[shard] if item not in set(past)]
        assert not missing, f"answered and lost: {missing}"
        assert len(set(past)) == len(past), "doubled"
        self.known[shard], self.known_epoch[shard] = past, self.epoch(shard)
        self.takeovers += 1

    def answer(self, shard: int, epoch: int, item: str) -> None:
        self.answered[shard].append(item)
        if epoch < self.known_epoch[shard]:
            assert item in self.known[shard], "a former owner wrote"

    def fetch(self, owner: Owner, name: str) -> bool:
        """Have a broker fetch a shard; False if it does not, or cannot be asked."""
        found = next((one for one in self.brokers if one.member.name == name), None)
        if found is None or self.now < found.sleeps_until or owner.is_closing:
            return False
        if found.member.asked(owner.shard) is not None:
            return False
        found.turn_due = self.now  # it says so at once
        found.owners[owner.shard] = owner.successor = Owner(found, owner.shard, None)
        owner.is_closing = True
        self.moves += 1
        return True

    def begin(self) -> None:
        self._names += 1
        self.brokers.append(Broker(self, f"b{self._names}"))

    def end(self, broker: Broker) -> None:
        for owner in list(broker.owners.values()):
            broker.lose(owner)
        if broker.turning is not None and broker.turning.request is not None:
            self.strays.append(broker.turning.request)
        self.brokers.remove(broker)
        for other in self.brokers:
            if self.random.random() < 0.5:
                other.member.board.refused(broker.member.name)

    def run(self, steps: int) -> None:
        random = self.random
        self.begin()
        for _ in range(steps):
            self.now += random.random() * 0.1
            luck = random.random()
            if luck < 0.01 and len(self.brokers) < 4:
                self.begin()
            elif luck < 0.014 and len(self.brokers) > 1:
                self.end(random.choice(self.brokers))
            elif luck < 0.018:
                random.choice(self.brokers).sleeps_until = self.now + random.choice((1, 8, 30))
            elif luck < 0.02:
                random.choice(self.brokers).member.leave()
            elif luck < 0.03:  # a lie
                one, other = random.choice(self.brokers), random.choice(self.brokers)
                one.member.board.refused(other.member.name)
            elif luck < 0.035:  # an operator moves a shard
                one, other = random.choice(self.brokers), random.choice(self.brokers)
                if one.owners:
                    owner = random.choice(list(one.owners.values()))
                    if owner.window is not None:
                        self.fetch(owner, other.member.name)
            elif luck < 0.05 and self.strays:
                self.bucket.apply(self.strays.pop(random.randrange(len(self.strays))))
            awake = [one for one in self.brokers if self.now >= one.sleeps_until]
            if not awake:
                self.now += 1.0
                continue
            random.choice(awake).step(self.faulty)
            for broker in [one for one in self.brokers if one.member.has_left]:
                self.end(broker)
            if not self.brokers:
                self.begin()

    def faulty(self, request: Request) -> Reply:
        luck = self.random.random()
        if luck < 0.05 and not isinstance(request, Pause):
            return Failed("not carried out")
        if luck < 0.08 and not isinstance(request, Pause):
            self.strays.append(request)
            return Failed("will be carried out later")
        reply = self.bucket.apply(request)
        return Failed("the answer was lost") if luck < 0.13 else reply

    def settle(self) -> None:
        """Every fault is over: all shards find an owner each, and the brokers share them."""
        for request in self.strays:
            self.bucket.apply(request)
        self.strays.clear()
        if all(one.member.notice.is_leaving for one in self.brokers):
            self.begin()
        for broker in self.brokers:
            broker.sleeps_until = 0.0
        for _ in range(6000):
            self.now += 0.02
            self.random.choice(self.brokers).step(self.bucket.apply)
            for broker in [one for one in self.brokers if one.member.has_left]:
                self.end(broker)
            if self.is_settled():
                break
        assert self.is_settled(), f"not settled: {[one.member.notice for one in self.brokers]}"

    def is_settled(self) -> bool:
        staying = [one for one in self.brokers if not one.member.notice.is_leaving]
        counts = [len(one.owners) for one in staying]
        owned = [
            owner
            for one in staying
            for owner in one.owners.values()
            if owner.window is not None
            and not owner.is_closing
            and owner.claim is not None
            and self.manifest(owner.shard).owner == one.member.name
            and self.epoch(owner.shard) == owner.claim.manifest.epoch
        ]
        return (
            {one.shard for one in owned} == set(range(SHARDS))
            and len(owned) == SHARDS == sum(counts)
            and max(counts) - min(counts) < 2
        )


def judged(seeds: range, steps: int) -> None:
    takeovers = answered = moves = 0
    for seed in seeds:
        world = World(seed)
        try:
            world.run(steps)
            world.settle()
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
        takeovers += world.takeovers
        moves += world.moves
        answered += sum(map(len, world.answered.values()))
    # The search is worth something: shards changed hands, and groups were answered.
    assert takeovers > len(seeds) * 5
    assert moves > len(seeds)
    assert answered > len(seeds) * 10


def test_whatever_happens_no_answered_group_is_lost_and_every_shard_finds_an_owner() -> None:
    judged(range(100), 1200)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_more_seeds(part: int) -> None:
    first = 100 + part * examples(250)
    judged(range(first, first + examples(250)), 1500)


@pytest.mark.parametrize("rule", ["seals stay", "earlier epochs are sealed", "answers in order"])
def test_the_scheduler_finds_a_rule_that_was_left_out(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "seals stay":
        monkeypatch.setattr(chain, "is_seal_size", lambda size: False)
    elif rule == "answers in order":
        monkeypatch.setattr(Window, "landed", lambda self, place: [place])
    else:
        monkeypatch.setattr(chain, "created", unsealed)
    with pytest.raises(AssertionError, match="seed"):
        judged(range(1500), 1500)


def unsealed(key: str, data: bytes) -> Steps[str | None]:
    """Create an object, but no seal."""
    from milepost.storage.bucket.objects import created

    if data[4:8] == chain.SEAL:
        return ""
    return (yield from created(key, data))
