"""Moves shards to a broker that an operator has chosen.

    await move(broker, [3], "broker-2:8080")

The broker is named as `milepost brokers list` shows it, or by its name on the board. Its agent is asked to
fetch each shard, one after the other: two at a time would slow each other down while clients wait. The shard
of the process that is asked comes last, since that process ends with it. What was moved so stays where it is:
the brokers do not balance it away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from milepost.broker.workers.placement import ClusterPlacement
from milepost.errors import CallCut, NotAllowed, PreconditionFailed, ServiceNotReady
from milepost.storage.cluster import hail
from milepost.storage.cluster.notice import Notice

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# How long a shard may take to arrive.
ARRIVE_S: Final = 30.0
_LOOK_S: Final = 0.02


async def move(broker: Broker, shards: Iterable[int], destination: str) -> list[int]:
    """Have a broker fetch shards; which of them it did not have yet. Returns when it serves them. If one does
    not come, the refusal says which others have."""
    workers = broker.workers
    placement = None if workers is None else workers.placement
    if workers is None or not isinstance(placement, ClusterPlacement):
        raise NotAllowed(
            f"nothing can be moved to {destination!r}: this broker is alone, not one of a cluster "
            "(`serve --bucket … --shards N`)"
        )
    to = broker_named(placement.brokers, destination)
    wanted = sorted(set(shards), key=lambda shard: (shard == placement.own, shard))
    away = [shard for shard in wanted if placement.owner(shard).broker != to.broker]
    if wanted and not away:
        raise PreconditionFailed(f"broker {destination!r} serves all of it already")
    place = workers.place
    for number, shard in enumerate(away):
        question = {"fetch": shard, "stays": True, "to": to.broker}
        try:
            await hail.ask(to.host, to.hail_port, place.secret, question, place.tls)
            await arrived(placement, shard, to)
        except CallCut as error:
            raise CallCut(f"{error}: shard {shard} may come yet{_come(away[:number])}") from None
        except ServiceNotReady as error:
            raise ServiceNotReady(f"{error}{_come(away[:number])}") from None
    return away


def _come(shards: list[int]) -> str:
    return f"; it has got shards {', '.join(map(str, shards))}" if shards else ""


async def arrived(placement: ClusterPlacement, shard: int, to: Notice) -> None:
    """Return when a broker serves a shard; `ServiceNotReady` when it has given up, `CallCut` if it takes too
    long."""
    is_begun = False
    try:
        async with asyncio.timeout(ARRIVE_S):
            while not placement.is_served_by(shard, to.broker):
                there = [one.shards for one in placement.brokers if one.broker == to.broker]
                if is_begun and not any(shard in shards for shards in there):
                    raise ServiceNotReady(
                        f"broker {to.broker} could not fetch shard {shard}; its log says why"
                    )
                # A notice with a seat of the shard is of the time before it was given away.
                is_begun |= any(shard in shards and shards[shard] is None for shards in there)
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        raise CallCut(
            f"shard {shard} has not come to broker {to.broker} within {ARRIVE_S:g} s; its log says why"
        ) from None


def broker_named(brokers: list[Notice], name: str) -> Notice:
    """The living broker of a name or an address; `PreconditionFailed` if there is none, or more than one."""
    named = [one for one in brokers if name in (one.broker, one.address)]
    if not named:
        there = ", ".join(sorted(one.address for one in brokers))
        raise PreconditionFailed(f"there is no living broker {name!r}; there are: {there}")
    if len(named) > 1:
        names = ", ".join(sorted(one.broker for one in named))
        raise PreconditionFailed(
            f"{len(named)} brokers say that they are at {name!r}: {names}; name one of them, and give "
            "each an advertised_address of its own"
        )
    if named[0].is_leaving:
        raise PreconditionFailed(f"broker {name!r} is about to end")
    return named[0]
