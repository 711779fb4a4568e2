"""The steps of the chain under a scheduler that may do anything to a request.

Several brokers run the real steps on one bucket. At each turn the scheduler takes one request of one broker
and carries it out, or fails it, or carries it out and loses the answer, or fails it and carries it out much
later; it kills brokers and starts others, and lets any of them sleep. Whatever it does,

- a broker that takes over finds every group that was ever answered, in order, and
- it finds all that earlier owners found, at the same places: the past never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random

import pytest

from milepost.errors import Fenced
from milepost.storage.bucket import chain
from milepost.storage.bucket.chain import Claim, Group, Window
from milepost.storage.bucket.manifest import Place
from milepost.storage.bucket.objects import (
    Create,
    Done,
    Failed,
    Pause,
    Request,
    Steps,
    deleted,
    fetched,
    listed,
    stored,
)
from milepost.testing.bucket import MemoryBucket

WINDOW = 3


@pytest.fixture(autouse=True)
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "WINDOW", WINDOW)  # what a gap proves is judged by it


class Fiber:
    """Steps that are under way, and the request that they wait for."""

    def __init__(self, steps: Steps[object], then: Callable[[object], None]) -> None:
        self._steps = steps
        self._then = then
        self.request: Request | None = next(steps, None)
        if self.request is None:
            then(None)

    def resume(self, reply: object) -> None:
        try:
            self.request = self._steps.send(reply)  # type: ignore[arg-type]
        except StopIteration as end:
            self.request = None
            self._then(end.value)


class Broker:
    """An owner, or one that wants to be: what its fibers do when they are done."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.fibers: list[Fiber] = []
        self.image: list[str] = []
        self.past: list[str] = []  # everything answered or replayed, in order
        self.claim: Claim | None = None
        self.window: Window | None = None
        self.sent: dict[Place, str] = {}
        self.checkpointing = False
        self.start(chain.claimed("test", name, world.nonce), self.claimed)

    def start(self, steps: Steps[object], then: Callable[[object], None]) -> None:
        self.fibers.append(Fiber(steps, then))

    # -- taking over -------------------------------------------------------------------------------

    def claimed(self, claim: object) -> None:
        assert isinstance(claim, Claim)
        self.claim = claim
        self.start(self.taking_over(claim), self.owns)

    def taking_over(self, claim: Claim) -> Steps[object]:
        image: list[str] = []
        if claim.manifest.image:
            found = yield from fetched(claim.manifest.image)
            # None: a later owner's checkpoint has replaced it, and this one is fenced already.
            image = json.loads(found.data) if found is not None else None
        there = yield from listed(chain.FOLDER)
        places = [(place, size) for key, size in there if (place := chain.place_of(key))]
        yield from chain.checked_whole(claim, places)  # no order of steps looks like a loss
        groups = yield from chain.sealed_groups(claim)
        return None if image is None else image + [group.body.decode() for group in groups]

    def owns(self, past: object) -> None:
        assert self.claim is not None
        if past is None:
            raise Fenced("the image is gone")
        assert isinstance(past, list)
        if (
            self.world.epoch() == self.claim.manifest.epoch
        ):  # else it is fenced, and finds out later
            self.world.judge(past)
        self.past = past
        self.window = Window(self.claim.manifest.epoch)

    # -- owning ------------------------------------------------------------------------------------

    def act(self) -> None:
        """Something that an owner does by itself."""
        if self.window is None or self.claim is None:
            return
        if self.window.in_flight < WINDOW and self.world.random.random() < 0.8:
            place = self.window.send()
            item = f"{self.name}-{place.number}"
            self.sent[place] = item
            group = Group(place, 1, (item.encode(),))
            steps = chain.added(self.claim.nonce, group)
            self.start(steps, lambda _, place=place: self.landed(place))
        elif not self.checkpointing:
            self.checkpointing = True
            floor = self.window.next_place
            floor = floor._replace(number=floor.number - self.window.in_flight)
            self.start(self.checkpoint(self.claim, floor, list(self.past)), lambda _: None)

    def landed(self, place: Place) -> None:
        assert self.window is not None
        for one in self.window.landed(place):
            self.past.append(self.sent[one])
            self.world.answered.append(self.sent[one])

    def checkpoint(self, claim: Claim, floor: Place, items: list[str]) -> Steps[object]:
        key = f"image/{self.world.nonce()}"
        yield from stored(key, json.dumps(items).encode())
        self.claim = yield from chain.moved(claim, floor, key, self.world.nonce())
        keys = chain.collectable((yield from listed(chain.FOLDER)), floor)
        yield from deleted([*keys, *filter(None, [claim.manifest.image])])
        self.checkpointing = False
        return None


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bucket = MemoryBucket()
        self.brokers: list[Broker] = []
        self.strays: list[Request] = []
        self.answered: list[str] = []
        self.takeovers = 0
        self._known: list[str] = []
        self._names = 0

    def nonce(self) -> str:
        return self.random.randbytes(16).hex()

    def epoch(self) -> int:
        return int(json.loads(self.bucket.objects["manifest"])["epoch"])

    def judge(self, past: list[str]) -> None:
        """A broker has taken over, and found this."""
        assert past[: len(self._known)] == self._known, "the past has changed"
        missing = [item for item in self.answered if item not in set(past)]
        assert not missing, f"answered and lost: {missing}"
        assert len(set(past)) == len(past), "doubled"
        self._known = past
        self.takeovers += 1

    def begin(self) -> None:
        self._names += 1
        self.brokers.append(Broker(self, f"b{self._names}"))

    def run(self, turns: int) -> None:
        for _ in range(turns):
            luck = self.random.random()
            if luck < 0.01 and len(self.brokers) < 4:
                self.begin()
            elif luck < 0.015 and len(self.brokers) > 1:
                self.kill(self.random.choice(self.brokers))
            elif luck < 0.03 and self.strays:
                self.bucket.apply(self.strays.pop(self.random.randrange(len(self.strays))))
            elif self.brokers:
                self.turn(self.random.choice(self.brokers))
            else:
                self.begin()

    def kill(self, broker: Broker) -> None:
        """What was on its way may still arrive."""
        self.strays += [fiber.request for fiber in broker.fibers if fiber.request is not None]
        self.brokers.remove(broker)

    def turn(self, broker: Broker) -> None:
        waiting = [fiber for fiber in broker.fibers if fiber.request is not None]
        if not waiting or self.random.random() < 0.3:
            broker.act()
            return
        fiber = self.random.choice(waiting)
        try:
            fiber.resume(self.reply(fiber.request))
        except Fenced:
            self.kill(broker)

    def reply(self, request: Request | None) -> object:
        assert request is not None
        luck = self.random.random()
        if luck < 0.08 and not isinstance(request, Pause):
            return Failed("not carried out")
        if luck < 0.12 and not isinstance(request, Pause):
            self.strays.append(request)
            return Failed("will be carried out later")
        reply = self.bucket.apply(request)
        return Failed("the answer was lost") if luck < 0.2 else reply

    def settle(self) -> None:
        """Every fault is over, and one more broker takes over."""
        for request in self.strays:
            self.bucket.apply(request)
        self.brokers.clear()
        self.begin()
        (last,) = self.brokers
        for _ in range(10_000):
            waiting = [fiber for fiber in last.fibers if fiber.request is not None]
            if not waiting:
                break
            waiting[0].resume(self.bucket.apply(waiting[0].request))  # type: ignore[arg-type]
        assert last.window is not None


