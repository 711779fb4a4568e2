"""The protocol of the chain as a small model, searched completely.

The model knows nothing of `chain.py`: it is the argument for the protocol itself. Three brokers contend for
one bucket. Each GET, PUT, replacement and deletion is a step of its own, and a broker may stop between any
two of them for ever, or go on when others have long taken over. In every state that can be reached

- each group that was answered is found by the next reader (in the image, or in the chain), and
- what the present owner found when it took over is still what a reader finds.

Rules that look as if they could be left out are left out one at a time; the search has to find the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

# A plan says what a broker does once it owns the chain: d adds a group, c makes a checkpoint.
WINDOW = 2
Place = tuple[int, int]
Item = tuple[int, int]  # broker, number of the step in its plan
SEAL: Item = (-1, -1)


@dataclass(frozen=True)
class Broker:
    """What one broker knows, and how far it is."""

    phase: str = "begin"  # begin, replacing, reading, sealing, owner, stopped
    seen: tuple[int, Place, frozenset[Item]] | None = None  # the manifest as it was read
    epoch: int = 0
    at: Place = (0, 0)
    found: tuple[Item, ...] = ()  # read from the chain, behind the image
    image: frozenset[Item] = frozenset()
    done: int = 0  # steps of the plan
    next: int = 0  # number of the next group
    flying: tuple[tuple[int, Item], ...] = ()
    landed: tuple[tuple[int, Item], ...] = ()


@dataclass(frozen=True)
class World:
    objects: frozenset[tuple[Place, Item]]
    manifest: tuple[int, Place, frozenset[Item]]
    brokers: tuple[Broker, ...]
    answered: frozenset[Item]


def steps(world: World, plans: tuple[str, ...], without: str) -> Iterator[World]:
    for name, broker in enumerate(world.brokers):
        for new, changes in broker_steps(world, name, broker, plans[name], without):
            brokers = (*world.brokers[:name], new, *world.brokers[name + 1 :])
            yield replace(world, brokers=brokers, **changes)
    for place, item in world.objects:
        if place < world.manifest[1] and (item != SEAL or without == "keeping seals"):
            yield replace(world, objects=world.objects - {(place, item)})


def broker_steps(
    world: World, name: int, me: Broker, plan: str, without: str
) -> Iterator[tuple[Broker, dict[str, object]]]:
    objects = dict(world.objects)
    if me.phase == "begin":
        yield replace(me, phase="replacing", seen=world.manifest), {}
    elif me.phase == "replacing":
        assert me.seen is not None
        if world.manifest != me.seen and without != "conditions on the manifest":
            yield replace(me, phase="begin"), {}
        else:
            epoch, floor, image = me.seen
            new = replace(me, phase="reading", epoch=epoch + 1, at=floor, image=image, seen=None)
            yield new, {"manifest": (epoch + 1, floor, image)}
    elif me.phase in ("reading", "sealing"):
        yield from takeover_steps(me, objects, world, without)
    elif me.phase == "owner":
        yield from owner_steps(me, name, plan, objects, world, without)
    else:  # what was on its way when the broker stopped may still arrive
        for one in me.flying:
            number, item = one
            rest = tuple(other for other in me.flying if other != one)
            if (me.epoch, number) in objects:
                yield replace(me, flying=rest), {}
            else:
                landing = world.objects | {((me.epoch, number), item)}
                yield replace(me, flying=rest), {"objects": landing}


def takeover_steps(
    me: Broker, objects: dict[Place, Item], world: World, without: str
) -> Iterator[tuple[Broker, dict[str, object]]]:
    epoch, number = me.at
    following = replace(me, phase="reading", at=(epoch + 1, 0))
    if epoch >= me.epoch:
        yield replace(me, phase="owner"), {}
    elif me.phase == "reading":
        if me.at not in objects:
            yield (following if without == "seals" else replace(me, phase="sealing")), {}
        elif objects[me.at] == SEAL:
            yield following, {}
        else:
            yield replace(me, at=(epoch, number + 1), found=(*me.found, objects[me.at])), {}
    elif me.at in objects:
        yield replace(me, phase="reading"), {}
    else:
        yield following, {"objects": world.objects | {(me.at, SEAL)}}


def owner_steps(
    me: Broker, name: int, plan: str, objects: dict[Place, Item], world: World, without: str
) -> Iterator[tuple[Broker, dict[str, object]]]:
    step = plan[me.done : me.done + 1]
    open_count = len(me.flying) + len(me.landed)
    first = me.next - open_count
    if step == "d" and open_count < WINDOW:
        flying = (*me.flying, (me.next, (name, me.done)))
        yield replace(me, next=me.next + 1, done=me.done + 1, flying=flying), {}
    if step == "c":
        image = me.image | set(me.found)
        if world.manifest[0] == me.epoch or without == "conditions on the manifest":
            floor = (me.epoch, first)
            new = replace(me, done=me.done + 1, image=image, found=())
            yield new, {"manifest": (me.epoch, floor, image)}
        else:
            yield replace(me, phase="stopped", landed=()), {}
    for one in me.flying:
        number, item = one
        rest = tuple(other for other in me.flying if other != one)
        if (me.epoch, number) in objects:
            yield replace(me, phase="stopped", flying=rest, landed=()), {}
        else:
            landed = tuple(sorted((*me.landed, one)))
            landing = world.objects | {((me.epoch, number), item)}
            yield replace(me, flying=rest, landed=landed), {"objects": landing}
    if me.landed and (me.landed[0][0] == first or without == "answers in order"):
        item = me.landed[0][1]
        new = replace(me, landed=me.landed[1:], found=(*me.found, item))
        yield new, {"answered": world.answered | {item}}


def readable(world: World, before_epoch: int) -> set[Item]:
    """What a reader finds in the image and in the chains of the epochs before one."""
    objects = dict(world.objects)
    _, (epoch, number), image = world.manifest
    found = set(image)
    while epoch < before_epoch:
        item = objects.get((epoch, number), SEAL)
        if item == SEAL:
            epoch, number = epoch + 1, 0
        else:
            found.add(item)
            number += 1
    return found


def violation(world: World) -> str | None:
    missing = world.answered - readable(world, world.manifest[0] + 1)
    if missing:
        return f"answered and not found: {missing}"
    for name, broker in enumerate(world.brokers):
        if broker.phase == "owner" and broker.epoch == world.manifest[0]:
            known = {item for item in (*broker.image, *broker.found) if item[0] != name}
            there = {item for item in readable(world, broker.epoch) if item[0] != name}
            if known != there:
                return f"the past has changed: {there} in place of {known}"
    return None


def search(plans: tuple[str, ...], without: str = "") -> tuple[int, str | None]:
    """Every state that can be reached: how many there are, or the first violation."""
    begin = World(
        frozenset(), (0, (1, 0), frozenset()), tuple(Broker() for _ in plans), frozenset()
    )
    seen, waiting = {begin}, [begin]
    for world in waiting:
        for new in steps(world, plans, without):
            if new not in seen:
                if wrong := violation(new):
                    return len(seen), wrong
                seen.add(new)
                waiting.append(new)
    return len(seen), None


@pytest.mark.parametrize("plans", [("dd", "d"), ("dc", "dd"), ("dcd", "d"), ("d", "c", "d")])
def test_no_answered_group_is_lost_in_any_order_of_steps(plans: tuple[str, ...]) -> None:
    count, wrong = search(plans)
    assert wrong is None
    assert count > 200


@pytest.mark.slow
def test_three_brokers_with_checkpoints_lose_nothing() -> None:
    count, wrong = search(("dd", "dcd", "d"))
    assert wrong is None
    assert count > 50_000


@pytest.mark.parametrize(
    ("without", "plans"),
    [
        ("seals", ("dd", "d")),
        ("answers in order", ("dd", "d")),
        ("conditions on the manifest", ("dc", "dc")),
        ("keeping seals", ("d", "dc", "c")),
    ],
)
def test_every_rule_is_needed(without: str, plans: tuple[str, ...]) -> None:
    _, wrong = search(plans, without)
    assert wrong is not None
