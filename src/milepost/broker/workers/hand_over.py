"""Hands a shard over from the broker that serves it to one that is ready to.

    the new process is ready, its ports are bound ─▶ "hand_over" to the owner's process
    the owner: checkpoint while it serves ─▶ HTTP calls end, later ones wait for the next owner
               ─▶ hears no more, what it heard is durable and answered ─▶ its epoch
    the new process claims that epoch, recovers, listens ─▶ "handed_over"
    the owner: CLOSE_PRODUCER and CLOSE_CONSUMER with the new address ─▶ ends

Clients are told when the new process listens, and go there without a lookup. Nothing here keeps data right:
the claim and the seals do (`storage/bucket/chain.py`). If the new process dies on the way, the owner ends all
the same after `WAIT_S` and gives the shard back; if the owner dies, the new process ends, and the shard is
claimed as after any crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.workers.link import Answer, Doc, Where, ask_at
from milepost.broker.workers.placement import ClusterPlacement
from milepost.broker.workers.workers import Place
from milepost.errors import PersistenceError, ServiceNotReady

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

logger = logging.getLogger(__name__)

# The owner's checkpoint, while it still serves.
FOLD_S: Final = 10.0
# How long the new process waits until the owner has come to rest.
REST_S: Final = 20.0
# How long the owner waits until the new process serves.
WAIT_S: Final = 5.0
# Between two looks whether the owner is there.
GLANCE_S: Final = 0.25
# So long connections are kept for clients to read where to go.
LINGER_S: Final = 0.3


class HandOver:
    """The owner's side. It hands its shard over once."""

    def __init__(
        self,
        broker: Broker,
        stop_listening: Callable[[], Awaitable[None]],
        on_begin: Callable[[], None],
    ) -> None:
        """`on_begin` is called when the shard is about to go."""
        self._broker = broker
        self._stop_listening = stop_listening
        self._on_begin = on_begin
        self._successor: Doc | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._is_taken = asyncio.Event()
        self.is_over = asyncio.Event()
        """The shard is another broker's, or is to be given back; clients know."""

    @property
    def is_under_way(self) -> bool:
        return self._successor is not None

    def listen(self) -> None:
        assert self._broker.workers is not None, "there is no other broker"
        self._broker.workers.link.answers |= {
            "hand_over": self._hand_over,
            "handed_over": self._handed_over,
        }

    async def _hand_over(self, said: Doc, body: bytes) -> Answer:
        """Come to rest; answers the epoch that the successor is to follow."""
        broker = self._broker
        assert broker.workers is not None, "there is no other broker"
        shard = broker.workers.number
        if self._successor is not None or broker.is_closing:
            raise ServiceNotReady(f"shard {shard} is being handed over or given back already")
        self._successor = said
        self._on_begin()
        logger.info("shard %d goes to broker %s", shard, said["broker"])
        try:
            await self._come_to_rest(shard)
        except BaseException:
            self.is_over.set()  # half at rest it serves no client: it ends, and gives the shard back
            raise
        self._waiting = asyncio.get_running_loop().create_task(self._send_away(said))
        return {"epoch": broker.engine.epoch}, b""

    async def _come_to_rest(self, shard: int) -> None:
        broker = self._broker
        try:
            async with asyncio.timeout(FOLD_S):
                await broker.engine.checkpoint()
        except (PersistenceError, OSError, TimeoutError) as error:
            logger.warning("no checkpoint before shard %d goes: %s", shard, error)
        assert broker.workers is not None, "there is no other broker"
        await broker.workers.gate.close()
        began = broker.clock.monotonic()
        await self._stop_listening()
        await broker.rest()
        logger.info("at rest after %.0f ms", (broker.clock.monotonic() - began) * 1000)
        # Whatever is still written meets the successor's seal: that is no failure any more.
        broker.engine.watch(on_fatal=lambda reason: logger.info("after the hand-over: %s", reason))

    async def _handed_over(self, said: Doc, body: bytes) -> Answer:
        """The successor listens; answered when the clients are told."""
        if self._waiting is None:
            raise ServiceNotReady("nothing is being handed over")
        self._is_taken.set()
        await asyncio.wait([self._waiting])
        return {}, b""

    async def _send_away(self, to: Doc) -> None:
        broker, url, url_tls = self._broker, "", ""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._is_taken.wait()
        except TimeoutError:
            logger.warning("broker %s does not take the shard over: it is given back", to["broker"])
        else:
            settings = broker.settings
            if not settings.advertised_listeners:  # else a lookup says which one a client can reach
                url = settings.worker_url("", "pulsar", to["port"], to["host"])
                url_tls = settings.worker_url("", "pulsar+ssl", to["tls_port"], to["host"])
        broker.send_away(url, url_tls)
        self.is_over.set()


class Fetched(NamedTuple):
    """A shard that its owner has come to rest with."""

    place: Place
    """With the epoch to follow."""
    owner: Where
    """Where the owner's process hears others."""


async def fetched(place: Place, host: str) -> Fetched:
    """Have the owner of the shard come to rest; `host`: where clients will find this process."""
    assert place.seat is not None, "a shard of no cluster"
    assert isinstance(place.placement, ClusterPlacement), "a shard of no cluster"
    shard, address = place.placement.own, place.placement.address(place.placement.own)
    served = place.placement.owner(shard)
    owner = Where(served.seat.host, served.seat.link_port, served.seat.epoch)
    values = {
        "broker": place.seat.broker,
        "host": host,
        "port": address.port,
        "tls_port": address.tls_port,
    }
    asking = asyncio.ensure_future(
        ask_at(owner, shard, place.secret, "hand_over", values, FOLD_S + REST_S, place.tls)
    )
    try:
        while not asking.done():
            await asyncio.wait([asking], timeout=GLANCE_S)
            if not asking.done() and not place.placement.is_served_by(shard, served.broker):
                # Lost without a sign: no connection breaks, and no other broker claims what this one fetches.
                raise ServiceNotReady(f"broker {served.broker} is gone, and shard {shard} with it")
        said = await asking
    finally:
        asking.cancel()
    return Fetched(replace(place, seat=replace(place.seat, epoch=said["epoch"])), owner)


async def taken(found: Fetched, took_ms: float) -> None:
    """Clients are served here: let the former owner send its own. It may be gone by now."""
    logger.info("claimed, recovered and listening after %.0f ms", took_ms)
    try:
        place = found.place
        shard, secret = place.placement.own, place.secret
        await ask_at(found.owner, shard, secret, "handed_over", {}, WAIT_S, place.tls)
    except ServiceNotReady as error:
        logger.info("the former owner sends no clients: %s", error)