def worlds(seeds: range, turns: int) -> Iterator[World]:
    for seed in seeds:
        world = World(seed)
        try:
            world.run(turns)
            world.settle()
        except AssertionError as wrong:
            raise AssertionError(f"seed {seed}: {wrong}") from wrong
        yield world


def judged(seeds: range, turns: int) -> None:
    takeovers = answered = 0
    for world in worlds(seeds, turns):
        takeovers += world.takeovers
        answered += len(world.answered)
    # The search is worth something: brokers did take over, and did answer.
    assert takeovers > len(seeds) * 2
    assert answered > len(seeds) * 5


def test_whatever_happens_to_requests_no_answered_group_is_lost() -> None:
    judged(range(300), 200)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_five_thousand_more_seeds_lose_nothing(part: int) -> None:
    judged(range(300 + part * 1000, 1300 + part * 1000), 200)


@pytest.mark.parametrize("rule", ["seals stay", "answers in order", "errors are settled"])
def test_the_scheduler_finds_a_rule_that_was_left_out(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rule == "seals stay":
        monkeypatch.setattr(chain, "is_seal_size", lambda size: False)
        monkeypatch.setattr(chain, "checked_whole", unchecked)  # it would find the seal gone
    elif rule == "answers in order":
        monkeypatch.setattr(Window, "landed", lambda self, place: [place])
    else:
        monkeypatch.setattr(chain, "created", taken_at_its_word)
    with pytest.raises(AssertionError, match="seed"):
        list(worlds(range(2000), 300))


def unchecked(claim: Claim, there: object) -> Steps[None]:
    yield Pause(0)


def taken_at_its_word(key: str, data: bytes) -> Steps[str | None]:
    """Create an object, and believe that an error means it is not there."""
    reply = yield Create(key, data)
    if isinstance(reply, Failed):
        reply = yield Create(key, data)
    return reply.tag if isinstance(reply, Done) else ""
